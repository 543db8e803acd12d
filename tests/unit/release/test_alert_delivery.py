"""Alerts are recorded first, sent once, tried again, and never in the way."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hook_server import HANG, taking
from seedbed.errors import StoreError
from seedbed.playbooks.library import Library
from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.delivery import Patience, history, resend, send, undelivered
from seedbed.release.alerts.senders.log import LogSender
from seedbed.release.alerts.senders.pagerduty import PagerDutySender
from seedbed.release.alerts.senders.sender import NotDelivered
from seedbed.release.alerts.senders.slack import SlackSender
from seedbed.release.alerts.senders.webhook import WebhookSender
from seedbed.settings.alerts import Severity
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, Store
from seedbed.testing import everything

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ALERT = Alert(
    channel="production",
    kind="rolled back",
    severity="critical",
    message="It was worse.",
    at=AT,
    key="production/3",
    details={"metric": "exact_match", "difference": -0.2},
)
QUICK = Patience(timeout_seconds=5, attempts=3, pause_seconds=0.001)
ONCE = replace(QUICK, attempts=1)


@dataclass
class Clock:
    at: datetime = AT

    def __call__(self) -> datetime:
        return self.at


@dataclass
class Own:
    """A sender that fails as often as it is told to, by any error."""

    name: str = "own"
    at_least: Severity = "info"
    failures: list[Exception] = field(default_factory=list)
    sent: list[Alert] = field(default_factory=list)

    async def send(self, alert: Alert) -> str:
        if self.failures:
            raise self.failures.pop(0)
        self.sent.append(alert)
        return ""


def later(library: Library, **passed: float) -> Library:
    return replace(library, clock=Clock(library.clock() + timedelta(**passed)))


@pytest.fixture
def library() -> Library:
    return Library(MemoryStore(), "ann", Clock())


def deliveries(store: Store) -> list[str]:
    return [fact.body["status"] for fact in store.facts(Query(kind="delivery"))]


# Once


async def test_an_alert_is_a_fact_before_anybody_is_told(library: Library) -> None:
    seen: list[list[Fact]] = []

    class Looks(Own):
        async def send(self, alert: Alert) -> str:
            seen.append(list(library.store.facts(Query(kind="alert", key=alert.key))))
            return ""

    (ended,) = await send(library, [Looks()], ALERT)
    assert (ended.status, ended.attempts, ended.error) == ("delivered", 1, "")
    ((fact,),) = seen
    assert (fact.subject, fact.by, fact.at) == ("channels/production", "ann", AT)
    assert fact.body["told"] == "It was worse."
    (told,) = history(library.store)
    assert told.alert == ALERT
    assert [each.status for each in told.deliveries] == ["delivered"]


async def test_the_same_key_is_sent_once(library: Library) -> None:
    own = Own()
    assert len(await send(library, [own], ALERT)) == 1
    assert await send(library, [own], replace(ALERT, message="Said otherwise.")) == []
    assert await resend(later(library, hours=2), [own]) == []
    assert own.sent == [ALERT]


async def test_two_who_hold_the_same_store_send_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/alerts.db"
    own = Own()
    with closing(open_store(url)) as one, closing(open_store(url)) as two:
        work = [send(Library(store, "ann", Clock()), [own], ALERT) for store in (one, two) for _ in range(5)]
        ended = await asyncio.gather(*work)
    assert sorted(map(len, ended)) == [0] * 9 + [1]
    assert len(own.sent) == 1


SCRIPT = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from seedbed.playbooks.library import Library
from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.delivery import resend, send
from seedbed.release.alerts.senders.log import LogSender
from seedbed.storage import open_store

url, file = sys.argv[1:]
now = datetime.now(UTC)
alert = Alert(channel="production", kind="held", severity="info", message="It waits.", at=now, key="the same")
library, senders = Library(open_store(url), "ann"), [LogSender("log", "info", Path(file))]
print("ready", flush=True)
sys.stdin.readline()
asyncio.run(send(library, senders, alert))
asyncio.run(resend(library, senders))
"""


def test_several_processes_send_once_and_none_again_after_a_restart(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, f"sqlite:///{tmp_path}/alerts.db", str(tmp_path / "told.jsonl")]
    open_store(command[3]).close()
    for _ in range(2):
        started = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
        ]
        for each in started:
            assert each.stdout
            assert each.stdout.readline() == "ready\n"
        for each in started:
            assert each.stdin
            each.stdin.write("go\n")
            each.stdin.flush()
        for each in started:
            each.communicate()
            assert each.returncode == 0
    assert len((tmp_path / "told.jsonl").read_text().splitlines()) == 1


