"""Conditions: when a step runs, and when a loop stops.

```yaml
when: {step: review, lacks: nothing must change}
until: {back_to: draft, settled: 0.9, any: [{agreement: 0.8}, {step: review, at_least: 8}], at_most: 5}
```
Everything in one mapping must hold; of the mappings under `any`, at least one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from seedbed.playbooks.values import Frozen, Number, Proportion, StepName

MOST_ROUNDS = 50

Phrase = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


class Condition(Frozen):
    """A test of an earlier answer: words it says or lacks, or the last number in it.

    Without `step` it is about the step of the surrounding condition, or else the step that has the condition.
    """

    step: StepName | None = None
    says: Phrase | None = None
    lacks: Phrase | None = None
    at_least: Number | None = None
    below: Number | None = None
    all: tuple[Condition, ...] = ()
    any: tuple[Condition, ...] = ()


class StopRule(Condition):
    """A test of the rounds so far, which must hold in each of the last `rounds`.

    `agreement` is how alike the answers of the speakers are (of one speaker: this answer and the one before), `settled`
    how little each speaker changed its answer since the round before, both from 0 to 1. `stable` is in how many rounds
    in a row the conclusions were the same.
    """

    agreement: Proportion | None = None
    settled: Proportion | None = None
    stable: Annotated[int, Field(ge=2, le=20)] | None = None
    rounds: Annotated[int, Field(ge=1, le=20)] = 1
    all: tuple[StopRule, ...] = ()
    any: tuple[StopRule, ...] = ()


class Until(StopRule):
    """Repeat a round until the rule holds or can no longer hold; at most `at_most` times.

    A round is the step itself, or all steps from `back_to` on. Recommended for several speakers on one question:
    `any: [{agreement: 0.5, stable: 2}, {stable: 4}]`; for one speaker who revises a text: `settled: 0.75, rounds: 2`;
    for different jobs, such as work and review: a score of the reviewer, such as `at_least: 8`.
    """

    back_to: StepName | None = None
    at_most: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] = 3


def earliest(rule: Mapping[str, Any], *, alone: bool) -> int:
    """The first round after which a rule can hold, without its inner rules; `alone` means that only one step speaks."""
    compared = "settled" in rule or (alone and "agreement" in rule)
    stable, rounds = (value if isinstance(value := rule.get(name), int) else 1 for name in ("stable", "rounds"))
    return max(stable, 2 if compared else 1) + rounds - 1


def fewest_rounds(until: Until) -> int:
    """How many rounds all its rules need to hold, whoever speaks."""
    rules: list[StopRule] = [until]
    for rule in rules:
        rules += (*rule.all, *rule.any)
    return max(earliest(rule.model_dump(exclude_defaults=True), alone=True) for rule in rules)
