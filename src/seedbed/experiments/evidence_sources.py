"""Sources: where the evidence of a comparison comes from, besides a dataset."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, fields, replace
from datetime import datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from seedbed.errors import DatasetError, Problem, SettingsError, expect_type, shown
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.replay.history import History, PastRun, draw_history, find_past_runs
from seedbed.playbooks.values import is_whole
from seedbed.runs.cassette import ReplayMode
from seedbed.storage.store import Digest, Store

_CONDITION = re.compile(r"\s*(?P<name>\w+)\s*(?P<sign>>=|<=|!=|==|=|>|<)\s*(?P<value>'[^']*'|\"[^\"]*\"|[\w.+-]+)\s*")
_SIGNS = {"=": eq, "==": eq, "!=": ne, ">=": ge, "<=": le, ">": gt, "<": lt}
_NUMBERS = ("score", "tokens", "turns")
_TEXTS = ("status", "error")


@dataclass(frozen=True, slots=True)
class PastRuns:
    """Past runs of the control, replayed by both playbooks; no tool changes anything.

    `compare(a, b, on=past_runs("score >= 0.2 and status = 'completed'", sample=200))` chooses by the score of its
    metric and draws a representative sample; default: all runs. `since` and `until` limit when they ended. `mode` is
    strict, lenient, or fork:K, which is live from step K on. `expected` has tasks with the expected answers.
    """

    where: str = ""
    _: KW_ONLY
    sample: int | None = None
    mode: str = "strict"
    since: datetime | None = None
    until: datetime | None = None
    expected: Dataset | None = None

    def __post_init__(self) -> None:
        expect_type(self.mode, str, "mode", "strict, lenient, or fork:K")
        ReplayMode.parse(self.mode)
        expect_type(self.where, str, "where", 'conditions in words, such as "score >= 0.2"')
        _conditions(self.where)
        if self.sample is not None and not (is_whole(self.sample) and self.sample >= 1):
            raise SettingsError([Problem("sample", shown(self.sample), "at least 1, a whole number")])

    def draw(self, store: Store, playbook: Digest, metric: str, seed: int) -> History:
        """The past runs of a playbook that are chosen, as tasks. Raises DatasetError if there are none."""
        conditions = _conditions(self.where)
        scored = metric if any(name == "score" for name, _, _ in conditions) else None
        every = find_past_runs(store, playbook=playbook, since=self.since, until=self.until, metric=scored)
        runs = [run for run in every if all(_holds(run, *each) for each in conditions)]
        count = len(runs) if self.sample is None else min(self.sample, len(runs))
        try:
            return draw_history(runs, count, seed=seed, known=self.expected or ())
        except DatasetError as wrong:
            problems = (replace(each, path="sample") if each.path == "n" else each for each in wrong.problems)
            raise DatasetError(problems) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTraffic:
    """The feedback of people on what channels served them: on the canary of one, or on several channels.

    The metric of the comparison names the feedback that counts. `conclude` ends the comparison, decided or not.
    """

    channels: tuple[str, ...]
    conclude: bool = False

    def __post_init__(self) -> None:
        if not self.channels:
            raise SettingsError([Problem("channels", "none", "the name of a channel")])
        for each in self.channels:
            expect_type(each, str, "channels", "the name of a channel")


past_runs = PastRuns

_LIVE = frozenset(("live", "conclude", "metric", "alpha", "rule", "exploratory", "file"))
"""The options that a comparison on live traffic uses. It runs nothing, and the channels say what is compared."""


def _changed(options: Any) -> dict[str, object]:
    """The fields of a dataclass of options that differ from their defaults."""
    own = {each.name: (getattr(options, each.name), each.default) for each in fields(options)}
    return {name: value for name, (value, default) in own.items() if value != default and value != []}


def expect_used(on: object, *groups: Any, **named: object) -> None:
    """Raise SettingsError for options that a comparison on this source would ignore: the fields of dataclasses that
    differ from their defaults, and others by name that are neither None nor empty."""
    options = {name: value for name, value in named.items() if value}
    for each in groups:
        options |= _changed(each)
    if isinstance(on, LiveTraffic):
        unused, where = options.keys() - _LIVE, "with live traffic, which is not run here"
        if len(on.channels) > 1 and "file" in options:
            unused, where = unused | {"file"}, "with several channels. Write one with: seedbed experiment report"
    elif isinstance(on, PastRuns):
        unused, where = options.keys() & {"plan", "program", "conclude"}, "with past runs"
    else:
        unused, where = options.keys() & {"mode", "live_runs", "since", "conclude"}, "with a dataset"
    if unused:
        remedies = {"program": "Use runs.replay(program=…)."}
        raise SettingsError(
            [Problem(each, shown(options[each]), f"none {where}", remedies.get(each, "")) for each in sorted(unused)]
        )
    rule = options.get("rule")
    if isinstance(on, LiveTraffic) and rule not in (None, "betting", {"rule": "betting"}):
        raise SettingsError([Problem("rule", shown(rule), "betting, the only rule for live traffic")])


def live(channel: str, *others: str, conclude: bool = False) -> LiveTraffic:
    """Compare by the feedback of people: on the canary of a channel, or on other channels against the first."""
    return LiveTraffic(channels=(channel, *others), conclude=conclude)


def _conditions(where: str) -> list[tuple[str, str, float | str]]:
    """Name, sign and value of each condition. Raises SettingsError."""
    conditions: list[tuple[str, str, float | str]] = []
    for text in re.split(r"\band\b", where) if where.strip() else ():
        match = _CONDITION.fullmatch(text)
        names = (*_NUMBERS, *_TEXTS)
        if match is None or match["name"] not in names:
            expected = f"conditions on {', '.join(names)} joined by and, such as score >= 0.2"
            raise SettingsError([Problem("where", shown(text.strip() or where), expected)])
        name, value = match["name"], match["value"].strip("'\"")
        try:
            conditions.append((name, match["sign"], float(value) if name in _NUMBERS else value))
        except ValueError:
            raise SettingsError([Problem("where", f"{name} {shown(value)}", "a number")]) from None
    return conditions


def _holds(run: PastRun, name: str, sign: str, value: float | str) -> bool:
    """Whether a condition holds for a run; none holds for a score that is missing."""
    own = getattr(run, name)
    return own is not None and bool(_SIGNS[sign](own, value))
