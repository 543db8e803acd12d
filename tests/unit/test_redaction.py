"""No secret survives in a text that is stored, logged or shown."""

from __future__ import annotations

import pytest

from seedbed.redaction import REDACTED, redact, redacted

KEY = "sk-proj-" + "a1B2c3D4e5F6" * 3
TOLD = [
    f"use {KEY} for it",
    "ghp_" + "a1B2" * 9,
    "AKIA" + "ABCDEFGH12345678",
    "postgresql://ann:hunter2@db:5432/facts",
    "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\ncut off in the mid",
    "Authorization: Bearer " + "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "password=Zx9kQ2mN8vB4tR7wLp3y",
    '{"api_key": "f3a9c1d27be84f60a5d2"}',
]


@pytest.mark.parametrize("text", TOLD)
def test_a_secret_that_nobody_declared_is_told_by_how_it_looks(text: str) -> None:
    clean = redact(text)
    assert REDACTED in clean
    assert not any(
        part in clean for part in (KEY, "a1B2", "ABCDEFGH", "hunter2", "MHcC", "mid", "dozj", "Zx9k", "f3a9")
    )
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "the token is thequickbrownfoxjumpsover",
        "https://example.org:8080/a@b",
        "a risk-averse-people-are-all-here kind of text",
        "The secret of good bread is patience, and the key of A minor is not a password.",
        "task-" + "abcdefghij" * 3,
    ],
)
def test_a_text_that_only_speaks_of_secrets_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_every_text_in_a_value_is_redacted() -> None:
    value = {"a": [KEY, 1, None, {"b": f"x {KEY}"}], KEY: True}
    assert redacted(value) == {"a": [REDACTED, 1, None, {"b": f"x {REDACTED}"}], REDACTED: True}


@pytest.mark.parametrize("part", ["token ", "a://", "api key", "-----BEGIN PRIVATE KEY-----", "key=" + "A1" * 9])
def test_looking_for_secrets_takes_time_in_proportion_to_the_text(part: str) -> None:
    redact(part * (1_000_000 // len(part)))  # would take hours if it looked at every end for every beginning
