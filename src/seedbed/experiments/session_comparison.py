"""Past sessions of an agent compared in hindsight: a suggestion, not a verdict.

Nothing was registered in advance, neither which sessions to compare nor when to stop, and among enough pairs of
sessions some differ by chance. So no gate accepts the result; `seedbed compare` with new runs can prove it.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from seedbed.errors import DocumentError, Problem, shown
from seedbed.evaluation.intervals import mean_gain
from seedbed.runs.imports.sessions import Session, SessionTask, whole_sum
from seedbed.stats.estimates import mcnemar
from seedbed.storage.store import Json

NOT_REGISTERED = "not registered in advance: it can suggest, not prove, and no gate accepts it"

HindsightFinding: TypeAlias = Literal["superior", "inferior", "inconclusive", "invalid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPair:
    """One task on both sides: the mean of its attempts with a score, and how many have none."""

    name: str
    a: float | None
    b: float | None
    missing: int = 0

    @property
    def gain(self) -> float | None:
        return None if self.a is None or self.b is None else self.b - self.a


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """How B did against A on the tasks that both have. Not a verdict: see `NOT_REGISTERED`."""

    a: tuple[str, ...]
    b: tuple[str, ...]
    finding: HindsightFinding
    because: str
    pairs: tuple[TaskPair, ...]
    wins: int
    ties: int
    losses: int
    missing: int
    """Attempts at those tasks without a score. They are left out of the means, and count against either finding."""
    a_mean: float | None
    b_mean: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_better: float | None
    p_worse: float | None
    """Exact one-sided McNemar tests, for a number of tasks fixed in advance."""
    p: float | None
    """The two-sided one."""
    alpha: float
    a_tokens: int | None
    b_tokens: int | None
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    """Tasks of one side alone."""
    changed: tuple[str, ...]
    """Tasks of one name whose text is not the same everywhere: they are not compared."""
    differs: Json = field(default_factory=dict, hash=False)
    """The values of each setting that is not the same on both sides."""

    def document(self) -> Json:
        return {**asdict(self), "registered": False, "note": NOT_REGISTERED}


def select(sessions: Sequence[Session], wanted: str) -> tuple[Session, ...]:
    """The session with this id, or the one whose id begins so; with `config.key=value`, all that were set so."""
    setting, equals, value = wanted.partition("=")
    if equals and setting.startswith("config."):
        keys = setting.removeprefix("config.").split(".")
        chosen = [each for each in sessions if _is(each.config, keys, value)]
        expected = "a setting that at least one session has"
    else:
        exact = [each for each in sessions if each.id == wanted]
        chosen = exact or [each for each in sessions if wanted and each.id.startswith(wanted)]
        expected = f"one of the sessions: {', '.join(each.id for each in sessions) or 'there are none'}"
        if len(chosen) > 1:
            ids = f"{shown(wanted)}, with which {len(chosen)} ids begin"
            raise DocumentError([Problem("session", ids, expected, "Give more of the id.")])
    if not chosen:
        raise DocumentError([Problem("session", shown(wanted), expected, "`seedbed sessions show` lists them.")])
    return tuple(chosen)


def compare_sessions(a: Sequence[Session], b: Sequence[Session], *, alpha: float = 0.05) -> Hindsight:
    """Whether B did better than A, task by task; tasks are matched by name, as ids differ between sessions.

    Several sessions of a side are attempts at the same tasks: a task counts once, by its mean. An attempt without a
    score is left out; superior and inferior must hold even if each task with such an attempt had gone the other way.
    """
    if not 0 < alpha < 1:
        raise DocumentError([Problem("alpha", shown(alpha), "above 0 and below 1, such as 0.05")])
    left, right = _by_name(a), _by_name(b)
    both = [name for name in left if name in right]
    changed = [name for name in both if len({task.text for task in (*left[name], *right[name])}) > 1]
    pairs = [_pair(name, left[name], right[name]) for name in both if name not in changed]
    known = [(each.a, each.b) for each in pairs if each.a is not None and each.b is not None]
    counts = _Counts.of(pairs)
    interval = mean_gain("", [one for one, _ in known], [other for _, other in known])
    has_interval = math.isfinite(interval.low) and interval.low < interval.high
    p_better, p_worse = one_sided(counts.wins, counts.losses), one_sided(counts.losses, counts.wins)
    finding, because = _finding(a, b, pairs, known, counts, alpha)
    return Hindsight(
        a=tuple(each.id for each in a),
        b=tuple(each.id for each in b),
        finding=finding,
        because=because,
        pairs=tuple(pairs),
        wins=counts.wins,
        ties=len(known) - counts.wins - counts.losses,
        losses=counts.losses,
        missing=sum(each.missing for each in pairs),
        a_mean=_mean([one for one, _ in known]),
        b_mean=_mean([other for _, other in known]),
        difference=interval.mean if known else None,
        low=interval.low if has_interval else None,
        high=interval.high if has_interval else None,
        p_better=p_better if known else None,
        p_worse=p_worse if known else None,
        p=mcnemar(counts.wins, counts.losses) if known else None,
        alpha=alpha,
        a_tokens=whole_sum(each.tokens for each in a),
        b_tokens=whole_sum(each.tokens for each in b),
        only_a=tuple(name for name in left if name not in right),
        only_b=tuple(name for name in right if name not in left),
        changed=tuple(changed),
        differs=_differences(a, b),
    )


def one_sided(wins: int, losses: int) -> float:
    """The exact p-value of "wins are no likelier than losses", for a number of tasks fixed in advance."""
    if wins > losses:
        return mcnemar(wins, losses) / 2
    # The chance of at least so many wins is one less that of fewer.
    return 1 - mcnemar(wins - 1, losses + 1) / 2 if wins else 1.0


@dataclass(frozen=True, slots=True)
class _Counts:
    wins: int
    losses: int
    sure_wins: int
    sure_losses: int
    unsure: int
    """Tasks with a try that has no score."""

    @classmethod
    def of(cls, pairs: Sequence[TaskPair]) -> _Counts:
        gains = [(each.gain, each.missing) for each in pairs]
        return cls(
            wins=sum(gain is not None and gain > 0 for gain, _ in gains),
            losses=sum(gain is not None and gain < 0 for gain, _ in gains),
            sure_wins=sum(gain is not None and gain > 0 and not missing for gain, missing in gains),
            sure_losses=sum(gain is not None and gain < 0 and not missing for gain, missing in gains),
            unsure=sum(missing > 0 for _, missing in gains),
        )


def _finding(
    a: Sequence[Session],
    b: Sequence[Session],
    pairs: Sequence[TaskPair],
    known: Sequence[tuple[float, float]],
    counts: _Counts,
    alpha: float,
) -> tuple[HindsightFinding, str]:
    shared = {each.id for each in a} & {each.id for each in b}
    doubts = [doubt for each in (*a, *b) for doubt in each.doubts]
    if shared:
        return "invalid", f"on both sides: {', '.join(sorted(shared))}"
    if doubts:
        return "invalid", "; ".join(doubts)
    if not pairs:
        return "invalid", "no task is on both sides"
    if not known:
        return "invalid", "no task has a score on both sides"
    if one_sided(counts.sure_wins, counts.sure_losses + counts.unsure) <= alpha:
        return "superior", f"B did better on {counts.wins} tasks and worse on {counts.losses}"
    if one_sided(counts.sure_losses, counts.sure_wins + counts.unsure) <= alpha:
        return "inferior", f"B did worse on {counts.losses} tasks and better on {counts.wins}"
    unlike = counts.wins + counts.losses
    if counts.unsure and min(one_sided(counts.wins, counts.losses), one_sided(counts.losses, counts.wins)) <= alpha:
        return "inconclusive", f"missing scores, on {counts.unsure} of {len(pairs)} tasks, might reverse it"
    least = math.ceil(-math.log2(alpha))
    if unlike < least:
        return (
            "inconclusive",
            f"the sides differ on {unlike} of {len(known)} tasks; with fewer than {least}, it may be chance",
        )
    return "inconclusive", f"{counts.wins} better and {counts.losses} worse may be due to chance"


def _by_name(sessions: Iterable[Session]) -> dict[str, list[SessionTask]]:
    by_name: dict[str, list[SessionTask]] = {}
    for session in sessions:
        for task in session.tasks:
            by_name.setdefault(task.name, []).append(task)
    return by_name


def _pair(name: str, a: Sequence[SessionTask], b: Sequence[SessionTask]) -> TaskPair:
    means = [_mean([task.score for task in side if task.score is not None]) for side in (a, b)]
    return TaskPair(name=name, a=means[0], b=means[1], missing=sum(task.score is None for task in (*a, *b)))


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _is(config: Mapping[str, Any], keys: Sequence[str], wanted: str) -> bool:
    value: Any = config
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return wanted == (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _differences(a: Sequence[Session], b: Sequence[Session]) -> Json:
    """For each setting that is not the same on both sides, its values there; null where it is not set."""
    keys = dict.fromkeys(key for each in (*a, *b) for key in each.config)
    sides = {key: (_values(a, key), _values(b, key)) for key in keys}
    return {key: {"a": one, "b": other} for key, (one, other) in sides.items() if one != other}


def _values(sessions: Sequence[Session], key: str) -> list[Any]:
    values = {json.dumps(each.config.get(key), sort_keys=True): each.config.get(key) for each in sessions}
    return [values[text] for text in sorted(values)]
