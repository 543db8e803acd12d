"""Attacks on money: providers that lie, prices nobody knows, clocks that jump, quotas of many processes, and a stop."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import seedbed
from model_server import Answer, ModelServer, Request, serving
from seedbed.errors import ModelUnavailable, QuotaSpent, SeedbedError, SettingsError, Stopped
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Failure, RunEvent
from seedbed.runs.run_start import RunStart
from seedbed.settings import Quota, Settings
from seedbed.spending.quota import Spending
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact
from seedbed.workspace import Workspace

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PRICES = [1_000.0, 1_000.0]
"""A dollar for a thousand tokens, so that lies are expensive."""


def cards(server: ModelServer, **more: Any) -> dict[str, Any]:
    return {"one": {"use": "openai", "args": {"model": "m", "base_url": server.url}, **more}}


def plan(steps: int = 1, **role: Any) -> Playbook:
    asked = [{"name": f"s{n}", "role": "a", "prompt": "{q}"} for n in range(steps)]
    return Playbook.from_document({"inputs": ["q"], "roles": {"a": {"model": "one", **role}}, "steps": asked})


def usage(**counts: Any) -> Answer:
    return Answer("yes it is", usage=counts)


# Providers that lie


@pytest.mark.parametrize(
    "counts",
    [
        {"prompt_tokens": -5, "completion_tokens": -5},
        {"prompt_tokens": math.nan, "completion_tokens": 3},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": "many", "completion_tokens": 3},
        {"prompt_tokens": True, "completion_tokens": True},
        {"prompt_tokens": math.inf, "completion_tokens": 3},
        {"completion_tokens": [3]},
        {"prompt_tokens": 5, "completion_tokens": 3, "completion_tokens_details": [], "cost": "free"},
    ],
    ids=["negative", "nan", "zero", "text", "true", "infinite", "list", "details"],
)
async def test_usage_that_cannot_be_right_loses_no_answer_and_is_not_free(counts: dict[str, Any]) -> None:
    with serving(usage(**counts)) as server:
        async with seedbed.open(models=cards(server, usd_per_million=PRICES)) as space:
            run = await space.run(plan(max_tokens=20), q="why?", max_cost_usd=1.0)
    assert run.output == "yes it is"
    assert 0 < run.cost_usd <= 1.0
    assert all(turn.prompt_tokens >= 0 and turn.completion_tokens >= 0 for turn in run.turns)


async def test_a_provider_that_reports_too_little_is_counted_by_the_texts() -> None:
    question = "word " * 1_200
    with serving(Answer("yes " * 300, usage={"prompt_tokens": 1, "completion_tokens": 1})) as server:
        async with seedbed.open(models=cards(server, usd_per_million=[1.0, 1.0])) as space:
            turn = (await space.run(plan(), q=question)).turns[0]
    assert turn.prompt_tokens == 1_000
    assert turn.completion_tokens == 200
    assert turn.cost_usd == pytest.approx(1_200 / 1e6)


async def test_a_bill_that_a_request_cannot_carry_is_counted_named_and_the_last_of_its_model() -> None:
    bill = usage(prompt_tokens=1e300, completion_tokens=10**12)
    with serving(script=lambda _: bill) as server:
        async with seedbed.open(models=cards(server, usd_per_million=[1.0, 1.0])) as space:
            with pytest.raises(SeedbedError, match=r"one charged 2,000,000,000 tokens, \$2000\.00, for a request that"):
                await space.run(plan(steps=9, max_tokens=20), q="why?", max_cost_usd=5_000.0)
            run = space.runs.get(space.runs.recent(1)[0].id)
            with pytest.raises(ModelUnavailable, match="charged"):  # nor is it asked by other runs
                await space.run(plan(max_tokens=20), q="and?", max_cost_usd=5_000.0)
    assert len(server.requests) == 1
    assert "one charged" in run.turns[0].notices[0]
    assert run.cost_usd == pytest.approx(2_000.0)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=b'{"choices": ['),
        Answer("half an answer", cut=True),
        Answer(refusal="I will not"),
        Answer(status=504),
        Answer(hang_up=True),
    ],
    ids=["unreadable", "cut", "refusal", "gateway", "hang up"],
)
async def test_an_answer_that_cannot_be_read_is_paid_for(answer: Answer) -> None:
    with serving(script=lambda _: answer) as server:
        async with seedbed.open(models=cards(server, usd_per_million=PRICES)) as space:
            space.resources.runner.limits.sleep = no_sleep
            with pytest.raises(SeedbedError):
                await space.run(plan(max_tokens=20), q="why?", max_cost_usd=1.0)
            run = space.runs.get(space.runs.recent(1)[0].id)
    assert 0.02 * len(server.requests) <= run.cost_usd <= 1.0


@pytest.mark.parametrize(
    "answer",
    [
        Answer("half an answer", cut=True),
        Answer("half an answer", error_in_stream={"code": 500}),
        Answer("half an answer", error_in_stream={"code": "invalid_request"}),
    ],
    ids=["cut", "error", "error of ours"],
)
async def test_a_stream_that_breaks_off_costs_the_most_that_its_requests_can(answer: Answer) -> None:
    with serving(script=lambda _: answer) as server:
        async with seedbed.open(models=cards(server, usd_per_million=[0.0, 1_000.0])) as space:
            space.resources.runner.limits.sleep = no_sleep
            with pytest.raises(SeedbedError):
                await space.run(plan(max_tokens=100), q="why?", max_cost_usd=5.0, on_event=lambda _: None)
            run = space.runs.get(space.runs.recent(1)[0].id)
    assert run.cost_usd == pytest.approx(0.1 * len(server.requests))


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0}], ids=["none", "zero"])
async def test_a_stream_without_usage_costs_the_most_that_its_request_can(usage: dict[str, Any]) -> None:
    with serving(Answer("yes it is", usage=usage)) as server:
        async with seedbed.open(models=cards(server, usd_per_million=[0.0, 1_000.0])) as space:
            run = await space.run(plan(max_tokens=100), q="why?", on_event=lambda _: None)
    assert (run.output, run.cost_usd) == ("yes it is", pytest.approx(0.1))


async def test_usage_before_the_end_of_a_stream_is_not_all_of_it() -> None:
    first = {"choices": [{"delta": {"content": "yes"}}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    rows = [first, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]
    body = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in rows)
    with serving(Answer(body=body)) as server:
        async with seedbed.open(models=cards(server, usd_per_million=[0.0, 1_000.0])) as space:
            run = await space.run(plan(max_tokens=100), q="why?", on_event=lambda _: None)
    assert (run.output, run.cost_usd) == ("yes", pytest.approx(0.1))


async def test_an_error_of_a_listener_does_not_make_the_answer_free() -> None:
    def listen(event: RunEvent) -> None:
        if event.piece:
            raise OSError("the terminal is gone")

    with serving(Answer("yes it is")) as server:
        async with seedbed.open(models=cards(server, usd_per_million=[0.0, 1_000.0])) as space:
            with pytest.raises(SeedbedError, match="the terminal is gone"):
                await space.run(plan(max_tokens=100), q="why?", on_event=listen)
            assert space.runs.recent(1)[0].cost_usd == pytest.approx(0.1)


@pytest.mark.parametrize("answer", [Answer("yes", logprobs=[-(10**400)]), Answer("yes", logprobs=[-1e308])])
@pytest.mark.parametrize("streamed", [True, False])
async def test_probabilities_that_cannot_be_computed_with_lose_no_answer(answer: Answer, streamed: bool) -> None:
    with serving(answer) as server:
        async with seedbed.open(models=cards(server, usd_per_million=PRICES)) as space:
            run = await space.run(plan(), q="why?", on_event=(lambda _: None) if streamed else None)
    assert (run.output, run.turns[0].confidence, len(server.requests)) == ("yes", 0.0, 1)
    assert run.cost_usd > 0


@pytest.mark.parametrize("answer", [Answer(status=503), Answer(status=429)], ids=["away", "too many"])
async def test_a_request_that_was_not_taken_is_free(answer: Answer) -> None:
    with serving(script=lambda _: answer) as server:
        async with seedbed.open(models=cards(server, usd_per_million=PRICES)) as space:
            space.resources.runner.limits.sleep = no_sleep
            with pytest.raises(ModelUnavailable):
                await space.run(plan(max_tokens=20), q="why?", max_cost_usd=1.0)
            assert space.runs.recent(1)[0].cost_usd == 0.0


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)


# Prices that nobody knows


async def test_an_unknown_price_is_said_wherever_a_cost_is() -> None:
    with serving() as server:
        async with seedbed.open(models=cards(server)) as space:
            run = await space.run(plan(steps=3), q="why?")
            tasks = seedbed.Dataset([seedbed.Task("t", {"q": "why?"}, "why?")])
            card = await space.evaluate(plan(), tasks)
            recalled = space.runs.get(run.id)
    assert (run.unpriced, [turn.unpriced for turn in run.turns], recalled.unpriced) == (3, [1, 1, 1], 3)
    assert "at least $0.0000, 3 calls of unknown price" in repr(run)
    assert "3 calls of unknown price" in str(run.export("md"))
    assert (card.unpriced, card.worth_unpriced) == (1, 1)
    assert "1 call of unknown price" in card._repr_html_()


async def test_an_unknown_price_is_said_of_comparisons_and_searches() -> None:
    tasks = seedbed.Dataset([seedbed.Task(str(n), {"q": str(n)}, str(n)) for n in range(12)])
    with serving() as server:
        async with seedbed.open(models=cards(server)) as space:
            verdict = await space.compare(plan(), plan(steps=2), on=tasks)
            options = seedbed.SearchOptions(confirm="none")
            found = await space.evolve(plan(), tasks, budget="20 runs", options=options)
            texts = [str(verdict.export("html")), str(verdict.export("md"))]
            certified = space.experiments.certificate(verdict.experiment)
    assert verdict.unpriced == 36
    assert ["36 calls of unknown price" in text for text in texts] == [True] * len(texts)
    assert found.spent["unpriced"] > 0
    assert certified


async def test_a_limit_in_money_refuses_an_unknown_price_before_anything_is_paid_unless_told_otherwise() -> None:
    with serving() as server:
        models = {**cards(server, usd_per_million=PRICES), "two": cards(server)["one"]}
        late = plan().document()
        late["roles"]["b"] = {"model": "two"}
        late["steps"].append({"name": "late", "role": "b", "prompt": "{q}"})
        playbook = Playbook.from_document(late)
        async with seedbed.open(models=models) as space:
            with pytest.raises(SettingsError, match=r"models\.two\.usd_per_million.*unknown_prices: allow"):
                await space.run(playbook, q="why?", max_cost_usd=50.0)
        assert server.requests == []
        settings = Settings.model_validate({"models": models, "limits": {"unknown_prices": "allow"}})
        async with Workspace(settings, MemoryStore()) as space:
            run = await space.run(playbook, q="why?", max_cost_usd=50.0)
    assert (run.status, run.unpriced) == ("completed", 1)


async def test_a_quota_in_money_refuses_an_unknown_price_too() -> None:
    with serving() as server:
        settings = Settings.model_validate({"models": cards(server), "quota": {"usd_per_day": 5.0}})
        async with Workspace(settings, MemoryStore()) as space:
            with pytest.raises(SettingsError, match="usd_per_million"):
                await space.run(plan(), q="why?")
    assert server.requests == []


# What was spent before


async def test_what_was_spent_before_a_resume_is_found_although_the_clock_went_back() -> None:
    store = MemoryStore()
    journal = Journal(store)
    start = RunStart("b2:p", {}, 1, {})
    parent = Recorder(journal, start, by="ada", run="1" * 32, clock=lambda: NOON)
    await parent.start()
    opened = RunStart("b2:p", {}, 1, {}, parent.id)
    child = Recorder(journal, opened, by="ada", run="2" * 32, clock=lambda: NOON - timedelta(hours=1))
    await child.start()
    await child.record_failure(Failure(step="s", role="a", error="gone", cost_usd=0.7, tokens=9))
    assert Recorder.resume(journal, parent.id, by="ada").paid_before == (0.7, 9)


# Quotas


async def test_a_quota_counts_the_runs_of_other_workspaces_on_the_same_store() -> None:
    store, settings = MemoryStore(), Settings.model_validate({"models": SCRIPTED, "quota": {"runs_per_day": 3}})
    one, two = Workspace(settings, store), Workspace(settings, store)
    await one.run(plan(), q="1")
    await two.run(plan(), q="2")
    await one.run(plan(), q="3")
    with pytest.raises(QuotaSpent, match="3 runs within a day"):
        await two.run(plan(), q="4")


async def test_of_processes_that_start_at_once_the_first_in_the_store_count() -> None:
    store, settings = MemoryStore(), Settings(quota=Quota(runs_per_day=1))
    one, two = Spending(settings, store, lambda: NOON), Spending(settings, store, lambda: NOON)
    first, second = await one.start("r1"), await two.start("r2")  # neither has seen the other
    for run in ("r2", "r1"):
        store.append([Fact(kind="start", key=run, subject="p", at=NOON, by="ada", body={"parent": ""})])
    await second.confirm()
    with pytest.raises(QuotaSpent, match="1 runs within a day"):
        await first.confirm()


async def test_a_run_that_is_resumed_counts_once_with_all_that_it_cost() -> None:
    store, settings = MemoryStore(), Settings(quota=Quota(runs_per_day=2, usd_per_day=1.0))
    spending = Spending(settings, store, lambda: NOON)
    for number, usd in enumerate((0.3, 0.4), 1):
        share = await spending.start("r1")
        share.settle(await share.reserve(usd, usd, "ada"), usd)
        key, parent = "r1" if number == 1 else f"r1@{number}", {"parent": "", "turns": 1}
        store.append([Fact(kind="start", key="r1", subject="p", at=NOON, by="ada", body=parent)])
        store.append([Fact(kind="run", key=key, subject="p", at=NOON, by="ada", body=parent, value=usd)])
        await share.end("ada")
    for each in (spending, Spending(settings, store, lambda: NOON)):
        share = await each.start("r2")
        with pytest.raises(QuotaSpent, match=r"\$0\.70 of \$1\.00 within a day"):
            await share.reserve(0.4, 0.4, "ada")
    store.append([Fact(kind="start", key="r2", subject="p", at=NOON, by="ada", body={"parent": ""})])
    with pytest.raises(QuotaSpent, match="2 runs within a day"):
        await Spending(settings, store, lambda: NOON).start("r3")


async def test_a_quota_in_money_counts_what_other_processes_paid() -> None:
    store, settings = MemoryStore(), Settings(quota=Quota(usd_per_day=1.0))
    spending = Spending(settings, store, lambda: NOON)
    await spending.start("mine")
    for key, usd in (("theirs", 0.6), ("theirs@2", 0.5)):
        store.append([Fact(kind="run", key=key, subject="p", at=NOON, by="bob", body={"turns": 1}, value=usd)])
    with pytest.raises(QuotaSpent, match=r"\$1\.10 spent within a day"):
        await spending.start("another")


QUOTA = 20.0


async def settled(work: Awaitable[Any]) -> Any:
    """What it returns or raises."""
    return (await asyncio.gather(work, return_exceptions=True))[0]


def honest(bills: list[float], tokens: int) -> Callable[[Request], Answer]:
    """A provider whose answers have so many tokens if they may, and that bills what it says."""

    def answer(request: Request) -> Answer:
        written = min(tokens, request["max_tokens"])
        bills.append((10 + written) * PRICES[0] / 1_000_000)
        return usage(prompt_tokens=10, completion_tokens=written)

    return answer


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_runs_under_way_in_several_processes_never_pass_a_quota_in_money_together(
    kind: str, tmp_path: Path
) -> None:
    bills: list[float] = []
    with serving(script=honest(bills, 500)) as server:  # half a dollar each
        models = cards(server, usd_per_million=PRICES)
        settings = Settings.model_validate({"models": models, "quota": {"usd_per_day": QUOTA}})
        url = f"sqlite:///{tmp_path / 'seedbed.db'}"
        memory = MemoryStore()
        spaces = [Workspace(settings, memory if kind == "memory" else open_store(url)) for _ in range(3)]
        runs = [spaces[n % 3].run(plan(steps=4, max_tokens=1_000), q=str(n)) for n in range(30)]
        done = await asyncio.gather(*runs, return_exceptions=True)
        refused = [each for each in done if isinstance(each, BaseException)]
        paid = sum(bills)
        later = [await settled(spaces[0].run(plan(max_tokens=1_000), q=str(n))) for n in range(40)]
        for space in spaces:
            space.close()
    assert refused
    assert all(isinstance(each, QuotaSpent) for each in (*refused, later[-1]))
    assert QUOTA / 2 < paid <= QUOTA
    assert sum(bills) <= QUOTA


async def test_what_a_process_held_when_it_died_counts_as_spent() -> None:
    store, settings = MemoryStore(), Settings(quota=Quota(usd_per_day=1.0))
    died = await Spending(settings, store, lambda: NOON).start("r1")
    await died.reserve(0.9, 0.9, "ada")
    another = await Spending(settings, store, lambda: NOON).start("r2")
    with pytest.raises(QuotaSpent):
        await another.reserve(0.2, 0.2, "ada")


async def test_a_program_that_catches_the_end_of_a_quota_has_no_completed_run() -> None:
    async def stubborn(task: Any, stage: Any) -> str:
        try:
            return str((await stage.ask("a", task["q"])).text)
        except QuotaSpent:
            return "never mind"

    with serving() as server:
        models = cards(server, usd_per_million=PRICES)
        settings = Settings.model_validate({"models": models, "quota": {"usd_per_day": 0.01}})
        async with Workspace(settings, MemoryStore()) as space:
            with pytest.raises(QuotaSpent, match="resume the run"):
                await space.run(plan(), program=stubborn, q="why?")
            (run,) = space.runs.recent()
    assert (server.requests, run.status) == ([], "cost_limited")


async def test_a_channel_and_each_of_its_users_have_quotas_of_their_own() -> None:
    channels = {"production": {"quota": {"runs_per_day": 5}, "user_quota": {"runs_per_day": 2}, "require": []}}
    store, settings = MemoryStore(), Settings.model_validate({"models": SCRIPTED, "channels": channels})
    one, two = Workspace(settings, store), Workspace(settings, store)
    await one.release(plan(), to="production", because="first")
    for user in ("ada", "bob"):
        await one.run("production", key=user, q="why?")
        await two.run("production", key=user, q="why?")
        with pytest.raises(QuotaSpent, match="this user of channel production: 2 runs within a day"):
            await one.run("channels/production", key=user, q="why?")
    await one.run("production", q="why?")
    with pytest.raises(QuotaSpent, match="channel production: 5 runs within a day"):
        await two.run("production", key="cyd", q="why?")
    with pytest.raises(QuotaSpent, match="channel production: 5 runs within a day"):
        async with two.runs.recording("production", q="why?"):
            raise AssertionError("a recording is a run of the channel too")
    await two.run(plan(), q="why?")  # which is not on the channel


@pytest.mark.parametrize("streamed", [False, True])
async def test_asking_a_model_by_hand_is_stopped_and_counts_against_a_quota(streamed: bool) -> None:
    async def ask(space: Workspace) -> None:
        if streamed:
            [piece async for piece in space.models.stream("one", "why?", max_tokens=100)]
        else:
            await space.models.ask("one", "why?", max_tokens=100)

    bills: list[float] = []
    with serving(script=honest(bills, 90)) as server:  # a tenth of a dollar
        models = cards(server, usd_per_million=PRICES)
        settings = Settings.model_validate({"models": models, "quota": {"usd_per_day": 0.45}})
        async with Workspace(settings, MemoryStore()) as space:
            space.stop(because="enough")
            with pytest.raises(Stopped):
                await ask(space)
            assert server.requests == []
            space.stop(lift=True)
            asked = [await settled(ask(space)) for _ in range(9)]
    assert isinstance(asked[-1], QuotaSpent)
    assert 0.35 <= sum(bills) <= 0.45


SCRIPTED = {"one": {"use": "scripted", "args": {"replies": {".": "yes"}}}}


# Many random runs


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(seedbed.__file__).parents[2] / "benchmarks"))
    import lying_provider

    return lying_provider


async def test_random_runs_against_a_provider_that_lies_never_cost_more_than_they_may(study: Any) -> None:
    for each in await study.study(30, seed=7):
        assert each.bill.usd <= each.limit * (1 + 1e-9)
        assert each.recorded >= each.bill.usd * (1 - 1e-9)


async def test_a_provider_that_bills_the_impossible_overshoots_by_the_requests_under_way_and_is_named(
    study: Any,
) -> None:
    huge = [each for each in await study.study(20, 7, ("honest", study.HUGE)) if each.bill.huge]
    assert huge
    for each in huge:
        assert each.named
        assert each.bill.after_huge <= 11  # so many steps are together at most
