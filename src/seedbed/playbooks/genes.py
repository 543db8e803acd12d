"""Genes: the leaves of a playbook that may evolve, as one flat mapping with types and bounds.

`flatten` gives every leaf of a playbook, and `build` assembles them again; diff and merge work on those. `genes` are
the leaves that may evolve: texts, numbers, choices and demos, but not rules, structure or anything locked. A parameter
that the rules use as their threshold may only rise. Every change by genes goes through `with_genes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from seedbed.errors import PlaybookError, Problem, shown
from seedbed.playbooks.conditions import MOST_ROUNDS, Until, fewest_rounds
from seedbed.playbooks.playbook import MAX_TEXT, Parameter, Playbook, as_playbook
from seedbed.playbooks.rules import locks
from seedbed.playbooks.steps.tool_use import MOST_CALL_ROUNDS
from seedbed.playbooks.values import is_number, thaw
from seedbed.playbooks.word_diff import changed_parts, shared_words
from seedbed.storage.store import Json, canonical

GeneKind = Literal["text", "number", "integer", "choice", "demos"]


@dataclass(frozen=True, slots=True)
class Gene:
    """One leaf that may evolve: its value, and which other values it may take.

    `span` is the declared width of the range of a number, if there is one; `low` may be higher than the declared one,
    as a threshold only rises.
    """

    path: str
    kind: GeneKind
    value: Any
    low: float | None = None
    high: float | None = None
    options: tuple[Any, ...] = ()
    span: float | None = None

    def problem(self, value: Any) -> Problem | None:
        """What is wrong with a new value, if anything."""
        match self.kind:
            case "text":
                fits = isinstance(value, str) and len(value) <= MAX_TEXT
                expected = f"text of at most {MAX_TEXT:,} characters"
            case "number" | "integer":
                whole = self.kind == "integer"
                fits = is_number(value) and (not whole or float(value).is_integer()) and self._within(value)
                expected = f"{'a whole number' if whole else 'a number'}{self._range()}"
            case "choice":
                fits = value in self.options if self.options else isinstance(value, str) and bool(value)
                expected = f"one of {', '.join(map(shown, self.options))}" if self.options else "a name"
            case "demos":
                fits = isinstance(value, list | tuple) and all(isinstance(demo, Mapping) for demo in value)
                expected = "a list of demos"
        return None if fits else Problem(self.path, shown(value), expected)

    def distance(self, value: Any) -> float:
        """How far another value of this gene is: 0 for the same, 1 for nothing in common."""
        match self.kind:
            case "text":
                return text_distance(self.value, value)
            case "number" | "integer":
                # Without bounds the larger of the two is the only scale.
                scale = self.span or max(abs(self.value), abs(value))
                return min(1.0, abs(self.value - value) / scale) if scale else 0.0
            case "choice":
                return float(self.value != value)
            case "demos":
                mine, yours = {canonical(demo) for demo in self.value}, {canonical(demo) for demo in value}
                return 1 - len(mine & yours) / len(mine | yours) if mine | yours else 0.0

    @property
    def length(self) -> int:
        """How many characters it adds to prompts."""
        match self.kind:
            case "text":
                return len(self.value)
            case "demos":
                return sum(len(demo["output"]) + sum(map(len, demo["inputs"].values())) for demo in self.value)
            case _:
                return 0

    def _within(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def _range(self) -> str:
        low = f" from {self.low:g}" if self.low is not None else ""
        return low + (f" up to {self.high:g}" if self.high is not None else "")


# Leaves


def flatten(playbook: Playbook) -> Json:
    """Every leaf by path. `steps` itself is a leaf too: the names in order, groups as lists."""
    return dict(_leaves(playbook.content()))


def _leaves(content: Json) -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        match key:
            case "roles" | "rules" | "tools":
                yield from _flat(key, value)
            case "steps":
                yield "steps", [_names(item) for item in value]
                for item in value:
                    for step in item.get("together", [item]):
                        fields = {name: field for name, field in step.items() if name not in ("name", "output")}
                        yield from _flat(f"steps.{step['name']}", fields)
                        if "output" in step:  # a leaf as a whole: names of fields may be anything
                            yield f"steps.{step['name']}.output", step["output"]
            case "demos":
                for step, demos in value.items():
                    yield f"demos.{step}", demos
            case "parameters":
                for name, parameter in value.items():
                    yield f"parameters.{name}", parameter["value"]
                    bounds = {field: bound for field, bound in parameter.items() if field != "value"}
                    yield from _flat(f"parameters.{name}", bounds, empty=False)
            case _:
                yield key, value


def _flat(path: str, value: Any, *, empty: bool = True) -> Iterator[tuple[str, Any]]:
    """The leaves of a mapping; an empty one is a leaf itself, so that nothing gets lost."""
    if isinstance(value, dict) and (value or not empty):
        for key, item in value.items():
            yield from _flat(f"{path}.{key}", item)
    else:
        yield path, value


def _names(item: Json) -> Any:
    return [step["name"] for step in item["together"]] if "together" in item else item["name"]


def build(flat: Mapping[str, Any]) -> Playbook:
    """The playbook with these leaves. Raises PlaybookError if it would not be valid."""
    content: Json = {}
    steps: dict[str, Json] = {}
    for path, value in flat.items():
        head, *rest = path.split(".")
        if head == "steps" and rest:
            _plant(steps, rest, value)
        elif head == "parameters" and len(rest) == 1:
            _plant(content, [head, *rest, "value"], value)
        elif path != "steps":
            _plant(content, [head, *rest], value)
    if "steps" in flat:
        content["steps"] = [
            {"together": [{"name": name, **steps.pop(name, {})} for name in item]}
            if isinstance(item, list)
            else {"name": item, **steps.pop(item, {})}
            for item in flat["steps"]
        ]
    if steps:
        raise PlaybookError([Problem(f"steps.{name}", "a step without a place", "its name in steps") for name in steps])
    return Playbook.from_document(content)


def _plant(tree: Json, path: list[str], value: Any) -> None:
    *parents, last = path
    for part in parents:
        tree = tree.setdefault(part, {})
    tree[last] = {**value, **tree.get(last, {})} if isinstance(value, dict) else value


# Genes


def genes(playbook: Playbook | Path | str) -> dict[str, Gene]:
    """The genes of a playbook, or of a file of one, by path."""
    playbook = as_playbook(playbook)
    return {gene.path: gene for gene in _genes(playbook) if not any(locks(lock, gene.path) for lock in playbook.locked)}


def _genes(playbook: Playbook) -> Iterator[Gene]:
    for name, role in playbook.roles.items():
        yield Gene(f"roles.{name}.system", "text", role.system)
        if role.model is not None:
            yield Gene(f"roles.{name}.model", "choice", role.model)
        if role.temperature is not None:
            yield Gene(f"roles.{name}.temperature", "number", role.temperature, 0, 2, span=2)
    yield from _tool_genes(playbook)
    for step in playbook.all_steps():
        if playbook.steps:
            yield Gene(f"steps.{step.name}.prompt", "text", step.prompt)
        if step.until:
            for name in ("agreement", "settled"):
                if (share := getattr(step.until, name)) is not None:
                    yield Gene(f"steps.{step.name}.until.{name}", "number", share, 0, 1, span=1)
            yield _rounds_gene(f"steps.{step.name}.until.at_most", step.until)
        demos = [demo.model_dump(mode="json") for demo in playbook.demos.get(step.name, ())]
        yield Gene(f"demos.{step.name}", "demos", demos)
    for name, parameter in playbook.parameters.items():
        gene = _parameter_gene(f"parameters.{name}", playbook.parameter(name), parameter)
        yield _only_rising(gene, playbook) if name == playbook.threshold_parameter else gene


def _tool_genes(playbook: Playbook) -> Iterator[Gene]:
    """What models are told of tools, as far as the playbook says it, and how often they may call them."""
    for name, text in playbook.tools.items():
        yield Gene(f"tools.{name}.about", "text", text.about)
        for argument, words in text.arguments.items():
            yield Gene(f"tools.{name}.arguments.{argument}", "text", words)
    for step in playbook.all_steps():
        if step.calls:
            path, most = f"steps.{step.name}.calls.at_most", MOST_CALL_ROUNDS
            yield Gene(path, "integer", step.calls.at_most, 1, most, span=most - 1)


def _rounds_gene(path: str, until: Until) -> Gene:
    """The limit of rounds: at least as many as its rules need to hold."""
    least = min(fewest_rounds(until), until.at_most)
    return Gene(path, "integer", until.at_most, least, MOST_ROUNDS, span=MOST_ROUNDS - 1)


def _parameter_gene(path: str, value: Any, parameter: Parameter) -> Gene:
    if parameter.options or isinstance(value, bool):
        return Gene(path, "choice", value, options=parameter.options or (False, True))
    if isinstance(value, str):
        return Gene(path, "text", value)
    low, high = parameter.low, parameter.high
    span = high - low if low is not None and high is not None else None
    return Gene(path, "integer" if parameter.whole else "number", value, low, high, span=span)


def _only_rising(gene: Gene, playbook: Playbook) -> Gene:
    """The gene of a rule's threshold, without values that would loosen the rule."""
    if gene.kind != "choice":
        return replace(gene, low=gene.value) if is_number(gene.value) else gene
    name, now = gene.path.removeprefix("parameters."), playbook.threshold
    return replace(gene, options=tuple(o for o in gene.options if playbook.rules.threshold({name: o}) >= now))


