from __future__ import annotations

import pytest

from seedbed.models.calling.fallback import ModelAnswer
from seedbed.models.chat import Message, Reply, Usage
from seedbed.stage.turns.model_turns import TurnRequest, turn_of


@pytest.mark.parametrize(("text", "notices"), [("fine", ()), (" ", ("fast answered nothing",))])
def test_a_turn_has_what_was_asked_what_was_answered_and_a_notice_if_that_is_nothing(
    text: str, notices: tuple[str, ...]
) -> None:
    reply = Reply(text=text, usage=Usage(4, 1), cost_usd=0.5, latency_seconds=0.25, model="fast", finish_reason="stop")
    answer = ModelAnswer(reply=reply, waited_seconds=2.0)
    turn = turn_of("answer", TurnRequest("writer", [Message("user", "Why?")]), 7, answer)
    assert (turn.messages, turn.text, turn.model, turn.seed) == ((("user", "Why?"),), text, "fast", 7)
    assert (turn.tokens, turn.cost_usd, turn.latency_seconds, turn.waited_seconds) == (5, 0.5, 0.25, 2.0)
    assert turn.notices == notices
