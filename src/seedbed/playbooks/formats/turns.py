"""The turns of a resolved mode as steps and roles of a playbook, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from seedbed.errors import PlaybookError, Problem
from seedbed.playbooks.conditions import MOST_ROUNDS, Until
from seedbed.playbooks.formats.imports import unique
from seedbed.playbooks.genes import flatten
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.prompts import Placeholder, placeholders, rename
from seedbed.storage.store import Json, canonical

Layout: TypeAlias = list[str | list[str]]
"""Names of steps in order; those of an inner list run at the same time."""

SETTINGS = {
    "system": "role_instruction",
    "needs": "requires",
    "prefer": "prefer",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
}
"""The fields of a role and the keys of a turn. The model is handled apart."""

RELEVANT = "relevant_only"
COMPRESSIONS = (RELEVANT, "none")
RELEVANT_SHARE = 0.3
"""How much of the conversation before it a turn with compressed context sees, at most."""
ANSWER_TOKENS = 500
"""How long the answer of a turn without `max_tokens` is estimated to be."""

_PARTICIPANT = re.compile(r"(?<!\{)\{(\w+)_participant\}(?!\})")


def number(name: str) -> int | None:
    return int(name.removeprefix("turn_")) if re.fullmatch(r"turn_(0|[1-9][0-9]*)", name) else None


def ordered(names: Iterable[str]) -> list[str]:
    """Turns by number, then other names in alphabetical order."""
    return sorted(names, key=lambda name: (number(name) is None, number(name) or 0, name))


def _name(reference: int | str) -> str:
    return f"turn_{reference}" if str(reference).isdecimal() else str(reference)


def variables(mode: Json) -> set[str]:
    """The names that templates write as `<NAME>`."""
    declared = (mode.get("metadata") or {}).get("template_variables") or ()
    return {name for name in declared if re.fullmatch(r"[^\W\d]\w*", name)}


# Layout


def layout(mode: Json) -> Layout:
    """Which turns run, in which order, and which of them together."""
    prompts = mode["prompts"]
    structure = mode.get("structure") or ("mixed" if mode.get("phases") else "sequential")
    if structure == "mixed":
        return _phases(mode) if mode.get("phases") else _independent(prompts)
    last = mode.get("turns") or float("inf")
    played = [name for name in ordered(prompts) if (number(name) or 0) <= last][: mode.get("max_turns")]
    return [played] if structure == "parallel" and played else list(played)


def _phases(mode: Json) -> Layout:
    plan: Layout = []
    for phase in mode["phases"]:
        names = [name for name in map(_name, phase.get("turns") or ()) if name in mode["prompts"]]
        if (phase.get("type") or phase.get("structure")) == "parallel" and names:
            plan.append(names)
        else:
            plan += names
    placed = set(flat(plan))
    return plan + [name for name in ordered(mode["prompts"]) if name not in placed]


def missing(phase: Json, prompts: Json) -> list[str]:
    """The turns that a phase names and that do not exist."""
    return [name for name in map(_name, phase.get("turns") or ()) if name not in prompts]


def _independent(prompts: Json) -> Layout:
    """Without phases, neighbouring turns that do not need each other run together."""
    groups: list[list[str]] = []
    for name in ordered(prompts):
        needed = {*_context(prompts[name]), *(each.name for each in placeholders(prompts[name].get("template") or ""))}
        if not groups or needed & {*groups[-1]} or any(f"{other}_participant" in needed for other in groups[-1]):
            groups.append([])
        groups[-1].append(name)
    return [group if len(group) > 1 else group[0] for group in groups]


def flat(plan: Layout) -> Iterator[str]:
    for item in plan:
        yield from [item] if isinstance(item, str) else item


def phases(plan: Layout) -> list[Json]:
    """A layout as the phases of a mixed mode."""
    result: list[Json] = []
    for item in plan:
        if not isinstance(item, str):
            result.append({"type": "parallel", "turns": _references(item)})
        elif result and result[-1]["type"] == "sequential":
            result[-1]["turns"] += _references([item])
        else:
            result.append({"type": "sequential", "turns": _references([item])})
    return result


def _references(names: Iterable[str]) -> list[int | str]:
    return [number(name) or name for name in names]


def rounds(mode: Json) -> int:
    """How often all turns are played at most; more than once only if the mode says when they converge."""
    played = len([*flat(layout(mode))])
    if mode.get("convergence_threshold") is None or not played:
        return 1
    return min(MOST_ROUNDS, max(1, mode["max_turns"] // played)) if mode.get("max_turns") else Until().at_most


def _context(turn: Json) -> list[str]:
    return [_name(reference) for reference in turn.get("context_from") or ()]


# Turns to steps


def playbook(mode: Json, source: str = "") -> Playbook:
    """The playbook of a mode. Raises PlaybookError for turns that use later ones."""
    plan, prompts, roles = layout(mode), mode["prompts"], _Roles()
    group_of = {name: index for index, item in enumerate(plan) for name in ([item] if isinstance(item, str) else item)}
    late = [
        Problem(
            f"prompts.{name}.context_from", other, "an earlier turn", "A turn can use only what was said before it."
        )
        for name in group_of
        for other in _context(prompts[name])
        if group_of.get(other, -1) > group_of[name] or other == name
    ]
    if late:
        raise PlaybookError(late, source)
    steps: dict[str, Json] = {}
    for name in group_of:
        before = [other for other in group_of if group_of[other] < group_of[name]]
        steps[name] = {"name": name, "role": roles.of(prompts[name], variables(mode), name)}
        steps[name] |= _words(prompts[name], before, [*group_of], variables(mode))
        if _is_compressed(mode, name) and steps[name].get("sees"):
            steps[name]["context"] = {"at_most_tokens": _relevant_tokens(prompts[other] for other in before)}
    if rounds(mode) > 1:
        until = {"back_to": next(iter(steps)), "settled": mode["convergence_threshold"], "at_most": rounds(mode)}
        steps[next(reversed(steps))]["until"] = until
    document = {
        "roles": roles.settings,
        "steps": [
            steps[item] if isinstance(item, str) else {"together": [steps[name] for name in item]} for item in plan
        ],
    }
    places = {f"steps.{name}": f"prompts.{name}" for name in steps}
    places |= {f"roles.{role}": f"prompts.{name}" for role, name in roles.speaks_in.items()}
    return Playbook.from_document(document, source=source, lines=places)


def seen(mode: Json, name: str) -> bool:
    """Whether a turn sees others that its template does not quote."""
    steps = {step.name: step for step in playbook(mode).all_steps()}
    return name not in steps or bool(steps[name].sees)


def _is_compressed(mode: Json, name: str) -> bool:
    own = mode["prompts"].get(name, {}).get("context_compression")
    return (own or mode.get("context_compression")) == RELEVANT


def _relevant_tokens(before: Iterable[Json]) -> int:
    return max(50, round(RELEVANT_SHARE * sum(turn.get("max_tokens") or ANSWER_TOKENS for turn in before)))


class _Roles:
    """The distinct speakers: the same role with other settings is another speaker."""

    def __init__(self) -> None:
        self.settings: dict[str, Json] = {}
        self.speaks_in: dict[str, str] = {}
        self._names: dict[tuple[str, str], str] = {}

    def of(self, turn: Json, declared: set[str], step: str) -> str:
        settings = _settings(turn, declared)
        wanted = role_name(turn)
        name = self._names.setdefault((wanted, canonical(settings)), unique(wanted, self.settings))
        self.settings[name] = settings
        self.speaks_in.setdefault(name, step)
        return name


def role_name(turn: Json) -> str:
    """The role of a turn as the name of a role; without one, the participant."""
    text = re.sub(r"[^\w-]", "_", (turn.get("role") or turn.get("participant") or "speaker").strip())[:90]
    return text if re.match(r"[^\W\d]", text) else f"role_{text}"


def _settings(turn: Json, declared: set[str]) -> Json:
    settings = {ours: turn.get(theirs) for ours, theirs in SETTINGS.items()}
    settings["system"] = _to_prompt(settings["system"] or "", (), declared)
    settings["model"] = turn.get(_model_key(turn)) or turn.get("participant")
    return {key: value for key, value in settings.items() if value not in (None, "", [])}


def _model_key(turn: Json) -> str:
    """Where a turn names its model: `grok_model` for the participant grok, else `model`."""
    own = f"{turn.get('participant') or 'grok'}_model"
    return own if turn.get(own) else "model"


def _words(turn: Json, before: list[str], names: list[str], declared: set[str]) -> Json:
    prompt = _to_prompt(turn.get("template") or "", names, declared)
    sees = [name for name in dict.fromkeys(_context(turn)) if name in before and name not in _quoted(prompt)]
    if not prompt and not sees:
        return {"sees": before} if before else {"prompt": "{topic}"}
    return {"prompt": prompt, "sees": sees}


def _quoted(prompt: str) -> set[str]:
    return {each.name for each in placeholders(prompt) if not each.of_model}


def _to_prompt(template: str, names: Iterable[str], declared: set[str]) -> str:
    known = set(names)
    prompt = _PARTICIPANT.sub(lambda match: f"{{{match[1]}.model}}" if match[1] in known else match[0], template)
    return re.sub(r"<(\w+)>", lambda match: f"{{{match[1]}}}" if match[1] in declared else match[0], prompt)


# Steps to turns


def in_turns(playbook: Playbook, mode: Json) -> Playbook:
    """The playbook in the form of turns.

    A step that the mode does not know is named by the next free number, and a step does not see what its prompt quotes.
    """
    known = mode["prompts"]
    free = iter(range(1 + max((number(name) or 0 for name in known), default=0), 10**6))
    names = {name: name if name in known else f"turn_{next(free)}" for name in flat(plan(playbook))}
    renamed = {Placeholder(old): str(Placeholder(new)) for old, new in names.items()}
    renamed |= {Placeholder(old, True): str(Placeholder(new, True)) for old, new in names.items()}
    content = playbook.content()
    for item in content.get("steps", ()):
        for step in item.get("together", [item]):
            step["name"] = names[step["name"]]
            step["prompt"] = rename(step.get("prompt", ""), renamed)
            step["sees"] = [names[name] for name in step.get("sees", ()) if names[name] not in _quoted(step["prompt"])]
            if not step["sees"]:
                step.pop("context", None)
            if back_to := step.get("until", {}).get("back_to"):
                step["until"]["back_to"] = names[back_to]
    content["demos"] = {names.get(name, name): demos for name, demos in content.get("demos", {}).items()}
    content["locked"] = [_rename_path(path, names) for path in content.get("locked", ())]
    return Playbook.from_document(content)


def _rename_path(path: str, names: Mapping[str, str]) -> str:
    head, *rest = path.split(".")
    if head in ("steps", "demos") and rest:
        rest[0] = names.get(rest[0], rest[0])
    return ".".join([head, *rest])


def changes(new: Playbook, mode: Json) -> dict[str, Json]:
    """What to write into each turn of a mode so that it matches the playbook."""
    old = playbook(mode) if mode["prompts"] else Playbook()
    known = {step.name: step for step in old.all_steps()}
    declared = variables(mode)
    spelled = {Placeholder(name): f"<{name}>" for name in declared}
    spelled |= {Placeholder(name, True): f"{{{name}_participant}}" for name in flat(plan(new))}
    same_speakers = new.roles == old.roles and all(
        step.name in known and known[step.name].role == step.role for step in new.all_steps()
    )
    roles = new.content().get("roles", {})
    result: dict[str, Json] = {}
    for step in new.all_steps() if new.steps else ():
        was = known.get(step.name)
        turn = mode["prompts"][step.name] if was else {}
        changed: Json = {} if was and (same_speakers or role_name(turn) == step.role) else {"role": step.role}
        changed |= _changed_settings(turn, roles[step.role], declared, spelled)
        if not was or was.prompt != step.prompt:
            changed["template"] = rename(step.prompt, spelled)
        if not was or (was.prompt, was.sees) != (step.prompt, step.sees):
            needed = {*_quoted(step.prompt), *step.sees}
            changed["context_from"] = _references(name for name in flat(plan(new)) if name in needed)
        if step.sees and bool(step.context) != _is_compressed(mode, step.name):
            changed["context_compression"] = COMPRESSIONS[not step.context]
        result[step.name] = changed
    return result


def convergence(new: Playbook, mode: Json) -> Json:
    """What to write into a mode so that it repeats its turns as the last step of the playbook says."""
    before = [*playbook(mode).all_steps()] if mode["prompts"] else []
    steps = [*new.all_steps()]
    until = steps[-1].until
    if (until, len(steps)) == (before[-1].until if before else None, len(before)) or not (until or rounds(mode) > 1):
        return {}
    if until is None:
        return {"convergence_threshold": None}
    return {"convergence_threshold": until.settled, "max_turns": until.at_most * len(steps)}


def _changed_settings(turn: Json, role: Json, declared: set[str], spelled: Mapping[Placeholder, str]) -> Json:
    old = _settings(turn, declared)
    empty: Json = {"system": "", "needs": []}
    changed: Json = {}
    if old.get("model") != role.get("model"):
        key = "participant" if not turn.get("participant") and not turn.get(_model_key(turn)) else _model_key(turn)
        changed[key] = role.get("model")
    for ours, theirs in SETTINGS.items():
        if old.get(ours) != role.get(ours):
            changed[theirs] = role.get(ours, empty.get(ours))
    if "role_instruction" in changed:
        changed["role_instruction"] = rename(changed["role_instruction"], spelled)
    return changed


def plan(playbook: Playbook) -> Layout:
    """The steps of a playbook in the form of `layout`."""
    layout: Layout = flatten(playbook).get("steps", [])
    return layout
