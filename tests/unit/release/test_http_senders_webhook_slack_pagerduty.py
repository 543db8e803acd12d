"""Senders over HTTP, against a real server on loopback."""

from __future__ import annotations

import logging
import socket
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hook_server import HANG_UP, taking
from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.senders.log import LogSender
from seedbed.release.alerts.senders.pagerduty import PagerDutySender
from seedbed.release.alerts.senders.sender import NotDelivered, Sender, wants
from seedbed.release.alerts.senders.slack import SlackSender
from seedbed.release.alerts.senders.webhook import WebhookSender, signed_by

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ALERT = Alert(
    channel="production", kind="rolled back", severity="critical", message="It was <worse>.", at=AT, key="production/3"
)
SECRET = "correct-horse-battery"


def test_a_sender_hears_only_what_is_severe_enough() -> None:
    sender = LogSender("log", "warning")
    assert [wants(sender, replace(ALERT, severity=each)) for each in ("info", "warning", "critical")] == [
        *(False, True, True)
    ]


# Over HTTP


async def test_the_receiver_of_a_webhook_can_tell_who_sent_it() -> None:
    with taking() as server:
        assert await WebhookSender("hook", "info", server.url, SECRET).send(ALERT) == ""
    (posted,) = server.posted
    assert signed_by(SECRET, posted.headers, posted.body, datetime.now(UTC))
    assert not signed_by(SECRET, posted.headers, posted.body + b" ", datetime.now(UTC))
    assert posted.headers["Seedbed-Alert"] == ALERT.id == posted.json["id"]
    assert posted.headers["Content-Type"] == "application/json"
    assert (posted.json["channel"], posted.json["told"]) == ("production", "It was <worse>.")


async def test_slack_and_pagerduty_get_what_they_understand() -> None:
    with taking(200, 202) as server:
        await SlackSender("slack", "info", server.url).send(ALERT)
        await PagerDutySender("pager", "info", server.url, SECRET).send(ALERT)
    message, event = (posted.json for posted in server.posted)
    assert message["text"] == "[critical] production: It was &lt;worse&gt;."
    assert (event["routing_key"], event["event_action"], event["dedup_key"]) == (SECRET, "trigger", "production/3")


@pytest.mark.parametrize(("status", "again"), [(500, True), (503, True), (429, True), (404, False), (302, False)])
async def test_a_status_says_whether_to_try_again(status: int, again: bool) -> None:
    told = f"found status {status}; expected 2xx"
    with taking(status) as server, pytest.raises(NotDelivered, match=told) as caught:
        await SlackSender("slack", "info", server.url).send(ALERT)
    assert caught.value.again is again


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def senders_of(url: str) -> Iterator[Sender]:
    yield WebhookSender("hook", "info", f"{url}/T0KEN-PATH?q=T0KEN-QUERY", SECRET)
    yield SlackSender("slack", "info", f"{url}/T0KEN-PATH?q=T0KEN-QUERY")
    yield PagerDutySender("pager", "info", f"{url}/T0KEN-PATH?q=T0KEN-QUERY", SECRET)


async def test_no_error_log_or_repr_tells_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    with taking(200, 200, 200, *[401] * 3, *[HANG_UP] * 3) as server:
        for way in (server.url, server.url, server.url, f"http://127.0.0.1:{unused_port()}", "http://127.0.0.1:x"):
            for sender in senders_of(way):
                told.append(repr(sender))
                try:
                    await sender.send(ALERT)
                except NotDelivered as wrong:
                    told += [repr(wrong), *traceback.format_exception(wrong)]
    assert len(server.posted) == 9
    assert len([each for each in told if each.startswith("NotDelivered")]) == 12
    everything = "\n".join([*told, caplog.text])
    assert "T0KEN" not in everything
    assert SECRET not in everything


async def test_others_may_go_on_to_log_their_requests(caplog: pytest.LogCaptureFixture) -> None:
    import httpx

    caplog.set_level(logging.INFO)
    with taking() as server:
        await SlackSender("slack", "info", server.url).send(ALERT)
        assert server.url not in caplog.text
        async with httpx.AsyncClient() as client:
            await client.post(server.url, content=b"{}")
        assert server.url in caplog.text