def get(playbook: Playbook, path: str) -> Any:
    """The value of a gene. Raises PlaybookError for an unknown path."""
    return _known(genes(playbook), path, playbook).value


def with_genes(playbook: Playbook | Path | str, values: Mapping[str, Any]) -> Playbook:
    """A new playbook with some genes changed. Raises PlaybookError with every value that is not allowed."""
    playbook = as_playbook(playbook)
    if not isinstance(values, Mapping):
        raise PlaybookError([Problem("values", shown(values), "values by the paths of their genes, as a mapping")])
    known, flat = _parts(playbook)
    problems: list[Problem] = []
    for path, value in values.items():
        try:
            problem = _known(known, path, playbook).problem(value)
        except PlaybookError as wrong:
            problems += wrong.problems
        else:
            problems += [problem] if problem else []
    if problems:
        raise PlaybookError(problems)
    meta = {"meta": thaw(playbook.meta)} if playbook.meta else {}
    changed = build({**flat, **values, **meta})
    if loosened := playbook.loosened_by(changed):
        raise PlaybookError(loosened)
    return changed


@lru_cache(maxsize=1_000)
def _parts(playbook: Playbook) -> tuple[Mapping[str, Gene], Mapping[str, Any]]:
    """Genes and leaves, cached for playbooks from which many others are made."""
    return genes(playbook), flatten(playbook)


