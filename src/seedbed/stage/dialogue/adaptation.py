"""Whether a step is taken, and whether rounds that are repeated have come to an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from seedbed.playbooks.conditions import Condition, StopRule, Until
from seedbed.stage.dialogue.answers import AnswerText

Round = Mapping[str, str]
"""What each step answered in one round, in the order of speaking; "" or nothing of a step that was not taken."""

ConvergenceOutcome = Literal["going on", "converged", "stalled", "oscillating", "deadlock"]

HARDLY_CHANGED = 0.8
"""How alike work is, at least, from which no better score can be expected."""


@dataclass(frozen=True)
class Convergence:
    """How things stand after a round, and one sentence that gives the figures."""

    outcome: ConvergenceOutcome
    because: str


def holds(condition: Condition, answers: Mapping[str, str]) -> bool:
    """Whether the answers are what the condition asks for; a step without an answer has said "".

    Case and white space do not matter to `says` and `lacks`. `at_least` and `below` look at the last number of the
    answer as it is written, so 80 in "80 %" and 8 in "8/10", "8 of 10" and "8 out of 10"; one without fulfils neither.
    A condition that names no step means the one named around it, or else the last that spoke.
    """
    return _fulfilled(condition, [_told(answers)], "")


def assess(until: Until, rounds: Sequence[Round]) -> Convergence:
    """Whether these rounds were enough.

    - converged: the rule holds; or there is none, and all rounds were done
    - deadlock: agreement is asked for, but in three rounds nobody moved, and in the last two they contradicted each
      other
    - oscillating: twice in a row somebody returned to the answer before the last, and nobody said anything new
    - stalled: a score asked for has not risen for two rounds, and the work hardly changes; or all rounds were done
    """
    told = [_told(each) for each in rounds]
    rules = list(_rules(until, ""))
    after = f"after {len(rounds)} of at most {until.at_most} rounds"
    ended = len(rounds) >= until.at_most
    if not any(_asks(rule) for _, rule in rules):
        return Convergence("converged", f"all {len(rounds)} rounds planned were done") if ended else _going_on(after)
    if not any(told):
        return Convergence("stalled", f"nobody answered {after}") if ended else _going_on(after)
    figures = "; ".join(dict.fromkeys(_figures(rules, told)))
    if _fulfilled(until, told, ""):
        return Convergence("converged", f"{figures or 'the answers are what was asked for'}, {after}")
    if any(rule.agreement is not None for _, rule in rules) and _deadlocked(told):
        return Convergence("deadlock", f"nobody moves any more, and they contradict each other: {figures}, {after}")
    if len(told) >= 4 and _returned(told) and _returned(told[:-1]):
        return Convergence("oscillating", f"the answers go back and forth, {after}")
    if any(rule.at_least is not None and _score_stalled(step, rule.at_least, told) for step, rule in rules):
        return Convergence(
            "stalled", f"the score has not risen for 2 rounds, and the work hardly changes: {figures}, {after}"
        )
    figures = figures or "the answers are not yet what was asked for"
    return Convergence("stalled", f"{figures}, {after}") if ended else _going_on(f"{figures}, {after}")


def _going_on(because: str) -> Convergence:
    return Convergence("going on", because)


# What a rule asks for -------------------------------------------------------------------------------------------------

Rounds = Sequence[Mapping[str, AnswerText]]


def _told(answers: Mapping[str, str]) -> dict[str, AnswerText]:
    return {step: AnswerText(text) for step, text in answers.items() if text.strip()}


def _said(step: str, answers: Mapping[str, AnswerText]) -> AnswerText:
    return answers.get(step or next(reversed([*answers]), ""), AnswerText(""))


def _fulfilled(rule: Condition, told: Rounds, step: str) -> bool:
    """Whether the rule held after each of the last rounds that it is about."""
    rounds = rule.rounds if isinstance(rule, StopRule) else 1
    return len(told) >= rounds and all(_holds(rule, told[: len(told) - ago], step) for ago in range(rounds))


def _holds(rule: Condition, told: Rounds, step: str) -> bool:
    step = rule.step or step
    said = _said(step, told[-1])
    return (
        (rule.says is None or _flat(rule.says) in _flat(said.text))
        and (rule.lacks is None or _flat(rule.lacks) not in _flat(said.text))
        and _reaches(said.number, rule.at_least)
        and (rule.below is None or (said.number is not None and said.number < rule.below))
        and (not isinstance(rule, StopRule) or _reached(rule, told))
        and all(_fulfilled(each, told, step) for each in rule.all)
        and (not rule.any or any(_fulfilled(each, told, step) for each in rule.any))
    )


def _reached(rule: StopRule, told: Rounds) -> bool:
    return (
        _reaches(_agreement(told), rule.agreement)
        and _reaches(_settled(told), rule.settled)
        and _reaches(_unmoved(told), rule.stable)
    )


def _reaches(measured: float | None, asked: float | None) -> bool:
    return asked is None or (measured is not None and measured >= asked)


def _agreement(told: Rounds) -> float | None:
    """How far the two agree that agree least; of one speaker alone, how little it changed."""
    pairs = combinations(told[-1].values(), 2)
    return min((one.agrees(other) for one, other in pairs), default=_settled(told))


def _settled(told: Rounds) -> float | None:
    """How alike the answer that changed most is to the one before; None if there is none before."""
    return min((now.like(before) for now, before in _beside(told, 1)), default=None)


def _unmoved(told: Rounds) -> int:
    """In how many rounds, up to the last, everybody's answer came to the same as in the last."""
    rounds = 1
    while (pairs := list(_beside(told, rounds))) and all(now.comes_to(before) for now, before in pairs):
        rounds += 1
    return rounds


