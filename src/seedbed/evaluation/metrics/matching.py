"""Metrics that decide whether an output is right: text, patterns, choices, numbers and JSON."""

from __future__ import annotations

import asyncio
import json
import math
import re
import string
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from seedbed import expressions
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import NO_ANSWER, ExactMatch, Score, bare, metric, text
from seedbed.playbooks.steps.schemas import check_schema, expect_quick, misfits
from seedbed.runs.run import Run

exact_match = ExactMatch()


def alternatives(expected: object) -> list[str]:
    """The answers that count as right: those of a list, or the only one."""
    return [text(each) for each in expected] if isinstance(expected, list | tuple) else [text(expected)]


@metric(version=1, needs=("expected",), binary=True)
def contains(run: Run, task: Task, *, case: bool = False, words: bool = False, every: bool = False) -> Score:
    """1 if the expected text is somewhere in the output; of a list of texts, one of them, or every one.

    With `case`, upper and lower case differ; with `words`, `is` is not found in `this`. The answer is the match.
    """
    wanted = [each for each in alternatives(task.expected) if each.strip()]
    if task.expected is None or not wanted:
        return NO_ANSWER if task.expected is None else Score(None, "the expected answer is empty")
    answer_text = text(run.output)
    flags = 0 if case else re.IGNORECASE
    around = r"(?<!\w){}(?!\w)" if words else "{}"
    hits = {each: re.search(around.format(re.escape(each.strip())), answer_text, flags) for each in wanted}
    missing = [each for each, hit in hits.items() if not hit]
    right = (all if every else any)(hits.values())
    answer = ", ".join(hit[0] for hit in hits.values() if hit)
    return Score(float(right), "" if right else f"not found: {', '.join(missing)}", answer)


def _pattern(pattern: object = None, **_: Any) -> None:
    if pattern is not None:
        try:
            expressions.compiled(str(pattern))
        except re.error as wrong:
            raise ValueError(f"pattern {pattern}: {wrong}") from None


@metric(version=1, needs=("expected or pattern",), check=_pattern, binary=True)
async def regex(run: Run, task: Task, *, pattern: str | None = None, whole: bool = False) -> Score:
    """1 if a regular expression, `pattern` or else the expected answer, matches in the output, or the `whole` of it.

    The answer is its first group, or the whole match. An expression that takes too long gives no score.
    """
    wanted = task.expected if pattern is None else pattern
    if wanted is None:
        return NO_ANSWER
    try:
        match = await asyncio.to_thread(expressions.find, text(wanted), text(run.output), whole=whole)
    except re.error as wrong:
        return Score(None, f"the expected answer is not a regular expression: {wrong}")
    except ValueError as slow:
        return Score(None, str(slow))
    return Score(0.0, f"no match for {text(wanted)}") if match is None else Score(1.0, answer=match)


_LISTED = re.compile(r"^[^\S\n]*[([]?([A-Z])[)\].:]\s+(\S(?:.*\S)?)", re.MULTILINE)
_STATED = re.compile(
    r"\b(?:answer|choice|option|choose|pick)\b(?:\s+(?:is|would\s+be|must\s+be))?\s*[:=]?\s*[*_`\"'(\[]*"
    r"(?:option\s+)?([A-Z]|(?<=[(\[])[a-z]|[a-z](?=[\s.)\]*]*$))(?![\w'’])",
    re.MULTILINE,
)
_CUE = re.compile(r"\b(?:answer|choice|option|choose|pick)\b", re.IGNORECASE)
_MARKED = re.compile(r"(?<![\w'’])(?:[(\[]([A-Za-z])[)\]]|([A-Z])[).:](?=\s|$))")
_ALONE = re.compile(r"(?<![\w'’.-])([B-HJ-Z])(?![\w'’.-])")


@metric(version=1, needs=("expected",), binary=True)
def choice(run: Run, task: Task, *, field: str = "choices") -> Score:
    """1 if the output chooses the expected option, by its letter or its text: `(B)`, `B.`, `Answer: B`, `Paris`.

    Options are a list or a mapping among the task's inputs, under `field`, or lines such as `(A) Paris` in them. The
    expected answer is a letter, an option's text, or its index in the list from 0. An output that names several
    options, or none, is wrong, so that hedging does not pay.
    """
    if task.expected is None:
        return NO_ANSWER
    options = _options(task.inputs, field)
    right = _expected_letter(task.expected, options)
    if right is None:
        return Score(None, f"the expected answer {text(task.expected)} is none of the options {', '.join(options)}")
    chosen = _chosen(text(run.output), options or dict.fromkeys(string.ascii_uppercase, ""))
    if len(chosen) != 1:
        return Score(0.0, f"more than one option: {', '.join(chosen)}" if chosen else "no option was named")
    return Score(float(chosen[0] == right), "" if chosen[0] == right else f"expected {right}", chosen[0])


