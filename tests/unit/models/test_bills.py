"""What a provider charges is compared with the most that a request can carry."""

from __future__ import annotations

from seedbed.models.calling.bills import is_impossible, overbilled
from seedbed.models.chat import Reply
from seedbed.models.usage import Usage
from seedbed.spending.ledger import Reservation


def reply(tokens: int, usd: float) -> Reply:
    usage = Usage(0, tokens)
    return Reply(text="", usage=usage, cost_usd=usd, latency_seconds=0.0, model="one", finish_reason="")


def test_a_bill_within_what_was_reserved_is_right() -> None:
    assert overbilled(Reservation(10, 0.5, 100), reply(100, 0.5)) == ""


def test_without_a_limit_no_bill_is_too_high() -> None:
    assert overbilled(Reservation(10), reply(10**9, 1e6)) == ""


def test_a_hidden_template_is_named_and_no_reason_to_stop() -> None:
    reserved, bill = Reservation(10, 0.5, 100), reply(300, 0.6)
    expected = "one charged 300 tokens, $0.60, for a request that can carry 100 tokens, $0.50, at most"
    assert overbilled(reserved, bill) == expected
    assert not is_impossible(reserved, bill)


def test_more_than_a_template_explains_is_impossible() -> None:
    assert is_impossible(Reservation(10, 0.5, 100), reply(1_201, 0.5))
    assert is_impossible(Reservation(10, 0.5, 100), reply(100, 1.02))
