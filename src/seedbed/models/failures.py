"""Why a model gave no answer: the errors of many providers, sorted into the six kinds of `errors.Why`.

No provider's package is imported: an exception is recognised by the status it carries, or by the names of its classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from seedbed.errors import Why

_CONTEXT = (
    "context_length_exceeded",
    "context length",
    "context window",
    "context_window",
    "exceed_context_size",
    "exceeds the available context",
    "prompt is too long",
    "input is too long",
    "input token count",
    "string_above_max_length",
)
_REFUSED = ("content_filter", "content filter", "content_policy", "content policy", "responsibleai", "safety system")
_CREDIT = (
    "insufficient_quota",
    "insufficient_balance",
    "insufficient balance",
    "insufficient credit",
    "credit balance",
    "billing_hard_limit",
    "billing_not_active",
    "out of credits",
)

_CLASSES: dict[str, Why] = {
    "UnsupportedProtocol": "ours",  # although it is a TransportError
    "TransportError": "transient",
    "TimeoutException": "transient",
    "APIConnectionError": "transient",
    "APITimeoutError": "transient",
    "InternalServerError": "transient",
    "ServiceUnavailableError": "transient",
    "OverloadedError": "transient",
    "ClientConnectionError": "transient",
    "ClientPayloadError": "transient",
    "RemoteProtocolError": "transient",
    "TimeoutError": "transient",
    "ConnectionError": "transient",
    "gaierror": "transient",
    "SSLError": "transient",
    "JSONDecodeError": "transient",
    "UnicodeDecodeError": "transient",
    "RateLimitError": "rate",
    "ThrottlingException": "rate",
    "ResourceExhausted": "rate",
    "ContextOverflowError": "context",
    "ContextWindowExceededError": "context",
    "ContentFilterFinishReasonError": "refused",
    "ContentPolicyViolationError": "refused",
}
"""Exceptions without a status, by the name of their class or of one it inherits from."""


_UNSENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ClientConnectorError", "ConnectionRefusedError"})
_UNSENT |= {"gaierror", "SSLError", "UnsupportedProtocol", "RateLimitError", "ThrottlingException", "ResourceExhausted"}
_UNSENT |= {"InternalServerError", "ServiceUnavailableError", "OverloadedError", "ContextOverflowError"}
_UNSENT |= {"ContextWindowExceededError"}
"""Exceptions that show that a model did no work, by the name of their class or of one it inherits from."""

LATE = frozenset({504, 524})
"""Statuses of a gateway that did not wait for the answer, which may be charged all the same."""


def explain(error: BaseException) -> tuple[Why, float | None, bool]:
    """Why an exception was raised instead of an answer, how many seconds its provider asks us to wait, and whether it
    may charge for the request.

    If an exception does not tell, its cause may; one that nothing explains is a failure of the model that may pass.
    """
    for each in _causes(error):
        response = getattr(each, "response", None)
        status = getattr(each, "status_code", None) or getattr(response, "status_code", None)
        if isinstance(status, int):
            text = f"{each} {getattr(each, 'code', '')} {getattr(each, 'body', '')}"
            headers = getattr(response, "headers", None)
            wait = retry_after(headers) if isinstance(headers, Mapping) else None
            return explain_status(status, text), wait, status in LATE
        kinds = [kind.__name__ for kind in type(each).__mro__]
        for kind in kinds:
            if kind in _CLASSES:
                return _CLASSES[kind], None, _UNSENT.isdisjoint(kinds)
    return "transient", None, True


def explain_status(status: int, text: str) -> Why:
    """What an HTTP status means together with the provider's text, such as the code and message of its error."""
    text = text.lower()
    if status == 402 or any(words in text for words in _CREDIT):
        return "credit"
    if status == 429 or "rate_limit" in text:
        return "rate"
    if status == 413 or any(words in text for words in _CONTEXT):
        return "context"
    if any(words in text for words in _REFUSED):
        return "refused"
    return "transient" if status in (408, 409, 425) or status >= 500 else "ours"


def retry_after(headers: Mapping[str, Any], now: datetime | None = None) -> float | None:
    """The seconds after which a provider wants to be asked again, if it says so. Names of `headers` ignore case."""
    values = {str(name).lower(): str(value) for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(values[name]) / unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    try:
        until = parsedate_to_datetime(values["retry-after"])
    except (KeyError, ValueError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max((until - (now or datetime.now(UTC))).total_seconds(), 0.0)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__
