"""Drift: how many live answers of replays differ from those recorded for the same request, and where first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from seedbed.runs.cassette import Difference, first_difference
from seedbed.runs.run import Run
from seedbed.storage.store import Json

COMPARED = {"turn": ("text", "value"), "call": ("result", "error")}
"""What of an answer is compared, by its kind; of a turn also the calls that it asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDrift:
    """Of one step or tool: how many live answers were compared with the recorded ones, and how many differ. `path` is
    where the first of them does, with the values there."""

    kind: str
    name: str
    compared: int
    differ: int
    path: str = ""
    now: str = ""
    recorded: str = ""


def compare_answers(kind: str, name: str, now: Json, recorded: Json) -> AnswerDrift:
    """One live answer beside the recorded one."""
    difference = first_difference(_answer(kind, now), _answer(kind, recorded))
    differ, at = int(difference is not None), difference or Difference("", "", "")
    return AnswerDrift(kind=kind, name=name, compared=1, differ=differ, path=at.path, now=at.now, recorded=at.recorded)


def _answer(kind: str, body: Json) -> Json:
    answer = {name: body.get(name) for name in COMPARED[kind]}
    calls = [{name: each[name] for name in ("tool", "arguments")} for each in body.get("calls", ())]
    return answer | ({"calls": calls} if calls else {})


def add_up(drifts: Iterable[AnswerDrift]) -> list[AnswerDrift]:
    """One for each step and tool; of several, the first that differs says where."""
    sums: dict[tuple[str, str], AnswerDrift] = {}
    for each in drifts:
        so_far = sums.get((each.kind, each.name))
        first = so_far if so_far and so_far.differ else each
        compared, differ = (so_far.compared, so_far.differ) if so_far else (0, 0)
        sums[each.kind, each.name] = replace(first, compared=compared + each.compared, differ=differ + each.differ)
    return [sums[step] for step in sorted(sums)]


def drift_of(run: Run) -> list[AnswerDrift]:
    """What a replay recorded of it."""
    return [AnswerDrift(**each) for each in (run.replay or {}).get("drift", ())]
