"""Bills: what a provider charged for an answer, against the most that its request can carry."""

from __future__ import annotations

from seedbed.errors import dollars
from seedbed.models.chat import Reply
from seedbed.spending.ledger import Reservation

HIDDEN_TOKENS = 1_000
"""How many tokens a provider may add to a request unseen, such as those of its template."""

HIDDEN_USD = 0.01
"""What they may cost."""

REST_SECONDS = 900.0
"""How long a model is left alone whose bill cannot be right: no limit can be kept with it."""


def overbilled(reservation: Reservation, reply: Reply) -> str:
    """A sentence about an answer that cost more than its request can carry; none if it did not, or has no limit."""
    if reservation.most_usd is None or reservation.most_tokens is None:
        return ""
    if reply.cost_usd <= reservation.most_usd * (1 + 1e-9) and reply.tokens <= reservation.most_tokens:
        return ""
    bill = f"{reply.tokens:,} tokens, {dollars(reply.cost_usd)},"
    most = f"{reservation.most_tokens:,} tokens, {dollars(reservation.most_usd)},"
    return f"{reply.model} charged {bill} for a request that can carry {most} at most"


def is_impossible(reservation: Reservation, reply: Reply) -> bool:
    """Whether a bill is higher than what a provider may add unseen explains."""
    tokens, usd = reservation.most_tokens or 0, reservation.most_usd or 0.0
    return reply.tokens > 2 * tokens + HIDDEN_TOKENS or reply.cost_usd > 2 * usd + HIDDEN_USD
