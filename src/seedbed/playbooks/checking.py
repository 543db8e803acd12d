"""Checks of a playbook document: every problem at once, in words that a person can act on.

pydantic checks types and unknown keys. This module checks what spans the document (roles that do not exist,
placeholders that nothing fills), on the raw document, so that both kinds of problem are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from seedbed import plugins
from seedbed.errors import Problem, shown
from seedbed.playbooks.conditions import Until, earliest
from seedbed.playbooks.loading import leaves
from seedbed.playbooks.prompts import fields, placeholders
from seedbed.playbooks.rules import LISTS, locks
from seedbed.playbooks.steps.schemas import field_problems
from seedbed.playbooks.steps.tool_use import tool_problems
from seedbed.playbooks.values import is_number

EXPECTED = {
    "string_type": "text",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "finite_number": "a finite number",
}
LIMITS = {
    "less_than_equal": "at most {le:g}",
    "greater_than_equal": "at least {ge:g}",
    "too_short": "at least {min_length} item",
}


def explain(error: ValidationError, known_keys: Callable[[tuple[int | str, ...]], Iterable[str]]) -> list[Problem]:
    """The errors of pydantic as Problems, one per path; `known_keys` returns the keys allowed at a location."""
    problems: dict[str, Problem] = {}
    for each in error.errors(include_url=False):
        path = _path(each["loc"])
        kind, value, context = each["type"], each["input"], each.get("ctx", {})
        if kind == "extra_forbidden":
            known_here = list(known_keys(each["loc"]))
            hint = plugins.suggestion(str(each["loc"][-1]), known_here) or f"Known keys: {', '.join(known_here)}."
            remedy = f"{hint} Notes of your own go under meta."
            problem = Problem(path, "an unknown key", "a key of the format", remedy)
        elif kind == "missing":
            problem = Problem(path, "nothing", "a value")
        elif kind == "string_too_long":
            limit = f"at most {context['max_length']:,}"
            problem = Problem(path, f"{len(value):,} characters", limit, "Keep long texts in a corpus.")
        elif kind == "string_pattern_mismatch":
            problem = Problem(path, shown(value), _shape(context["pattern"]))
        elif kind == "json_invalid":
            problem = Problem("document", _unreadable(each["msg"]), "values that JSON can hold")
        elif kind in LIMITS:
            problem = Problem(path, shown(value), LIMITS[kind].format_map(context))
        else:
            problem = Problem(path, shown(value), EXPECTED.get(kind, each["msg"].lower()))
        known = problems.get(path)
        if known and known.expected != problem.expected:
            # A value that fits no member of a union is reported once for each member.
            problem = Problem(path, known.found, f"{known.expected} or {problem.expected}", known.remedy)
        problems[path] = problem
    return list(problems.values())


def _shape(pattern: str) -> str:
    if "b2" in pattern:
        return "a digest, which is b2: and 64 characters; names may move"
    return "module:function" if ":" in pattern else "a name: a letter, then letters, digits or _"


def _unreadable(message: str) -> str:
    if "hex escape" in message or "surrogate" in message:
        return "half of a character (a lone surrogate)"
    return "endless nesting" if "recursion" in message else "something unreadable"


def _path(location: tuple[int | str, ...]) -> str:
    """A location as people write it, without the names pydantic gives to members of unions."""
    path = ""
    for index, part in enumerate(location):
        if isinstance(part, int):
            path += f"[{part}]"
            continue
        of_step = index >= 2 and location[index - 2] == "steps" and part in ("step", "together")
        of_scalar = index == len(location) - 1 and part in ("bool", "float", "str", "[key]")
        of_rule = index == 3 and location[0] == "rules" and part in ("name", "rule")
        if not (of_step or of_scalar or of_rule or part.startswith(("constrained-", "function-"))):
            path += f".{part}" if path else part
    return path or "document"


def locate(problems: Iterable[Problem], document: object, origins: Mapping[str, str]) -> list[Problem]:
    """Add to each problem its file and line, where `origins` has them by path."""
    steps = _steps(_mapping(document).get("steps"))
    named = {path: f"steps.{step['name']}" for path, step, _ in steps if isinstance(step.get("name"), str)}

    def place(path: str) -> str:
        for raw, name in named.items():
            if path == raw or path.startswith(f"{raw}."):
                path = name + path.removeprefix(raw)
                break
        while path:
            if place := next(
                (origins[known] for known in origins if known == path or known.startswith(f"{path}.")), None
            ):
                return f" ({place})"
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return ""

    return [Problem(p.path + place(p.path), p.found, p.expected, p.remedy) for p in problems]


def problems(document: object) -> list[Problem]:
    """The contradictions in a document, whatever its types are."""
    if not isinstance(document, Mapping):
        return []
    return list(_DocumentCheck(document).problems())


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []


def _join(names: Iterable[object]) -> str:
    return ", ".join(map(str, names)) or "none"


def _number(value: object) -> float | None:
    return value if is_number(value) else None


def _value(parameter: object) -> object:
    return parameter.get("value") if isinstance(parameter, Mapping) else parameter


def _steps(steps: object) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """Each step with its path and the number of its group."""
    for index, item in enumerate(steps if isinstance(steps, list | tuple) else ()):
        item = _mapping(item)
        if "together" in item:
            inner = item["together"] if isinstance(item["together"], list | tuple) else ()
            for position, step in enumerate(inner):
                yield f"steps[{index}].together[{position}]", _mapping(step), index
        else:
            yield f"steps[{index}]", item, index


def _conditions(path: str, condition: object, step: object = None) -> Iterator[tuple[str, Mapping[str, Any], object]]:
    """A condition and its inner ones, each with its path and the step that it is about."""
    if not isinstance(condition, Mapping):
        return
    step = condition.get("step", step)
    yield path, condition, step
    for key in ("all", "any"):
        inner = condition.get(key)
        for index, each in enumerate(inner if isinstance(inner, list | tuple) else ()):
            yield from _conditions(f"{path}.{key}[{index}]", each, step)


class _DocumentCheck:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.roles = _mapping(document.get("roles"))
        self.parameters = _mapping(document.get("parameters"))
        self.inputs = _texts(document.get("inputs"))
        self.steps = list(_steps(document.get("steps")))
        self.group_of = {str(step["name"]): group for _, step, group in self.steps if "name" in step}

    def problems(self) -> Iterator[Problem]:
        if not self.document.keys() & {"roles", "steps", "parameters", "program", "rules"}:
            yield Problem("document", "no roles, steps, parameters, rules or program", "at least one of them")
        yield from self.step_problems()
        yield from self.loop_problems()
        yield from self.condition_problems()
        yield from self.opening_problems()
        yield from self.prompt_problems()
        yield from self.parameter_problems()
        yield from self.demo_problems()
        yield from self.locked_problems()
        yield from self.rule_problems()
        yield from tool_problems(self.document, ((path, step) for path, step, _ in self.steps))

    def step_problems(self) -> Iterator[Problem]:
        paths: dict[object, str] = {}
        for path, step, group in self.steps:
            name, role = step.get("name"), step.get("role")
            if isinstance(name, str):
                if name in paths:
                    yield Problem(f"{path}.name", f"{shown(name)}, as in {paths[name]}", "a name of its own")
                if name in self.inputs:
                    yield Problem(f"{path}.name", f"{shown(name)}, which is an input too", "a name of its own")
                paths[name] = path
            if isinstance(role, str) and role not in self.roles:
                yield Problem(
                    f"{path}.role", shown(role), f"one of the roles: {', '.join(map(str, self.roles)) or 'none yet'}"
                )
            for index, other in enumerate(_texts(step.get("sees"))):
                if other not in self.group_of or self.group_of[other] >= group:
                    yield Problem(f"{path}.sees[{index}]", shown(other), f"an earlier step: {self.before(group)}")
            if not step.get("prompt") and not step.get("sees"):
                yield Problem(
                    path, "neither prompt nor sees", "something to answer", "Give the step a prompt, or steps to see."
                )

            summary = _mapping(step.get("context")).get("summary")
            if isinstance(summary, str) and summary not in self.roles:
                yield Problem(f"{path}.context.summary", shown(summary), f"one of the roles: {_join(self.roles)}")
            if "context" in step and not step.get("sees"):
                yield Problem(f"{path}.context", "nothing to shorten", "steps to see", "Name them under sees.")

    def loop_problems(self) -> Iterator[Problem]:
        """Loops must go back to a step that exists, and must not overlap."""
        loops: list[tuple[int, int, str, bool]] = []
        for path, step, group in self.steps:
            if not isinstance(until := step.get("until"), Mapping):
                continue
            back_to, first = until.get("back_to"), group
            if isinstance(back_to, str):
                if self.group_of.get(back_to, group + 1) > group:
                    known = _join(name for name, number in self.group_of.items() if number <= group)
                    yield Problem(f"{path}.until.back_to", shown(back_to), f"a step up to this one: {known}")
                    continue
                first = self.group_of[back_to]
            for low, high, other, goes_back in loops:
                alone = first == low == group == high and not (back_to or goes_back)
                if first <= high and low <= group and not alone:
                    remedy = "Let one end before the other begins."
                    yield Problem(
                        f"{path}.until",
                        f"a loop that overlaps with that of {other}",
                        "loops that do not overlap",
                        remedy,
                    )
            loops.append((first, group, str(step.get("name")), "back_to" in until))

    def condition_problems(self) -> Iterator[Problem]:
        for path, step, group in self.steps:
            earlier = [name for name, number in self.group_of.items() if number < group]
            for place, condition, about in _conditions(f"{path}.when", step.get("when")):
                yield from self.condition_problem(place, condition, "an earlier step", earlier)
                tests = condition.keys() - {"step", "all", "any"}
                if about is None and (tests or not condition.keys() & {"all", "any"}):
                    yield Problem(place, "no step", f"the step it is about: {_join(earlier)}")
            until = _mapping(step.get("until"))
            back_to, at_most = until.get("back_to"), until.get("at_most", Until().at_most)
            in_round: list[Any] = [step.get("name")]
            if isinstance(back_to, str):
                first = self.group_of.get(back_to, group)
                in_round = [name for name, number in self.group_of.items() if first <= number <= group]
            for place, rule, _ in _conditions(f"{path}.until", until):
                yield from self.condition_problem(place, rule, "a step of the round", in_round)
                first = earliest(rule, alone=len(in_round) == 1)
                if isinstance(at_most, int) and first > max(at_most, 1):
                    rule_text = f"a rule that can hold after round {first}, and at_most {at_most}"
                    yield Problem(place, rule_text, f"at_most {first} or more", "Or use a rule that can hold sooner.")

    def condition_problem(
        self, path: str, condition: Mapping[str, Any], what: str, steps: list[Any]
    ) -> Iterator[Problem]:
        named, tests = condition.get("step"), condition.keys() & {"says", "lacks", "at_least", "below"}
        if isinstance(named, str) and named not in steps:
            yield Problem(f"{path}.step", shown(named), f"{what}: {_join(steps)}")
        if named is not None and not tests and not condition.keys() & {"all", "any"}:
            yield Problem(path, f"step {shown(named)} and nothing about it", "says, lacks, at_least or below")

    def opening_problems(self) -> Iterator[Problem]:
        for path, step, _ in self.steps:
            opens = _mapping(step.get("opens"))
            name = opens.get("input")
            if not isinstance(name, str) or "playbook" in opens:
                continue
            if self.inputs and name not in self.inputs:
                yield Problem(f"{path}.opens.input", shown(name), f"one of the inputs: {_join(self.inputs)}")
            elif not self.inputs and not self.is_read(name):
                remedy = f"Write {{{name}}} where it is asked about."
                yield Problem(f"{path}.opens.input", f"{shown(name)}, which no prompt names", "an input", remedy)

    def is_read(self, name: str) -> bool:
        """Whether a step receives an input: by name, or with all others if it has no prompt."""
        prompts = [step.get("prompt") for _, step, _ in self.steps]
        systems = [_mapping(role).get("system") for role in self.roles.values()]
        texts = [text for text in (*prompts, *systems) if isinstance(text, str)]
        named = {each.name for text in texts for each in placeholders(text)}
        return name in named or not all(prompts) or "program" in self.document

    def before(self, group: int) -> str:
        return _join(name for name, number in self.group_of.items() if number < group)

    def prompt_problems(self) -> Iterator[Problem]:
        texts = [(f"{path}.prompt", step.get("prompt"), group) for path, step, group in self.steps]
        texts += [(f"roles.{name}.system", _mapping(role).get("system"), 0) for name, role in self.roles.items()]
        outputs = {str(step.get("name")): step.get("output") for _, step, _ in self.steps}
        for path, text, group in texts:
            if isinstance(text, str):
                yield from field_problems(path, text, outputs)
                early = (each for each in fields(text) if outputs.get(each.name) and self.group_of[each.name] >= group)
                yield from (Problem(path, str(each), f"an earlier step: {self.before(group)}") for each in early)
            for placeholder in placeholders(text) if isinstance(text, str) else ():
                if placeholder.name in self.group_of:
                    if self.group_of[placeholder.name] >= group:
                        remedy = "A prompt can use only what was said before it."
                        yield Problem(path, str(placeholder), f"an earlier step: {self.before(group)}", remedy)
                elif placeholder.of_model or (self.inputs and placeholder.name not in self.inputs):
                    known = ", ".join([*self.inputs, *self.group_of]) or "none"
                    remedy = f"Name it under inputs, or write {{{placeholder}}} for plain text in braces."
                    yield Problem(
                        path, f"{placeholder}, which nothing fills", f"an input or an earlier step: {known}", remedy
                    )

    def parameter_problems(self) -> Iterator[Problem]:
        for name, item in self.parameters.items():
            path, parameter, raw = f"parameters.{name}", _mapping(item), _value(item)
            value, low, high = _number(raw), _number(parameter.get("low")), _number(parameter.get("high"))
            options = parameter.get("options")
            if value is None and not (low is None and high is None):
                yield Problem(path, f"bounds on {shown(raw)}", "bounds on numbers only", "Use options instead.")
            if low is not None and high is not None and low > high:
                yield Problem(path, f"low {low} above high {high}", "low ≤ high")
            elif value is not None and low is not None and value < low:
                yield Problem(path, str(value), f"at least {low}")
            elif value is not None and high is not None and value > high:
                yield Problem(path, str(value), f"at most {high}")
            if isinstance(options, list | tuple) and options and raw not in options:
                yield Problem(path, shown(raw), f"one of its options: {_join(map(shown, options))}")
            if parameter.get("whole") is True and (value is None or value != int(value)):
                yield Problem(path, shown(raw), "a whole number, as it says whole: true")

    def demo_problems(self) -> Iterator[Problem]:
        steps = self._steps()
        for name in _mapping(self.document.get("demos")):
            if name not in steps:
                yield Problem(
                    f"demos.{name}", "demos for a step that does not exist", f"one of: {', '.join(steps) or 'none'}"
                )

    def _steps(self) -> list[str]:
        return list(self.group_of) or [str(role).replace("-", "_") for role in self.roles]

    def locked_problems(self) -> Iterator[Problem]:
        locked = _texts(self.document.get("locked"))
        paths = [*(named for named, _, _ in leaves(self.document)), *self._unwritten()] if locked else []
        for index, pattern in enumerate(locked):
            if not any(locks(pattern, path) for path in paths):
                remedy = plugins.suggestion(pattern, paths)
                yield Problem(
                    f"locked[{index}]", f"{shown(pattern)}, which matches nothing", "the path of a gene", remedy
                )

    def _unwritten(self) -> Iterator[str]:
        """Genes that exist even if the document leaves them at their default."""
        yield from (f"roles.{name}.system" for name in self.roles)
        yield from (f"demos.{name}" for name in self._steps())
        for name, step in ((step.get("name"), step) for _, step, _ in self.steps):
            yield f"steps.{name}.prompt"
            yield f"steps.{name}.calls.at_most"
            if "until" in step:
                yield f"steps.{name}.until.at_most"

    def rule_problems(self) -> Iterator[Problem]:
        below = _mapping(self.document.get("rules")).get("confirm_below")
        if isinstance(below, str) and below not in self.parameters:
            expected = f"a number, or one of the parameters: {_join(self.parameters)}"
            yield Problem("rules.confirm_below", shown(below), expected)
        elif isinstance(below, str) and not is_number(value := _value(self.parameters[below])):
            remedy = f"Give parameters.{below} a number."
            yield Problem(
                "rules.confirm_below",
                f"{shown(below)}, which is {shown(value)}",
                "the name of a parameter that holds a number",
                remedy,
            )
        elif is_number(below) and not 0 <= below <= 1:
            yield Problem("rules.confirm_below", str(below), "between 0 and 1")
        yield from self.count_problems()

    def count_problems(self) -> Iterator[Problem]:
        """A rule that permits has a highest number of calls; one that restricts begins after some."""
        for level in LISTS:
            wrong, right = ("more_than", "at_most") if level == "allow" else ("at_most", "more_than")
            rules = _mapping(self.document.get("rules")).get(level)
            for index, rule in enumerate(rules if isinstance(rules, list | tuple) else ()):
                for action, conditions in _mapping(rule).items():
                    if wrong in _mapping(conditions):
                        path = f"rules.{level}[{index}].{action}.{wrong}"
                        yield Problem(path, wrong, f"{right} in a rule under {level}")