class Overtaken:
    """A store whose user is slow: as soon as it knows what to send, somebody else has sent it."""

    def __init__(self, within: Store, other: Library, own: Own) -> None:
        self._within, self._other, self._own = within, other, own
        self._ahead = True

    def facts(self, query: Query) -> list[Fact]:
        found = list(self._within.facts(query))
        if query.kind == "delivery":
            self._overtake()
        return found

    def append(self, facts: list[Fact]) -> int:
        added = self._within.append(facts)
        self._overtake()
        return added

    def _overtake(self) -> None:
        if self._ahead:
            self._ahead = False
            assert asyncio.run(resend(self._other, [self._own]))


async def test_who_is_overtaken_before_the_first_delivery_does_not_send(library: Library) -> None:
    own = Own()
    slow = replace(library, store=Overtaken(library.store, library, own))  # type: ignore[arg-type]
    assert await send(slow, [own], ALERT) == []
    assert own.sent == [ALERT]


async def test_who_is_overtaken_while_trying_again_does_not_send(library: Library) -> None:
    own = Own(failures=[NotDelivered("down", again=False)])
    await send(library, [own], ALERT)
    soon = later(library, minutes=1)
    slow = replace(soon, store=Overtaken(library.store, soon, own))  # type: ignore[arg-type]
    assert await resend(slow, [own]) == []
    assert own.sent == [ALERT]


# Who is told


async def test_a_sender_is_told_what_it_wants_to_hear(library: Library) -> None:
    loud, quiet = Own("loud"), Own("quiet", "critical")
    await send(library, [loud, quiet], replace(ALERT, severity="warning"))
    assert (len(loud.sent), len(quiet.sent)) == (1, 0)
    assert await resend(later(library, hours=1), [loud, quiet]) == []


async def test_who_joins_later_is_not_told_of_old_alerts(library: Library) -> None:
    await send(library, [Own()], ALERT)
    assert undelivered(library.store, [Own("new")], at=AT, everything=True) == []


# Failures


async def test_a_server_that_fails_once_is_tried_again_with_the_same_id(library: Library) -> None:
    with taking(500, 503, 200) as server:
        (ended,) = await send(library, [WebhookSender("hook", "info", server.url, "s")], ALERT, QUICK)
    assert (ended.status, ended.attempts, len(server.posted)) == ("delivered", 3, 3)
    assert len({posted.headers["Seedbed-Alert"] for posted in server.posted}) == 1


async def test_what_is_refused_for_good_is_not_tried_at_once(library: Library) -> None:
    with taking(404, 200) as server:
        (ended,) = await send(library, [SlackSender("slack", "info", server.url)], ALERT, QUICK)
    assert (ended.status, ended.attempts, len(server.posted)) == ("failed", 1, 1)


async def test_a_failing_sender_neither_hinders_the_others_nor_tells_its_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "told.jsonl"
    with closing(open_store(f"sqlite:///{tmp_path}/alerts.db")) as store, taking(500, HANG, 500) as server:
        senders = [
            PagerDutySender("pager", "info", f"{server.url}/T0KEN", "R0UTING-KEY"),
            SlackSender("slack", "info", f"{server.url}/T0KEN"),
            WebhookSender("hook", "info", f"{server.url}?token=T0KEN", "S3CRET"),
            Own("own", failures=[RuntimeError("T0KEN")]),
            LogSender("log", "info", file),
        ]
        ended = await send(Library(store, "ann", Clock()), senders, ALERT, replace(ONCE, timeout_seconds=2))
        assert [(each.sender, each.status) for each in ended] == [
            ("pager", "failed"),
            ("slack", "failed"),
            ("hook", "failed"),
            ("own", "failed"),
            ("log", "delivered"),
        ]
        assert any("no answer within 2 s" in each.error for each in ended)
        (told,) = history(store)
        assert {each.sender for each in told.deliveries if each.status == "failed"} == {"pager", "slack", "hook", "own"}
        kept = repr(everything(store))
    assert len(file.read_text().splitlines()) == 1
    assert "found status 500" in kept
    for text in (kept, caplog.text, repr(ended), repr(senders[:3])):
        assert not any(secret in text for secret in ("T0KEN", "R0UTING-KEY", "S3CRET"))


