"""What an alert reads like to others, and how a receiver knows who sent it."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from seedbed.release.alerts.alert import Alert, as_json
from seedbed.release.alerts.senders.email import email_message
from seedbed.release.alerts.senders.pagerduty import pagerduty_event
from seedbed.release.alerts.senders.slack import slack_message
from seedbed.release.alerts.senders.webhook import signature, signed_by

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRET = "correct horse"


def alert(**told: Any) -> Alert:
    given: dict[str, Any] = {"channel": "production", "kind": "rolled back", "severity": "critical"}
    given |= {"message": "It was worse.", "at": AT, "key": "production/3", "details": {"difference": -0.2}}
    return Alert(**given | told)


def test_a_receiver_knows_what_was_signed_with_the_secret() -> None:
    body = as_json(alert().document())
    headers = {"seedbed-signature": signature(SECRET, body, AT)}  # names of headers have no case
    assert signed_by(SECRET, headers, body, AT)
    assert signed_by(SECRET, headers, body, AT + timedelta(seconds=300))
    assert signed_by(SECRET, headers, body, AT + timedelta(seconds=500), tolerance_seconds=600)


def test_no_byte_can_be_changed_and_no_other_secret_signs() -> None:
    body = as_json(alert().document())
    signed = signature(SECRET, body, AT)
    for place in range(len(body)):
        changed = bytearray(body)
        changed[place] ^= 1
        assert not signed_by(SECRET, {"Seedbed-Signature": signed}, bytes(changed), AT)
    assert not signed_by("another", {"Seedbed-Signature": signed}, body, AT)
    assert not signed_by("", {"Seedbed-Signature": signature("", body, AT)}, body, AT)


@pytest.mark.parametrize("seconds", [301, -301])
def test_what_was_signed_long_ago_or_in_the_future_does_not_count(seconds: int) -> None:
    headers = {"Seedbed-Signature": signature(SECRET, b"{}", AT)}
    assert not signed_by(SECRET, headers, b"{}", AT + timedelta(seconds=seconds))


def test_the_time_cannot_be_changed_without_the_secret() -> None:
    later = AT + timedelta(hours=1)
    mac = signature(SECRET, b"{}", AT).partition(",")[2]
    assert not signed_by(SECRET, {"Seedbed-Signature": f"t={int(later.timestamp())},{mac}"}, b"{}", later)


@pytest.mark.parametrize("header", ["", "t=,v1=", "v1=00", "t=1,v1=ä", f"t={'9' * 400},v1={'0' * 64}", "t=١,v1=00"])
def test_nonsense_in_the_place_of_a_signature_is_none(header: str) -> None:
    assert not signed_by(SECRET, {"Seedbed-Signature": header}, b"{}", AT)
    assert not signed_by(SECRET, {}, b"{}", AT)


def test_slack_reads_no_link_and_calls_nobody() -> None:
    told = alert(message="<!channel> & <http://example.org|here>", details={"<a>": "&<b>"}, channel="a&b")
    payload = slack_message(told)
    assert payload["text"] == "[critical] a&amp;b: &lt;!channel&gt; &amp; &lt;http://example.org|here&gt;"
    assert payload["blocks"][0]["text"]["text"] == payload["text"]
    assert payload["blocks"][1]["text"]["text"] == "• &lt;a&gt;: &amp;&lt;b&gt;"
    assert not set("<>") & set(json.dumps(payload))


def test_slack_takes_a_long_text_although_every_character_is_escaped() -> None:
    payload = slack_message(alert(message="&" * 5000, details={str(n): "&" * 500 for n in range(100)}))
    texts = [block["text"]["text"] for block in payload["blocks"][:2]]
    assert all(len(text) <= 3000 and text.endswith("…") for text in texts)
    assert texts[0].replace("&amp;", "").count("&") == 0


def test_the_end_of_an_alert_ends_the_incident_that_it_began() -> None:
    begun, ended = (pagerduty_event(alert(resolved=over), "key") for over in (False, True))
    assert (begun["event_action"], ended["event_action"]) == ("trigger", "resolve")
    assert begun["dedup_key"] == ended["dedup_key"] == "production/3"
    assert begun["payload"]["summary"] == "production: It was worse."
    assert (begun["payload"]["severity"], begun["payload"]["custom_details"]) == ("critical", {"difference": -0.2})
    assert begun["payload"]["source"]
    long = [pagerduty_event(alert(key="k" * 300 + end), "key")["dedup_key"] for end in "ab"]
    assert len(set(long)) == 2
    assert all(len(key) <= 255 for key in long)


def test_beginning_and_end_are_two_messages() -> None:
    assert alert().id != alert(resolved=True).id
    assert alert().id == alert(message="Said otherwise.").id


def test_no_header_of_a_letter_can_be_smuggled_in() -> None:
    odd = "x\r\nBcc: eve@example.org\n\nHello\x0bthere"
    letter = email_message(alert(message=odd, channel=odd, kind=odd), "seedbed@example.org", ["ops@example.org"])
    head, _, body = letter.as_bytes().partition(b"\r\n\r\n")
    names = {line.partition(b":")[0] for line in head.split(b"\r\n") if not line.startswith(b" ")}
    assert names == {
        *(b"From", b"To", b"Subject", b"Date", b"Message-ID", b"Auto-Submitted"),
        *(b"MIME-Version", b"Content-Type", b"Content-Transfer-Encoding"),
    }
    assert b"eve" in body


def test_a_letter_says_when_and_is_the_same_letter_when_it_is_sent_again() -> None:
    first, again = (
        email_message(alert(message="Größer 🙂"), "seedbed@example.org", ["a@b.org", "c@d.org"]) for _ in "12"
    )
    assert first["Message-ID"] == again["Message-ID"]
    assert first["Message-ID"].endswith("@example.org>")
    assert first["Date"].datetime == AT
    assert first["To"] == "a@b.org, c@d.org"
    assert "Größer 🙂" in str(first["Subject"])
    text = first.get_content()
    assert "Größer 🙂" in text
    assert "difference: -0.2" in text
    assert first.as_bytes().isascii()


def test_what_json_cannot_hold_silences_no_alert() -> None:
    told = alert(
        message="half \ud800 nul \0\nline", details={"low": -math.inf, "p": math.nan, "at": AT, 1: (1, "\ud800")}
    )
    assert told.message == "half ? nul \N{REPLACEMENT CHARACTER} line"
    assert told.details == {"low": None, "p": None, "at": AT.isoformat(), "1": [1, "?"]}
    assert json.loads(as_json(told.document()))["details"]["low"] is None
