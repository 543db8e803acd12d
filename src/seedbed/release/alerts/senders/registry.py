"""The senders that `alerts` in the workspace file declares."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seedbed.errors import Problem, SettingsError
from seedbed.release.alerts.senders.email import EmailSender
from seedbed.release.alerts.senders.log import LogSender
from seedbed.release.alerts.senders.pagerduty import PagerDutySender
from seedbed.release.alerts.senders.sender import Sender
from seedbed.release.alerts.senders.slack import SlackSender
from seedbed.release.alerts.senders.webhook import WebhookSender
from seedbed.settings import Settings, reveal
from seedbed.settings.alerts import A_SERVER, A_URL, AlertSettings, EmailSettings, is_mail_server, is_url
from seedbed.settings.secrets import A_REFERENCE


def build_senders(settings: Settings, environ: Mapping[str, str] | None = None) -> list[Sender]:
    """The senders of a workspace, in order. Raises SettingsError with every secret that is missing or unusable."""
    secrets = _Secrets(Path(settings.source).parent, os.environ if environ is None else environ)
    senders = [_build(alert, f"alerts[{index}]", secrets) for index, alert in enumerate(settings.alerts)]
    if secrets.problems:
        raise SettingsError(secrets.problems, settings.source)
    return senders


@dataclass(frozen=True)
class _Secrets:
    """Looks secrets up, and notes those that are missing or of no use. Their values appear in no problem."""

    folder: Path
    environ: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)

    def look_up(self, value: Any, at: str, expected: str, fits: Callable[[str], bool] = bool) -> str:
        try:
            text = reveal(value, self.environ, at, self.folder)
        except SettingsError as missing:
            self.problems.extend(missing.problems)
            return ""
        if not text or not fits(text):
            self.problems.append(Problem(at, "something else" if text else "nothing", expected))
        return str(text)


def _build(alert: AlertSettings, at: str, secrets: _Secrets) -> Sender:
    name, at_least = alert.name, alert.at_least
    if webhook := alert.webhook:
        url = secrets.look_up(webhook.url, f"{at}.webhook.url", A_URL, is_url)
        secret = secrets.look_up(webhook.secret, f"{at}.webhook.secret", A_REFERENCE)
        return WebhookSender(name, at_least, url, secret)
    if slack := alert.slack:
        return SlackSender(name, at_least, secrets.look_up(slack.url, f"{at}.slack.url", A_URL, is_url))
    if pagerduty := alert.pagerduty:
        url = secrets.look_up(pagerduty.url, f"{at}.pagerduty.url", A_URL, is_url)
        return PagerDutySender(name, at_least, url, secrets.look_up(pagerduty.key, f"{at}.pagerduty.key", A_REFERENCE))
    if email := alert.email:
        return _build_email(alert, email, f"{at}.email", secrets)
    return LogSender(name, at_least, secrets.folder / alert.log if alert.log else None)


def _build_email(alert: AlertSettings, email: EmailSettings, at: str, secrets: _Secrets) -> Sender:
    server = secrets.look_up(email.server, f"{at}.server", A_SERVER, is_mail_server)
    user = secrets.look_up(email.user, f"{at}.user", "the name to log in with") if email.user else ""
    password = secrets.look_up(email.password, f"{at}.password", A_REFERENCE) if email.password else ""
    to = tuple(dict.fromkeys(email.to))
    return EmailSender(alert.name, alert.at_least, to, email.sender, server, user, password)
