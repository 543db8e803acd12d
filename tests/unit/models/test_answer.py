"""What came of a question is told in full: who answered in whose place, and what all of it cost."""

from __future__ import annotations

from seedbed.models.calling.answer import Attempt, Fallback, ModelAnswer
from seedbed.models.chat import Reply, Usage

REPLY = Reply(text="a", usage=Usage(1, 1), cost_usd=1.0, latency_seconds=1.0, model="b", finish_reason="stop")


def test_the_bill_has_the_answer_and_every_other_try() -> None:
    tries = [Attempt(model="a", why="transient", told="late", seconds=1.0, cost_usd=cost) for cost in (0.25, 0.5)]
    assert ModelAnswer(reply=REPLY, attempts=tuple(tries)).cost_usd == 1.75


def test_a_substitution_is_a_sentence() -> None:
    assert str(Fallback(asked="a", used="b", because="it rests")) == "b was asked instead of a: it rests"