def _known(known: Mapping[str, Gene], path: str, playbook: Playbook) -> Gene:
    if path in known:
        return known[path]
    if path in {gene.path for gene in _genes(playbook)}:
        raise PlaybookError([Problem(path, "a locked gene", "a gene that is not locked", "A person may unlock it.")])
    if path == "rules" or path.startswith("rules."):
        raise PlaybookError([Problem(path, "a rule", "a gene", "Rules do not evolve; a person edits them.")])
    raise PlaybookError([Problem(path, "no such gene", f"one of: {', '.join(known)}")])


# Distance


def distance(one: Playbook, other: Playbook) -> float:
    """How different the genes of two playbooks are: 0 if equal, 1 if they have nothing in common."""
    mine, yours = genes(one), genes(other)
    paths = mine.keys() | yours.keys()
    if not paths:
        return 0.0
    return sum(_apart(mine.get(path), yours.get(path)) for path in sorted(paths)) / len(paths)


def _apart(one: Gene | None, other: Gene | None) -> float:
    if one is None or other is None or one.kind != other.kind:
        return 1.0
    # Bounds may differ between the two; the mean of both distances is symmetric.
    return (one.distance(other.value) + other.distance(one.value)) / 2


def text_distance(one: str, other: str) -> float:
    """The share of words that differ."""
    if one == other:
        return 0.0
    shared, words = shared_words(*sorted((one, other)))  # the matcher is not symmetric
    return 1 - 2 * shared / words if words else 1.0


def edited_characters(one: str, other: str) -> int:
    """How many characters have to be typed or deleted, whichever is more, to turn one text into the other."""
    parts = changed_parts(*sorted((one, other)))
    return sum(max(len(old), len(new)) for old, new in parts if old != new)
