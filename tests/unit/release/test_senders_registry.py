"""The list of who is told: what it may say, and everything that is wrong with it at once."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from seedbed.errors import SettingsError
from seedbed.release.alerts.senders.email import EmailSender
from seedbed.release.alerts.senders.log import LogSender
from seedbed.release.alerts.senders.pagerduty import PagerDutySender
from seedbed.release.alerts.senders.registry import build_senders
from seedbed.release.alerts.senders.slack import SlackSender
from seedbed.release.alerts.senders.webhook import WebhookSender
from seedbed.settings import Settings

HIDDEN = "hunter2-hunter2"
ENVIRON = {"HOOK": f"https://hooks.example.org/{HIDDEN}", "SECRET": HIDDEN, "EMPTY": "", "NO_URL": f"{HIDDEN} nowhere"}
URL, KEY = "{env: HOOK}", "{env: SECRET}"


def read(folder: Path, text: str) -> Settings:
    file = folder / "seedbed.yaml"
    file.write_text(dedent(text))
    return Settings.load(file, {})


def wrong(folder: Path, entry: str) -> dict[str, str]:
    """What is said about each place of a list with this entry."""
    with pytest.raises(SettingsError) as caught:
        build_senders(read(folder, f"alerts: [{entry}]"), ENVIRON)
    assert HIDDEN not in str(caught.value)
    return {problem.path.partition(" (line")[0]: str(problem) for problem in caught.value.problems}


def test_every_way_to_send_is_read(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{HIDDEN}\n")
    settings = read(
        tmp_path,
        """
        alerts:
          - webhook: {url: "http://127.0.0.1:8080/hook", secret: {env: SECRET}}
          - slack: {url: {env: HOOK}}
            at_least: warning
          - pagerduty: {url: {env: HOOK}, key: {env: SECRET}}
            at_least: critical
            name: on call
          - email:
              to: [ops@example.org, ann@example.org]
              from: seedbed@example.org
              server: smtps://mail.example.org
              user: seedbed
              password: {file: password}
          - log: alerts.jsonl
          - {log: {}, name: screen}
        """,
    )
    url = ENVIRON["HOOK"]
    assert build_senders(settings, ENVIRON) == [
        WebhookSender("webhook", "info", "http://127.0.0.1:8080/hook", HIDDEN),
        SlackSender("slack", "warning", url),
        PagerDutySender("on call", "critical", url, HIDDEN),
        EmailSender(
            name="email",
            at_least="info",
            to=("ops@example.org", "ann@example.org"),
            sender="seedbed@example.org",
            server="smtps://mail.example.org",
            user="seedbed",
            password=HIDDEN,
        ),
        LogSender("log", "info", tmp_path / "alerts.jsonl"),
        LogSender("screen", "info", None),
    ]
    assert build_senders(read(tmp_path, "by: ann"), ENVIRON) == []


MAIL = "to: [ops@example.org], from: a@b.org, server: 'smtp://localhost:25'"


@pytest.mark.parametrize(
    ("entry", "path", "told"),
    [
        ("{}", "", "found no way to send; expected one of: webhook, slack, pagerduty, email, log"),
        (f"{{log: {{}}, slack: {{url: {URL}}}}}", "", "found slack and log; expected one of"),
        ("{log: {}, at: warning}", ".at", "an unknown key; expected one of: webhook"),
        ("{log: {}, at_least: severe}", ".at_least", 'found "severe"; expected one of: info, warning, critical'),
        ("{log: {}, name: ''}", ".name", "a short name"),
        ("{log: 5}", ".log", "found 5; expected the path of a file, or {} for the error stream"),
        ("{slack: here}", ".slack", "a mapping such as {url: {env: NAME}}"),
        ("{slack: {}}", ".slack.url", "found nothing; expected {env: NAME} or {file: PATH}"),
        ("{slack: {url: {env: EMPTY}}}", ".slack.url", "found nothing; expected a URL"),
        ("{slack: {url: {env: MISSING}}}", ".slack.url", "found no variable MISSING"),
        ("{slack: {url: {env: NO_URL}}}", ".slack.url", "expected a URL such as"),
        (f"{{slack: {{url: {URL}, channel: ops}}}}", ".slack.channel", "an unknown key; expected one of: url"),
        (f"{{webhook: {{url: {URL}}}}}", ".webhook.secret", "found nothing; expected {env: NAME} or {file: PATH}"),
        (f"{{webhook: {{url: 'ftp://host/x', secret: {KEY}}}}}", ".webhook.url", "expected a URL"),
        (f"{{webhook: {{url: 'http://host:x/', secret: {KEY}}}}}", ".webhook.url", "expected a URL"),
        (f"{{pagerduty: {{key: {KEY}}}}}", ".pagerduty.url", "found nothing; expected a URL"),
        (f"{{email: {{{MAIL}, user: me}}}}", ".email.password", "found nothing; expected {env: NAME}"),
        (f"{{email: {{{MAIL}, password: {KEY}}}}}", ".email.user", "the name to log in with"),
        ("{email: {to: [], from: a@b.org, server: 'smtp://h'}}", ".email.to", "found nobody"),
        ("{email: {to: a@b.org, from: a@b.org, server: 'smtp://h'}}", ".email.to", "a list of addresses"),
        ('{email: {to: ["a@b.org\\nBcc: c@d.org"], from: a@b.org, server: "smtp://h"}}', ".email.to[0]", "an address"),
        ('{email: {to: ["Ann <a@b.org>"], from: a@b.org, server: "smtp://h"}}', ".email.to[0]", "an address"),
        ("{email: {to: [a@b.org], server: 'smtp://h'}}", ".email.from", "found nothing; expected an address"),
        ("{email: {to: [a@b.org], from: a@b.org, server: mail.example.org}}", ".email.server", "smtp://HOST:PORT"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, entry: str, path: str, told: str) -> None:
    found = wrong(tmp_path, entry)
    assert list(found) == [f"alerts[0]{path}"]
    assert told in found[f"alerts[0]{path}"]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (f"{{slack: {{url: 'https://hooks.example.org/{HIDDEN}'}}}}", "slack.url"),
        (f"{{pagerduty: {{url: 'https://example.org/v2', key: {HIDDEN}}}}}", "pagerduty.key"),
        (f"{{webhook: {{url: 'https://example.org/', secret: {HIDDEN}}}}}", "webhook.secret"),
        (f"{{webhook: {{url: 'https://me:{HIDDEN}@example.org/', secret: {KEY}}}}}", "webhook.url"),
        (f"{{email: {{{MAIL}, user: me, password: {HIDDEN}}}}}", "email.password"),
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(tmp_path: Path, entry: str, path: str) -> None:
    (told,) = wrong(tmp_path, entry).items()
    assert told[0] == f"alerts[0].{path}"
    assert "a secret written out; expected {env: NAME} or {file: PATH}" in told[1]


def test_nor_is_it_where_no_file_was_read() -> None:
    for entry in ({"slack": {"url": f"https://h/{HIDDEN}"}}, {"pagerduty": {"url": "https://h/", "key": HIDDEN}}):
        with pytest.raises(SettingsError, match="a secret written out") as caught:
            build_senders(Settings(alerts=[entry]), ENVIRON)
        assert HIDDEN not in str(caught.value)


def test_a_name_stands_for_one_sender(tmp_path: Path) -> None:
    found = wrong(tmp_path, "{log: a.jsonl}, {log: b.jsonl}, {log: c.jsonl, name: c}")
    assert list(found) == ["alerts[1].name"]
    assert "Give it another" in found["alerts[1].name"]


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    entries = "{slack: {url: {env: MISSING}}, at_least: x}, {email: {to: [x], from: y, server: z}}, {log: 5}"
    assert list(wrong(tmp_path, entries)) == [
        "alerts[0].at_least",
        *("alerts[1].email.to[0]", "alerts[1].email.from", "alerts[1].email.server"),
        "alerts[2].log",
    ]
