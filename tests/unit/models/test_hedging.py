"""A request that takes unusually long is asked a second time: over real connections, on real money."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import seedbed
from model_server import Answer, ModelServer, echo, serving
from seedbed import Playbook
from seedbed.errors import ModelUnavailable
from seedbed.models.calling.fallback import ModelAnswer, ModelCall
from seedbed.models.calling.hedging import ENOUGH, Latencies
from seedbed.models.calling.limits import ModelLimits, Retry
from seedbed.models.cards import Model, Registry, fallback_chain
from seedbed.models.chat import Message, Sampling
from seedbed.settings import Settings
from seedbed.spending.ledger import Ledger, Reservation
from seedbed.telemetry import Hedged, Place, TelemetryEvent, listeners

NEVER = 600.0
SLOW = [Message("user", "say it")]


def card(server: ModelServer, **more: Any) -> dict[str, Any]:
    known = {"use": "openai", "args": {"model": "m", "base_url": server.url}, "usd_per_million": [0, 1_000_000]}
    return {**known, "hedge": 0.95, **more}


def by_turn(*delays: float) -> Callable[[dict[str, Any]], Answer]:
    """Each request is answered after its own time, and says which one it was."""
    turns = iter(enumerate(delays, 1))

    def script(_: dict[str, Any]) -> Answer:
        number, delay = next(turns)
        return Answer(f"answer {number}", delay=delay)

    return script


class Asker:
    """One model, whose answers came within 20 ms so far."""

    def __init__(self, server: ModelServer, *, tries: int = 1, **more: Any) -> None:
        self.models = Registry({"m": card(server, **more)})
        self.limits = ModelLimits(retry=Retry(tries=tries, first_seconds=0.0))
        for _ in range(ENOUGH):
            self.latencies.add(0.02)

    @property
    def latencies(self) -> Latencies:
        return self.limits[self.models["m"]].latencies

    async def __call__(self, **more: Any) -> ModelAnswer:
        options = {key: more.pop(key) for key in ("reserve", "on_piece") if key in more}
        models = fallback_chain(self.models.__getitem__, "m")
        return await ModelCall(models, SLOW, self.limits, **options, sampling=Sampling(**more)).answer()


def paying(ledger: Ledger) -> Any:
    """As the stage pays: nothing for the prompt, a dollar for each word."""

    @asynccontextmanager
    async def reserve(
        model: Model, messages: Sequence[Message], wanted: int | None, *, spare: bool = False
    ) -> AsyncIterator[Reservation]:
        async with ledger.reserved(10, (0.0, 1_000_000.0), wanted, spare=spare) as held:
            yield held

    return reserve


async def test_a_straggler_is_beaten_by_a_second_request() -> None:
    late = threading.Event()

    def script(request: dict[str, Any]) -> Answer:
        if request["messages"][-1]["content"] != "say it" or late.is_set():
            return echo(request)
        late.set()
        return Answer("too late", delay=NEVER)

    with serving(script=script) as server:
        models, limits = Registry({"m": card(server)}), ModelLimits()
        for n in range(ENOUGH):  # measured, not noted
            await ModelCall([models["m"]], [Message("user", f"{n}")], limits).answer()
        assert len(server.requests) == ENOUGH
        got = await ModelCall([models["m"]], SLOW, limits).answer()
        assert got.reply.text == "say it"
        assert [each.overtaken for each in got.attempts] == [True]
        assert len(server.requests) == ENOUGH + 2


async def test_what_both_requests_may_cost_is_on_the_bill() -> None:
    with serving(script=by_turn(NEVER, 0.0)) as server:
        ledger = Ledger(100.0, last_share=0.0)
        got = await Asker(server)(max_tokens=10, reserve=paying(ledger))
        assert (got.reply.text, got.reply.cost_usd) == ("answer 2", 2.0)
        assert [each.cost_usd for each in got.attempts] == [10.0]
        assert got.cost_usd == ledger.spent_usd == 12.0


async def test_a_request_without_a_bound_costs_what_the_other_one_did() -> None:
    with serving(script=by_turn(NEVER, 0.0)) as server:
        assert (await Asker(server)()).cost_usd == 4.0


async def test_the_first_request_may_still_win_and_then_the_second_is_paid_too() -> None:
    with serving(script=by_turn(1.5, NEVER)) as server:
        got = await Asker(server)(max_tokens=10)
        assert (got.reply.text, got.cost_usd, len(server.requests)) == ("answer 1", 12.0, 2)


async def test_without_money_to_spare_nobody_is_asked_twice_and_nothing_is_missed() -> None:
    with serving(script=by_turn(0.5, 0.0)) as server:
        ledger = Ledger(19.0, last_share=0.0)  # for a shorter answer than wanted
        got = await Asker(server)(max_tokens=100, reserve=paying(ledger))
        assert (got.reply.text, len(server.requests)) == ("answer 1", 1)
        assert (ledger.spent_usd, ledger.refused) == (2.0, False)


async def test_the_second_request_stands_in_line_as_any_other() -> None:
    with serving(script=by_turn(0.5, 0.0)) as server:
        asker = Asker(server, requests_per_minute=1)
        got = await asker()
        assert (got.reply.text, got.attempts, len(server.requests)) == ("answer 1", (), 1)
        following = asker.limits[asker.models["m"]].rate.book()
        assert following.moment - asker.limits.clock() < 61  # it gave its place back


async def test_a_question_is_asked_twice_at_most_once() -> None:
    with serving(script=by_turn(*[NEVER] * 9)) as server:
        with pytest.raises(ModelUnavailable):
            await Asker(server, tries=3, timeout_seconds=0.3)()
        assert len(server.requests) == 3  # two beside each other, and one more try


async def test_a_second_request_that_fails_does_not_harm_the_first() -> None:
    with serving(Answer("late", delay=1.5), Answer(status=500)) as server:
        got = await Asker(server)()
        assert (got.reply.text, len(server.requests)) == ("late", 2)
        assert [(each.why, each.overtaken) for each in got.attempts] == [("transient", False)]


async def test_a_first_request_that_fails_leaves_the_answer_to_the_second() -> None:
    with serving(Answer(status=500, delay=1.0), Answer("second", delay=1.5)) as server:
        got = await Asker(server)()
        assert (got.reply.text, len(server.requests)) == ("second", 2)


@pytest.mark.parametrize("how", [{"hedge": None}, {"streamed": True}, {"measured": ENOUGH - 1}])
async def test_otherwise_nobody_is_asked_twice(how: dict[str, Any]) -> None:
    with serving(script=by_turn(0.3, 0.0)) as server:
        asker = Asker(server)
        if "hedge" in how:
            asker.models = Registry({"m": {key: value for key, value in card(server).items() if key != "hedge"}})
        if "measured" in how:
            asker.limits = ModelLimits()
            for _ in range(how["measured"]):
                asker.latencies.add(0.02)
        if "streamed" in how:
            got = await asker(on_piece=lambda _: None)
        else:
            got = await asker()
        assert isinstance(got, ModelAnswer)
        assert (got.reply.text, len(server.requests)) == ("answer 1", 1)


async def test_whoever_gives_up_calls_both_requests_off() -> None:
    with serving(script=by_turn(NEVER, NEVER)) as server:
        ledger = Ledger(100.0, last_share=0.0)
        asking = asyncio.ensure_future(Asker(server)(max_tokens=10, reserve=paying(ledger)))
        async with asyncio.timeout(60):
            while len(server.requests) < 2:
                await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert ledger.spent_usd == 20.0
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
def heard() -> Iterator[list[TelemetryEvent]]:
    events: list[TelemetryEvent] = []

    def listen(event: TelemetryEvent, place: Place) -> None:
        events.append(event)

    listeners.append(listen)
    yield events
    listeners.remove(listen)


async def test_the_record_and_telemetry_tell_of_it(tmp_path: Path, heard: list[TelemetryEvent]) -> None:
    speaker = Playbook.from_document({"roles": {"speaker": {"model": "m", "system": "Repeat.", "max_tokens": 10}}})
    with serving(script=by_turn(NEVER, 0.0)) as server:
        settings = Settings(store=f"sqlite:///{tmp_path}/seedbed.db", by="ada", models={"m": card(server)})
        space = seedbed.open(settings)
        for _ in range(ENOUGH):
            space.resources.runner.limits[space.models["m"]].latencies.add(0.02)
        run = await space.run(speaker, question="say it", max_cost_usd=100.0)
        space.close()
    assert (run.output, run.cost_usd) == ("answer 2", 12.0)
    assert [notice.startswith("m was asked twice: ") for notice in run.turns[0].notices] == [True]
    assert [(each.model, each.won) for each in heard if isinstance(each, Hedged)] == [("m", True)]


def test_what_is_slow_is_said_by_the_latest_answers() -> None:
    latencies = Latencies()
    for _ in range(ENOUGH - 1):
        latencies.add(1.0)
    assert latencies.quantile(0.95) is None
    latencies.add(9.0)
    assert (latencies.quantile(0.5), latencies.quantile(0.95)) == (1.0, 9.0)
    for _ in range(1_000):
        latencies.add(0.1)
    assert latencies.quantile(0.99) == 0.1


async def test_a_beaten_request_counts_as_slow_so_that_faster_ones_do_not() -> None:
    with serving(script=by_turn(NEVER, 0.0)) as server:
        asker = Asker(server)
        await asker()
        slowest = asker.latencies.quantile(0.99)
        assert slowest is not None
        assert slowest > 0.02