def _options(inputs: Mapping[str, Any], field: str) -> dict[str, str]:
    options = inputs.get(field)
    if isinstance(options, Mapping):
        return {str(letter).strip().upper(): text(each) for letter, each in options.items()}
    if isinstance(options, list | tuple):
        return dict(zip(string.ascii_uppercase, map(text, options), strict=False))
    listed = [pair for each in inputs.values() if isinstance(each, str) for pair in _LISTED.findall(each)]
    return dict(listed) if len(dict(listed)) > 1 else {}


def _expected_letter(expected: object, options: Mapping[str, str]) -> str | None:
    if isinstance(expected, int) and not isinstance(expected, bool):
        return list(options)[expected] if 0 <= expected < len(options) else None
    wanted = bare(expected)
    letter = wanted.upper()
    if letter in options or (not options and re.fullmatch("[A-Z]", letter)):
        return letter
    same = [letter for letter, each in options.items() if bare(each) == wanted]
    return same[0] if len(same) == 1 else None


def _chosen(answer: str, options: Mapping[str, str]) -> list[str]:
    """The options that an answer names, by the clearest way in which it names any."""
    whole = bare(answer)
    texts = {letter: bare(each) for letter, each in options.items() if each.strip()}
    for letter in options:
        if whole == letter.casefold() or (texts.get(letter) and whole == texts[letter]):
            return [letter]
    begins = _MARKED.match(answer.strip().lstrip("*_`"))
    if begins:
        letter = (begins[1] or begins[2]).upper()
        rest = bare(answer.strip().lstrip("*_`")[begins.end() :])
        if texts.get(letter) and rest == texts[letter]:
            return [letter]
    stated = _STATED.findall(_CUE.sub(lambda cue: cue[0].lower(), answer))
    marked = ["".join(pair) for pair in _MARKED.findall(answer)]
    for letters_of in (stated, marked, _ALONE.findall(answer)):
        letters = [letter for letter in options if letter in {each.upper() for each in letters_of}]
        if letters:
            return letters
    lower = answer.casefold()
    held = {letter: each for letter, each in texts.items() if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", lower)}
    # An option that is part of another named option was not named itself: "York" in "New York".
    return [
        letter for letter, each in held.items() if not any(each != other and each in other for other in held.values())
    ]


_NUMBER = re.compile(
    r"\\[dt]?frac\{(?P<top>-?\d+)\}\{(?P<bottom>\d+)\}"
    r"|(?<![\w.])(?P<sign>-?)\s?[$€£¥]?(?P<minus>-?)"
    r"(?:(?P<whole>\d+)\s+(?=\d+/\d))?"
    r"(?P<digits>(?:\d{1,3}(?:[,\u00a0\u202f'’]\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)"
    r"(?P<exponent>[eE][-+]?\d+)?(?:/(?P<under>\d+)(?![\d/]))?\s?(?P<percent>%|percent\b)?",
)


def numbers(text: str) -> Iterator[tuple[float, bool]]:
    """The numbers in a text, and whether each is a percentage: `1,234.5`, `-$3`, `3/4`, `1 1/2`, `2e-3`."""
    for match in _NUMBER.finditer(text.replace("−", "-")):
        if match["bottom"]:
            value = _over(float(match["top"]), match["bottom"])
        else:
            value = float(re.sub(r"[,\u00a0\u202f'’]", "", match["digits"]) + (match["exponent"] or ""))
            value = _over(value, match["under"]) + float(match["whole"] or 0)
            value = -value if match["sign"] or match["minus"] else value
        if math.isfinite(value):
            yield value, bool(match["percent"])


def _over(value: float, under: str | None) -> float:
    if under is None:
        return value
    return value / float(under) if float(under) else math.nan


def _tolerances(tolerance: float = 0.0, relative: float = 0.0) -> None:
    if tolerance < 0 or relative < 0:
        raise ValueError("a tolerance below 0")


@metric(version=1, needs=("expected",), check=_tolerances, binary=True)
def numeric(run: Run, task: Task, *, tolerance: float = 0.0, relative: float = 0.0) -> Score:
    """1 if the last number of the output, or the one after `####`, is the expected number.

    It may be off by `tolerance`, or by the share `relative` of the expected one. Of the expected answer too the
    number after `####` or the last one counts. Units and currencies make no difference; 50% is 0.5, and is 50 where
    the other side says 50.
    """
    if task.expected is None:
        return NO_ANSWER
    wanted, got = _last_number(task.expected), _last_number(run.output)
    if wanted is None:
        return Score(None, "the expected answer has no number")
    if got is None:
        return Score(0.0, "no number in the output")
    aim, number = _shared_unit(wanted, got)
    # Decimal fractions are not exact in binary, so the last digits never count.
    right = abs(aim - number) <= max(tolerance, relative * abs(aim), 1e-9 * abs(aim))
    return Score(float(right), "" if right else f"expected {wanted[0]:.15g}", f"{got[0]:.15g}")


def _last_number(value: object) -> tuple[float, bool] | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (float(value), False) if abs(value) < 1e308 else None
    _, mark, after = text(value).rpartition("####")
    if mark and (marked := next(numbers(after), None)):
        return marked
    return next(reversed([*numbers(text(value))]), None)


def _shared_unit(one: tuple[float, bool], other: tuple[float, bool]) -> tuple[float, float]:
    """Both values as fractions, or both as percentages: a number above 1 beside a percentage is one too."""
    if one[1] == other[1]:
        return one[0], other[0]
    plain = other[0] if one[1] else one[0]
    share = 1.0 if abs(plain) > 1 else 100.0
    return (one[0] / share if one[1] else one[0]), (other[0] / share if other[1] else other[0])


_FENCE = re.compile(r"```[a-zA-Z]*+[^\S\n]*+\n")


def _parsed(output: object) -> tuple[Any, str]:
    """The JSON value of an output, plain or within a code fence, and why there is none."""
    if not isinstance(output, str):
        return (None, "no output") if output is None else (output, "")
    plain = output.strip()
    fence = _FENCE.match(plain) if plain.endswith("```") else None
    try:
        return json.loads(plain[fence.end() : -3] if fence else output, parse_constant=_no_json), ""
    except (ValueError, RecursionError) as wrong:
        return None, f"not JSON: {wrong}"


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


@metric(version=1, binary=True)
def json_valid(run: Run, task: Task) -> Score:
    """1 if the output is JSON, as it is or within one code fence."""
    _, wrong = _parsed(run.output)
    return Score(float(not wrong), wrong)


def _schema(schema: object = None) -> None:
    if schema is None:
        return
    if not isinstance(schema, dict):
        raise ValueError("a schema that is not a mapping")
    check_schema(schema)


@metric(version=1, needs=("expected or schema",), check=_schema, binary=True)
async def json_schema(run: Run, task: Task, *, schema: Any = None) -> Score:
    """1 if the output is JSON that satisfies a JSON Schema: the option `schema`, or else the expected answer.

    A schema with a pattern that takes too long gives no score.
    """
    wanted = task.expected if schema is None else schema
    if wanted is None:
        return Score(None, "there is no schema")
    if schema is None:
        try:
            _schema(wanted)
        except ValueError as wrong:
            return Score(None, f"the expected answer is not a JSON Schema: {wrong}")
    value, why = _parsed(run.output)
    if why:
        return Score(0.0, why)
    try:
        await asyncio.to_thread(expect_quick, wanted, value)
    except (re.error, ValueError) as wrong:
        return Score(None, str(wrong))
    problems = misfits(value, wanted)
    return Score(float(not problems), "; ".join(f"{each.path}: {each.expected}" for each in problems[:3])[:500])


@metric(version=1, binary=True)
def schema_valid(run: Run, task: Task) -> Score:
    """1 if every structured answer had its form at once, without repair."""
    if not (answers := [turn for turn in run.turns if turn.options.get("schema") and not turn.calls]):
        return Score(None, "no step has an output")
    repaired = sum(turn.is_misfit for turn in answers)
    return Score(float(not repaired), f"{repaired} of {len(answers)} answers had another form" if repaired else "")


@metric(version=1, needs=("expected",))
def json_fields(run: Run, task: Task) -> Score:
    """The share of the expected fields that the JSON output has with the same values; other fields are ignored.

    Nested fields count one by one, lists as a whole. Text may differ in case and surrounding space.
    """
    wanted, _ = _parsed(task.expected)
    if not isinstance(wanted, Mapping) or not wanted:
        return NO_ANSWER if task.expected is None else Score(None, "the expected answer is not a mapping of fields")
    value, why = _parsed(run.output)
    if why:
        return Score(0.0, why)
    fields = list(_leaves(wanted))
    wrong = [".".join(path) for path, leaf in fields if not _equal(leaf, _within(value, path))]
    return Score(1 - len(wrong) / len(fields), f"differs in {', '.join(wrong)}"[:500] if wrong else "")


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _leaves(each, (*path, str(name)))
    else:
        yield path, value


_MISSING = object()


def _within(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name, _MISSING) if isinstance(value, Mapping) else _MISSING
    return value


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.strip().casefold() == other.strip().casefold()
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
