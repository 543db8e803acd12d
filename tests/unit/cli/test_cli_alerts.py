"""seedbed alerts: what people were told about channels, and whether it reached them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import WORKSPACE, Seedbed, held, keeps_promise, write

from hook_server import HookServer, taking

ALERTS = """
alerts:
  - log: told.jsonl
    at_least: critical
  - webhook: {url: {env: HOOK_URL}, secret: {env: HOOK_SECRET}}
"""


@pytest.fixture
def told(space: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace that tells a file and a webhook."""
    write(space, seedbed__yaml=WORKSPACE + ALERTS)
    monkeypatch.setenv("HOOK_SECRET", "S3CRET")
    return space


def listens(server: HookServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_URL", f"{server.url}/T0KEN")


def test_a_test_reaches_everybody_whatever_they_want_to_hear(
    told: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taking() as server:
        listens(server, monkeypatch)
        done = seedbed("alerts", "test", "--channel", "staging", "--json")
        assert seedbed("alerts", "test").out.count("✓") == 2
    assert (done.code, done.err) == (0, "")
    assert keeps_promise(done.json, "alerts", "test")
    assert [(each["sender"], each["status"]) for each in done.json["deliveries"]] == [
        ("log", "delivered"),
        ("webhook", "delivered"),
    ]
    lines = [json.loads(line) for line in (told / "told.jsonl").read_text().splitlines()]
    assert [(each["channel"], each["kind"]) for each in lines] == [("staging", "test"), ("production", "test")]
    assert server.posted[0].json == lines[0]


def test_a_test_fails_if_somebody_could_not_be_reached_and_it_can_be_sent_again(
    told: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taking(404, 404, 200) as server:
        listens(server, monkeypatch)
        done = seedbed("alerts", "test")
        assert done.code == 1
        assert "✗ webhook: found status 404; expected 2xx." in done.out
        assert "✓ log" in done.out
        listed = seedbed("alerts", "list", "--json")
        assert keeps_promise(listed.json, "alerts", "list")
        (alert,) = listed.json["alerts"]
        assert (alert["delivered"], alert["failed"], alert["waiting"]) == (["log"], ["webhook"], [])

        before = held()
        rehearsed = seedbed("alerts", "resend", "--dry-run", "--json")
        assert keeps_promise(rehearsed.json, "alerts", "resend")
        assert [each["sender"] for each in rehearsed.json["deliveries"]] == ["webhook"]
        assert (held(), len(server.posted)) == (before, 1)
        assert "would send: webhook" in seedbed("alerts", "resend", "--dry-run").out

        assert seedbed("alerts", "resend").code == 1
        again = seedbed("alerts", "resend", "--json")
        assert (again.code, again.json["deliveries"][0]["status"]) == (0, "delivered")
    assert len(server.posted) == 3
    assert seedbed("alerts", "resend").out == "All alerts have been delivered.\n"
    assert seedbed("alerts", "list", "--json").json["alerts"][0]["delivered"] == ["log", "webhook"]
    assert "T0KEN" not in repr(held())
    assert "S3CRET" not in repr(held())


def test_alerts_are_listed_newest_first_and_by_channel(
    told: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seedbed("alerts", "list").out == "No alerts yet.\n"
    with taking() as server:
        listens(server, monkeypatch)
        for channel in ("production", "staging"):
            seedbed("alerts", "test", "--channel", channel)
    channels = [each["channel"] for each in seedbed("alerts", "list", "--json").json["alerts"]]
    assert channels == ["staging", "production"]
    shown = seedbed("alerts", "list", "--channel", "production").out
    assert "This is a test by ann" in shown
    assert "log, webhook" in shown
    assert "staging" not in shown
    assert len(seedbed("alerts", "list", "--limit", "1", "--json").json["alerts"]) == 1


@pytest.mark.parametrize("command", ["test", "resend"])
def test_without_anybody_to_tell_it_says_what_to_do(command: str, space: Path, seedbed: Seedbed) -> None:
    done = seedbed("alerts", command)
    assert done.code == 1
    assert "alerts: [{log: alerts.jsonl}]" in done.err


def test_wrong_settings_are_told_with_their_place(told: Path, seedbed: Seedbed) -> None:
    done = seedbed("alerts", "test", "--json")  # without HOOK_URL
    assert done.code == 1
    assert [each["path"] for each in json.loads(done.err)["problems"]] == ["alerts[1].webhook.url"]
