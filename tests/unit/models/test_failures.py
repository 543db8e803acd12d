"""Why a model gave no answer, in the words of many providers."""

from __future__ import annotations

import json
import socket
import ssl
from datetime import UTC, datetime
from typing import Any

import httpx
import openai
import pytest

from seedbed.errors import Why
from seedbed.models.failures import explain, explain_status, retry_after

REQUEST = httpx.Request("POST", "http://127.0.0.1/v1")


def response(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, headers=headers, request=REQUEST)


def theirs(kind: type[openai.APIStatusError], status: int, code: str = "", **headers: str) -> Exception:
    return kind("no", response=response(status, **headers), body={"code": code, "message": "no"})


def named(name: str, **attributes: Any) -> Exception:
    """An exception of a package that is not installed here."""
    error: Exception = type(name, (Exception,), {})("no")
    for key, value in attributes.items():
        setattr(error, key, value)
    return error


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (theirs(openai.RateLimitError, 429), "rate"),
        (theirs(openai.RateLimitError, 429, "insufficient_quota"), "credit"),
        (theirs(openai.BadRequestError, 400, "context_length_exceeded"), "context"),
        (theirs(openai.BadRequestError, 400, "content_filter"), "refused"),
        (theirs(openai.BadRequestError, 400), "ours"),
        (theirs(openai.AuthenticationError, 401), "ours"),
        (theirs(openai.InternalServerError, 500), "transient"),
        (openai.APITimeoutError(REQUEST), "transient"),
        (openai.APIConnectionError(request=REQUEST), "transient"),
        (httpx.HTTPStatusError("no", request=REQUEST, response=response(503)), "transient"),
        (httpx.ReadTimeout("no"), "transient"),
        (httpx.RemoteProtocolError("no"), "transient"),
        (httpx.UnsupportedProtocol("no"), "ours"),
        (named("OverloadedError", status_code=529), "transient"),
        (named("ServiceUnavailableError"), "transient"),
        (named("ThrottlingException"), "rate"),
        (named("ResourceExhausted"), "rate"),
        (named("ContextOverflowError"), "context"),
        (named("ContentPolicyViolationError"), "refused"),
        (TimeoutError(), "transient"),
        (ConnectionResetError(), "transient"),
        (socket.gaierror(), "transient"),
        (ssl.SSLError(), "transient"),
        (json.JSONDecodeError("no", "{", 0), "transient"),
        (FileNotFoundError(), "transient"),
        (ValueError("timeout, rate limit, context length"), "transient"),
        (KeyError("x"), "transient"),
        (caused(named("ChatWrapperError"), theirs(openai.RateLimitError, 429)), "rate"),
        (caused(ValueError("no"), KeyError("x")), "transient"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_exceptions_are_sorted(error: Exception, expected: Why) -> None:
    assert explain(error)[0] == expected


def test_exceptions_that_cause_each_other_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert explain(first) == ("transient", None, True)


@pytest.mark.parametrize(
    ("status", "told", "expected"),
    [
        (400, "Your credit balance is too low to access the API", "credit"),
        (403, "insufficient balance", "credit"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "context"),
        (400, "The input token count (40000) exceeds the maximum", "context"),
        (500, "the request exceeds the available context size", "context"),
        (429, "Limit 10000 tokens per minute; reduce the context length", "rate"),
        (400, "ResponsibleAIPolicyViolation", "refused"),
        (409, "", "transient"),
        (422, "", "ours"),
        (599, "", "transient"),
    ],
)
def test_a_status_means_what_the_provider_says_beside_it(status: int, told: str, expected: Why) -> None:
    assert explain_status(status, told) == expected


def test_the_wait_comes_with_the_exception() -> None:
    headers = {"retry-after": "7"}
    assert explain(openai.RateLimitError("no", response=response(429, **headers), body=None))[:2] == ("rate", 7.0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"RETRY-AFTER": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 15 Nov 2026 11:59:00 GMT"}, 0.0),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_wish_to_wait_is_read_as_seconds_or_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, datetime(2026, 11, 15, 12, tzinfo=UTC)) == seconds
