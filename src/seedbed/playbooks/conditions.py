"""When a step is taken, and when a round has been repeated often enough.

```yaml
when: {step: review, lacks: nothing must change}
until: {back_to: draft, settled: 0.9, any: [{agreement: 0.8}, {step: review, at_least: 8}], at_most: 5}
```
All that stands in one mapping must hold; under `any` one of the mappings must.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from seedbed.playbooks.values import Frozen, Number, Share, StepName

MOST_ROUNDS = 50

Phrase = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


class Condition(Frozen):
    """What an earlier answer must be like: words it says or lacks, or the last number in it.

    Where no `step` is named, the one is meant that is named around it, or else the one that has the condition.
    """

    step: StepName | None = None
    says: Phrase | None = None
    lacks: Phrase | None = None
    at_least: Number | None = None
    below: Number | None = None
    all: tuple[Condition, ...] = ()
    any: tuple[Condition, ...] = ()


class StopRule(Condition):
    """What the rounds so far must be like, in each of the last `rounds`.

    `agreement` is how alike the speakers' answers are (of one speaker: this answer and the one before), `settled` how
    little each changed its own since the round before, both from 0 to 1; `stable` says in how many rounds in a row the
    conclusions were the same.
    """

    agreement: Share | None = None
    settled: Share | None = None
    stable: Annotated[int, Field(ge=2, le=20)] | None = None
    rounds: Annotated[int, Field(ge=1, le=20)] = 1
    all: tuple[StopRule, ...] = ()
    any: tuple[StopRule, ...] = ()


class Until(StopRule):
    """Repeat a round until the rule holds, or it is plain that it never will; at most so often.

    A round is the step itself, or all steps from the one it goes `back_to`. Recommended for speakers on the same
    question: `any: [{agreement: 0.5, stable: 2}, {stable: 4}]`; for one who revises a text: `settled: 0.75, rounds: 2`;
    for different jobs, such as work and review: what the judge says, such as `at_least: 8`.
    """

    back_to: StepName | None = None
    at_most: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] = 3


def earliest(rule: Mapping[str, Any], *, alone: bool) -> int:
    """The first round after which a rule can hold, without those within it; `alone` says that only one step speaks."""
    compared = "settled" in rule or (alone and "agreement" in rule)
    stable, rounds = (value if isinstance(value := rule.get(name), int) else 1 for name in ("stable", "rounds"))
    return max(stable, 2 if compared else 1) + rounds - 1