def _beside(told: Rounds, ago: int) -> Iterator[tuple[AnswerText, AnswerText]]:
    """Each answer of the last round, with that of the same step so many rounds ago."""
    if len(told) > ago:
        yield from ((answer, told[-1 - ago].get(step, AnswerText(""))) for step, answer in told[-1].items())


def _deadlocked(told: Rounds) -> bool:
    return _unmoved(told) >= 3 and all(
        any(one.opposes(other) for one, other in combinations(each.values(), 2)) for each in told[-2:]
    )


def _returned(told: Rounds) -> bool:
    """Whether somebody is back at the answer before the last, and all others stay with their last."""
    moved = [n for n, (now, before) in enumerate(_beside(told, 1)) if not now.comes_to(before)]
    earlier = [now.comes_to(before) for now, before in _beside(told, 2)]
    return bool(moved) and all(earlier[n] for n in moved)


def _score_stalled(step: str, asked: float, told: Rounds) -> bool:
    scores = [number for each in told[-3:] if (number := _said(step, each).number) is not None]
    if len(scores) < 3 or max(scores[1:]) > scores[0] or scores[-1] >= asked:
        return False
    scored = step or next(reversed([*told[-1]]), "")
    work = [{name: answer for name, answer in each.items() if name != scored} or each for each in told]
    return _reaches(_settled(work), HARDLY_CHANGED)


# What is told about it ------------------------------------------------------------------------------------------------


def _rules(rule: StopRule, step: str) -> Iterator[tuple[str, StopRule]]:
    """The rule and all within it, each with the step it is about."""
    yield (step := rule.step or step), rule
    for each in (*rule.all, *rule.any):
        yield from _rules(each, step)


def _asks(rule: StopRule) -> bool:
    asked = (rule.says, rule.lacks, rule.at_least, rule.below, rule.agreement, rule.settled, rule.stable)
    return any(each is not None for each in asked)


def _figures(rules: Sequence[tuple[str, StopRule]], told: Rounds) -> Iterator[str]:
    for step, rule in rules:
        if rule.agreement is not None and (alike := _agreement(told)) is not None:
            yield f"answers {alike:.2f} alike, {rule.agreement:g} asked for"
        if rule.settled is not None and (alike := _settled(told)) is not None:
            yield f"each at least {alike:.2f} like the one before, {rule.settled:g} asked for"
        if rule.stable is not None:
            yield f"the same conclusions in {_unmoved(told)} rounds, {rule.stable} asked for"
        if rule.at_least is not None and (number := _said(step, told[-1]).number) is not None:
            yield f"a score of {number:g}, {rule.at_least:g} asked for"


def _flat(text: str) -> str:
    return " ".join(text.casefold().split())
