"""Adaptation: whether a step is due, and whether the rounds of a loop have come to an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from seedbed.playbooks.conditions import Condition, StopRule, Until
from seedbed.stage.dialogue.answers import AnswerText

Round = Mapping[str, str]
"""The answer of each step in one round, in their order; "" or nothing for a step that was left out."""

ConvergenceOutcome = Literal["going on", "converged", "stalled", "oscillating", "deadlock"]

HARDLY_CHANGED = 0.8
"""Answers at least this alike will not bring a better score."""


@dataclass(frozen=True)
class Convergence:
    """The state of a loop after a round, and one sentence with the figures."""

    outcome: ConvergenceOutcome
    because: str


def holds(condition: Condition, answers: Mapping[str, str]) -> bool:
    """Whether the answers fulfil a condition; a step without an answer counts as "".

    Case and white space do not matter to `says` and `lacks`. `at_least` and `below` look at the last number of the
    answer as it is written, so 80 in "80 %" and 8 in "8/10", "8 of 10" and "8 out of 10"; one without fulfils neither.
    A condition that names no step means the one named around it, or else the last that answered.
    """
    return _is_fulfilled(condition, [_read(answers)], "")


def assess(until: Until, rounds: Sequence[Round]) -> Convergence:
    """Whether these rounds were enough.

    - converged: the rule holds; or there is none, and all rounds were done
    - deadlock: agreement is required, but in three rounds no answer changed, and in the last two they contradicted
      each other
    - oscillating: twice in a row a step returned to its answer before the last, and no step said anything new
    - stalled: a required score has not risen for two rounds, and the work hardly changes; or all rounds were done
    """
    read = [_read(each) for each in rounds]
    rules = list(_rules(until, ""))
    after = f"after {len(rounds)} of at most {until.at_most} rounds"
    ended = len(rounds) >= until.at_most
    if not any(_demands(rule) for _, rule in rules):
        return Convergence("converged", f"all {len(rounds)} rounds planned were done") if ended else _going_on(after)
    if not any(read):
        return Convergence("stalled", f"nobody answered {after}") if ended else _going_on(after)
    figures = "; ".join(dict.fromkeys(_figures(rules, read)))
    if _is_fulfilled(until, read, ""):
        return Convergence("converged", f"{figures or 'the answers are what was asked for'}, {after}")
    if any(rule.agreement is not None for _, rule in rules) and _is_deadlocked(read):
        return Convergence("deadlock", f"nobody moves any more, and they contradict each other: {figures}, {after}")
    if len(read) >= 4 and _is_oscillating(read) and _is_oscillating(read[:-1]):
        return Convergence("oscillating", f"the answers go back and forth, {after}")
    if any(rule.at_least is not None and _has_stalled(step, rule.at_least, read) for step, rule in rules):
        return Convergence(
            "stalled", f"the score has not risen for 2 rounds, and the work hardly changes: {figures}, {after}"
        )
    figures = figures or "the answers are not yet what was asked for"
    return Convergence("stalled", f"{figures}, {after}") if ended else _going_on(f"{figures}, {after}")


def _going_on(because: str) -> Convergence:
    return Convergence("going on", because)


# What a rule demands --------------------------------------------------------------------------------------------------

Rounds = Sequence[Mapping[str, AnswerText]]


def _read(answers: Mapping[str, str]) -> dict[str, AnswerText]:
    return {step: AnswerText(text) for step, text in answers.items() if text.strip()}


def _answer_of(step: str, answers: Mapping[str, AnswerText]) -> AnswerText:
    return answers.get(step or next(reversed([*answers]), ""), AnswerText(""))


def _is_fulfilled(rule: Condition, rounds: Rounds, step: str) -> bool:
    """Whether the rule held after each of the last rounds that it is about."""
    last = rule.rounds if isinstance(rule, StopRule) else 1
    return len(rounds) >= last and all(_holds(rule, rounds[: len(rounds) - ago], step) for ago in range(last))


def _holds(rule: Condition, rounds: Rounds, step: str) -> bool:
    step = rule.step or step
    answer = _answer_of(step, rounds[-1])
    return (
        (rule.says is None or _flat(rule.says) in _flat(answer.text))
        and (rule.lacks is None or _flat(rule.lacks) not in _flat(answer.text))
        and _reaches(answer.number, rule.at_least)
        and (rule.below is None or (answer.number is not None and answer.number < rule.below))
        and (not isinstance(rule, StopRule) or _is_reached(rule, rounds))
        and all(_is_fulfilled(each, rounds, step) for each in rule.all)
        and (not rule.any or any(_is_fulfilled(each, rounds, step) for each in rule.any))
    )


def _is_reached(rule: StopRule, rounds: Rounds) -> bool:
    return (
        _reaches(_agreement(rounds), rule.agreement)
        and _reaches(_likeness_to_last(rounds), rule.settled)
        and _reaches(_stable_rounds(rounds), rule.stable)
    )


def _reaches(measured: float | None, least: float | None) -> bool:
    return least is None or (measured is not None and measured >= least)


def _agreement(rounds: Rounds) -> float | None:
    """How alike the two answers are that agree least; with one step alone, how little it changed."""
    pairs = combinations(rounds[-1].values(), 2)
    return min((one.agrees(other) for one, other in pairs), default=_likeness_to_last(rounds))


def _likeness_to_last(rounds: Rounds) -> float | None:
    """How alike the answer that changed most is to its previous version; None in the first round."""
    return min((now.like(before) for now, before in _beside(rounds, 1)), default=None)


def _stable_rounds(rounds: Rounds) -> int:
    """In how many rounds, up to the last, every answer came to the same as in the last."""
    stable = 1
    while (pairs := list(_beside(rounds, stable))) and all(now.comes_to(before) for now, before in pairs):
        stable += 1
    return stable


def _beside(rounds: Rounds, ago: int) -> Iterator[tuple[AnswerText, AnswerText]]:
    """Each answer of the last round, paired with the answer of the same step `ago` rounds earlier."""
    if len(rounds) > ago:
        yield from ((answer, rounds[-1 - ago].get(step, AnswerText(""))) for step, answer in rounds[-1].items())


def _is_deadlocked(rounds: Rounds) -> bool:
    return _stable_rounds(rounds) >= 3 and all(
        any(one.opposes(other) for one, other in combinations(each.values(), 2)) for each in rounds[-2:]
    )


def _is_oscillating(rounds: Rounds) -> bool:
    """Whether a step is back at its answer before the last, and all others repeat their last."""
    moved = [n for n, (now, before) in enumerate(_beside(rounds, 1)) if not now.comes_to(before)]
    earlier = [now.comes_to(before) for now, before in _beside(rounds, 2)]
    return bool(moved) and all(earlier[n] for n in moved)


def _has_stalled(step: str, least: float, rounds: Rounds) -> bool:
    scores = [number for each in rounds[-3:] if (number := _answer_of(step, each).number) is not None]
    if len(scores) < 3 or max(scores[1:]) > scores[0] or scores[-1] >= least:
        return False
    scored = step or next(reversed([*rounds[-1]]), "")
    work = [{name: answer for name, answer in each.items() if name != scored} or each for each in rounds]
    return _reaches(_likeness_to_last(work), HARDLY_CHANGED)


# How it is described --------------------------------------------------------------------------------------------------


def _rules(rule: StopRule, step: str) -> Iterator[tuple[str, StopRule]]:
    """The rule and all within it, each with the step it is about."""
    yield (step := rule.step or step), rule
    for each in (*rule.all, *rule.any):
        yield from _rules(each, step)


def _demands(rule: StopRule) -> bool:
    demands = (rule.says, rule.lacks, rule.at_least, rule.below, rule.agreement, rule.settled, rule.stable)
    return any(each is not None for each in demands)


def _figures(rules: Sequence[tuple[str, StopRule]], rounds: Rounds) -> Iterator[str]:
    for step, rule in rules:
        if rule.agreement is not None and (alike := _agreement(rounds)) is not None:
            yield f"answers {alike:.2f} alike, {rule.agreement:g} asked for"
        if rule.settled is not None and (alike := _likeness_to_last(rounds)) is not None:
            yield f"each at least {alike:.2f} like the one before, {rule.settled:g} asked for"
        if rule.stable is not None:
            yield f"the same conclusions in {_stable_rounds(rounds)} rounds, {rule.stable} asked for"
        if rule.at_least is not None and (number := _answer_of(step, rounds[-1]).number) is not None:
            yield f"a score of {number:g}, {rule.at_least:g} asked for"


def _flat(text: str) -> str:
    return " ".join(text.casefold().split())