async def test_a_store_that_cannot_be_written_raises_nothing_and_nobody_is_told_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(MemoryStore):
        def append(self, facts: object) -> int:
            raise StoreError("the disk is full")

        def facts(self, query: object) -> object:  # type: ignore[override]
            raise StoreError("the disk is gone")

    own = Own()
    library = Library(Broken(), "ann", Clock())  # type: ignore[arg-type]
    assert await send(library, [own], ALERT) == []
    assert await resend(library, [own]) == []
    assert own.sent == []
    assert "alert production/3 cannot be recorded: the disk is full" in caplog.text


# Again


async def test_what_failed_is_sent_again_after_a_while_and_then_no_more(library: Library) -> None:
    with taking(500, 200) as server:
        hook = WebhookSender("hook", "info", server.url, "s")
        await send(library, [hook], ALERT, ONCE)
        assert undelivered(library.store, [hook], at=AT + timedelta(seconds=59)) == []
        assert undelivered(library.store, [hook], at=AT + timedelta(seconds=60)) == [(ALERT, hook)]
        (ended,) = await resend(later(library, minutes=1), [hook], ONCE)
        assert ended.status == "delivered"
        assert await resend(later(library, hours=1), [hook], ONCE) == []
    assert len(server.posted) == 2
    assert deliveries(library.store) == ["begun", "failed", "begun", "delivered"]


async def test_each_failure_doubles_the_wait_and_after_a_day_only_a_person_tries(library: Library) -> None:
    own = Own(failures=[NotDelivered("down", again=False)] * 200)
    await send(library, [own], ALERT, ONCE)
    tried = []
    for minute in range(3 * 24 * 60):
        now = later(library, minutes=minute)
        if undelivered(library.store, [own], at=now.clock()):
            tried.append(minute)
            await resend(now, [own], ONCE)
    assert tried[:8] == [1, 3, 7, 15, 31, 63, 123, 183]
    assert tried[-1] <= 24 * 60
    own.failures.clear()
    assert [each.status for each in await resend(later(library, days=3), [own], everything=True)] == ["delivered"]


async def test_a_delivery_whose_process_died_is_taken_up_by_another(library: Library) -> None:
    reached = asyncio.Event()

    class Hangs(Own):
        async def send(self, alert: Alert) -> str:
            reached.set()
            await asyncio.Event().wait()
            return ""

    work = asyncio.create_task(send(library, [Hangs()], ALERT))
    await reached.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    own = Own()
    assert await resend(later(library, minutes=1), [own], everything=True) == []  # it may still be at it
    assert [each.status for each in await resend(later(library, minutes=2), [own])] == ["delivered"]
    assert own.sent == [ALERT]


async def test_an_alert_that_nobody_began_to_send_is_sent(library: Library) -> None:
    own = Own()
    await send(library, [own], ALERT)
    (fact,) = library.store.facts(Query(kind="alert"))
    crashed = Library(MemoryStore(), "ann", Clock())
    crashed.store.append([fact])
    assert [each.status for each in await resend(crashed, [own])] == ["delivered"]


# The end


async def test_the_end_is_told_beside_the_beginning_and_ends_the_same_incident(library: Library) -> None:
    with taking() as server:
        pager = PagerDutySender("pager", "info", server.url, "key")
        await send(library, [pager], ALERT)
        await send(library, [pager], replace(ALERT, resolved=True, message="It is over."))
    begun, ended = (posted.json for posted in server.posted)
    assert (begun["event_action"], ended["event_action"]) == ("trigger", "resolve")
    assert begun["dedup_key"] == ended["dedup_key"]
    assert [told.alert.resolved for told in history(library.store)] == [True, False]


async def test_an_alert_that_is_over_is_not_begun_any_more(library: Library) -> None:
    own = Own(failures=[NotDelivered("down", again=False)] * 2)
    over = replace(ALERT, resolved=True)
    await send(library, [own], ALERT, ONCE)
    await send(library, [own], over, ONCE)
    await resend(later(library, minutes=5), [own])
    assert own.sent == [over]


async def test_history_can_be_of_one_channel(library: Library) -> None:
    await send(library, [], ALERT)
    await send(library, [], replace(ALERT, channel="staging", key="staging/1"))
    assert [told.alert.channel for told in history(library.store)] == ["staging", "production"]
    assert [told.alert.channel for told in history(library.store, "production")] == ["production"]
