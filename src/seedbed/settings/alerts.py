"""Alerts: who is notified, and how, under `alerts` in the workspace file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias, get_args
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from seedbed.errors import Problem, shown
from seedbed.settings.secrets import A_REFERENCE
from seedbed.settings.section import Expected, Missing, Section, refusal, require
from seedbed.settings.values import Secret, SecretReference, Words

Severity: TypeAlias = Literal["info", "warning", "critical"]
"""From news that can wait until tomorrow to a reason to wake someone."""

A_URL = "a URL such as https://HOST/PATH"
A_SERVER = "smtp://HOST:PORT or smtps://HOST:PORT"
_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", re.ASCII)


def is_url(text: str) -> bool:
    """Whether a text is a URL that alerts can be posted to."""
    parts = _parts(text)
    return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)


def is_mail_server(text: str) -> bool:
    """Whether a text is the URL of a mail server, without a user name in it."""
    parts = _parts(text)
    return parts is not None and parts.scheme in ("smtp", "smtps") and bool(parts.hostname) and "@" not in parts.netloc


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is parsed only now
    except ValueError:
        return None
    return parts if url.isprintable() and " " not in url else None


def _check_people(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise refusal(Problem("", shown(value) if value else "nobody", "a list of addresses"))
    return value


_Url: TypeAlias = Annotated[
    str | SecretReference,
    AfterValidator(require(lambda url: not isinstance(url, str) or is_url(url))),
    Expected(A_URL, "hidden"),
]
_Address: TypeAlias = Annotated[str, AfterValidator(require(_ADDRESS.fullmatch))]


class WebhookSettings(Section):
    """JSON posted to a URL, signed with a secret."""

    example = "{url: URL, secret: {env: NAME}}"

    url: _Url
    secret: Secret


class SlackSettings(Section):
    """A message to a Slack incoming webhook. Anyone who knows its URL can post there."""

    example = "{url: {env: NAME}}"

    url: Annotated[SecretReference, Expected(A_REFERENCE, "secret")]


class PagerDutySettings(Section):
    """An event sent to PagerDuty's Events API v2."""

    example = "{url: URL, key: {env: NAME}}"

    url: _Url
    key: Secret


class EmailSettings(Section):
    """An email to one or more addresses."""

    example = "{to: [ADDRESS], from: ADDRESS, server: smtp://HOST:PORT}"

    to: Annotated[
        list[Annotated[_Address, Expected("an address")]], Field(min_length=1), BeforeValidator(_check_people)
    ]
    sender: Annotated[_Address, Expected("an address such as seedbed@example.org")] = Field(alias="from")
    server: Annotated[
        str | SecretReference,
        AfterValidator(require(lambda url: not isinstance(url, str) or is_mail_server(url))),
        Expected(A_SERVER, "hidden"),
    ]
    user: Annotated[Words | SecretReference, Expected("the name to log in with", "hidden")] | None = None
    password: Secret | None = None

    @model_validator(mode="after")
    def _check_login(self) -> EmailSettings:
        if self.user is not None and self.password is None:
            raise refusal(Missing("password", "nothing", A_REFERENCE))
        if self.password is not None and self.user is None:
            raise refusal(Missing("user", "nothing", "the name to log in with"))
        return self


def _read_log(value: object) -> object:
    if value == "":
        raise ValueError("no path")
    return "" if value in (None, {}) else value


_LogFile: TypeAlias = Annotated[
    str | None,
    BeforeValidator(_read_log),
    PlainSerializer(lambda file: {} if file == "" else file, when_used="json-unless-none"),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"enum": [{}, None]}]}),
    Expected("the path of a file, or {} for the error stream"),
]

SENDERS = ("webhook", "slack", "pagerduty", "email", "log")


class AlertSettings(Section):
    """One way to send alerts: how to send them, the lowest severity to send, and its name in the history."""

    example = "{log: alerts.jsonl, at_least: warning}"

    webhook: WebhookSettings | None = None
    slack: SlackSettings | None = None
    pagerduty: PagerDutySettings | None = None
    email: EmailSettings | None = None
    log: _LogFile = None
    """The file to write to; empty for the error stream."""
    at_least: Annotated[Severity, Expected(f"one of: {', '.join(get_args(Severity))}")] = "info"
    given_name: (
        Annotated[
            str,
            AfterValidator(require(re.compile(r"\w[\w .-]{0,63}").fullmatch)),
            Expected("a short name of letters and digits"),
        ]
        | None
    ) = Field(default=None, alias="name")

    @model_validator(mode="after")
    def _check_sender(self) -> AlertSettings:
        if len(self._senders) != 1:
            which = " and ".join(self._senders) or "no way to send"
            raise refusal(Problem("", which, f"one of: {', '.join(SENDERS)}"))
        return self

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}  # "" is the error stream

    @property
    def name(self) -> str:
        return self.given_name or self._senders[0]

    @property
    def _senders(self) -> list[str]:
        return [each for each in SENDERS if getattr(self, each) is not None]


def check_names(alerts: Iterable[AlertSettings]) -> Iterable[Problem]:
    """Every alert with the name of an earlier one."""
    seen: set[str] = set()
    for index, alert in enumerate(alerts):
        if alert.name in seen:
            remedy = "Give it another: {name: …}."
            yield Problem(f"[{index}].name", f"{shown(alert.name)} again", "a name of its own", remedy)
        seen.add(alert.name)
