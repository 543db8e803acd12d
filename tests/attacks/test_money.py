"""Attacks on money: providers that lie, prices nobody knows, clocks that jump, quotas of many processes, and a stop."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import seedbed
from model_server import Answer, ModelServer, serving
from seedbed.cli.main import main
from seedbed.errors import ModelUnavailable, QuotaSpent, SeedbedError, SettingsError, Stopped
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder, RunStart
from seedbed.runs.run import Failure
from seedbed.settings import Quota, Settings
from seedbed.spending.quota import Spending
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query
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


def test_of_processes_that_start_at_once_the_first_in_the_store_count() -> None:
    store, settings = MemoryStore(), Settings(quota=Quota(runs_per_day=1))
    one, two = Spending(settings, store, lambda: NOON), Spending(settings, store, lambda: NOON)
    first, second = one.start("r1"), two.start("r2")  # neither has seen the other
    for run in ("r2", "r1"):
        store.append([Fact(kind="start", key=run, subject="p", at=NOON, by="ada", body={"parent": ""})])
    two.confirm(second)
    with pytest.raises(QuotaSpent, match="1 runs within a day"):
        one.confirm(first)


def test_a_quota_in_money_counts_what_other_processes_paid() -> None:
    store, settings = MemoryStore(), Settings(quota=Quota(usd_per_day=1.0))
    spending = Spending(settings, store, lambda: NOON)
    spending.start("mine")
    for key, usd in (("theirs", 0.6), ("theirs@2", 0.5)):
        store.append([Fact(kind="run", key=key, subject="p", at=NOON, by="bob", body={"turns": 1}, value=usd)])
    with pytest.raises(QuotaSpent, match=r"\$1\.10 spent within a day"):
        spending.start("another")


async def test_people_are_told_at_50_80_and_100_per_cent_of_a_quota_once_for_all_processes(tmp_path: Path) -> None:
    told = tmp_path / "alerts.jsonl"
    about = {"models": SCRIPTED, "quota": {"runs_per_day": 10}, "alerts": [{"log": str(told)}]}
    store, settings = MemoryStore(), Settings.model_validate(about)
    spaces = [Workspace(settings, store), Workspace(settings, store)]
    for number in range(10):
        await spaces[number % 2].run(plan(), q=str(number))
    lines = told.read_text().splitlines()
    assert [f"{level} % of runs_per_day" in line for level, line in zip((50, 80, 100), lines, strict=True)] == [
        True
    ] * 3
    assert '"critical"' in lines[2]


async def test_people_are_told_of_a_day_that_costs_far_more_than_usual(tmp_path: Path) -> None:
    store, told = MemoryStore(), tmp_path / "alerts.jsonl"
    for number, usd in enumerate([30.0, 2.0, 3.0, 2.0]):
        at = datetime.now(UTC) - timedelta(days=number, minutes=5)
        store.append([Fact(kind="run", key=f"r{number}", subject="p", at=at, by="ada", body={"turns": 1}, value=usd)])
    settings = Settings.model_validate({"models": SCRIPTED, "alerts": [{"log": str(told)}]})
    space = Workspace(settings, store)
    await space.run(plan(), q="why?")
    await space.run(plan(), q="and?")
    (line,) = told.read_text().splitlines()
    assert "$30.00 were spent in dev within a day; the dearest of the 7 days before cost $3.00" in line


SCRIPTED = {"one": {"use": "scripted", "args": {"replies": {".": "yes"}}}}


# The stop


async def test_a_stop_halts_a_run_at_its_next_call_and_a_lift_lets_it_go_on() -> None:
    store, now = MemoryStore(), [0.0]
    answered: list[str] = []

    def answer(request: dict[str, Any]) -> Answer:
        answered.append("")
        if len(answered) == 2:
            here.stop(because="the bill is wrong")  # another process would see it within a second
            now[0] += 1.0
        return Answer("yes")

    with serving(script=answer) as server:
        settings = Settings.model_validate({"models": cards(server, usd_per_million=[0, 0]), "by": "ada"})
        here, there = Workspace(settings, store), Workspace(settings, store)
        there.resources.runner.stop._clock = lambda: now[0]
        with pytest.raises(Stopped, match=r"stopped by ada at .*: the bill is wrong; expected .* seedbed stop --lift"):
            await there.run(plan(steps=4), q="why?")
        assert len(server.requests) == 2
        (run,) = there.runs.recent(5)
        assert (run.status, "the bill is wrong" in run.error) == ("failed", True)
        with pytest.raises(Stopped):
            await here.run(plan(), q="a new one")
        here.stop(lift=True)
        now[0] += 1.0
        resumed = await there.runs.resume(run.id)
    assert (resumed.status, len(resumed.turns), len(server.requests)) == ("completed", 4, 4)


async def test_a_stop_halts_tools_and_searches_and_is_no_failure_of_an_agent() -> None:
    space = Workspace(Settings.model_validate({"models": SCRIPTED}), MemoryStore())
    used: list[str] = []

    def pay(to: str) -> str:
        used.append(to)
        return "paid"

    space.tools = [pay]
    async with space.runs.recording(plan(), q="?") as stage:
        space.stop(because="enough")
        with pytest.raises(Stopped):
            await stage.call("pay", to="bob")
    assert used == []
    tasks = seedbed.Dataset([seedbed.Task(str(n), {"q": str(n)}, "yes") for n in range(40)])
    for work in (space.evaluate(plan(), tasks), space.evolve(plan(), tasks, budget="200 runs")):
        with pytest.raises(Stopped, match="enough"):
            await work
    assert list(space.store.facts(Query(kind="lapse"))) == []


def test_a_stop_needs_a_reason() -> None:
    space = Workspace(Settings.model_validate({"models": SCRIPTED}), MemoryStore())
    with pytest.raises(SettingsError, match="because: found nothing; expected why everything stops"):
        space.stop()


def test_the_command_line_stops_a_run_of_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("seedbed.yaml").write_text("models:\n  one: {use: scripted, args: {replies: {'.': 'yes'}}}\n")
    Path("plan.yaml").write_text("inputs: [q]\nroles: {a: {model: one}}\nsteps: [{name: s, role: a, prompt: '{q}'}]\n")
    assert main(["stop"]) == 64
    assert main(["stop", "--because", "the bill is wrong"]) == 0
    asked = [sys.executable, "-m", "seedbed", "run", "plan.yaml", "q=why"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, "the bill is wrong" in done.stderr) == (1, True)
    assert main(["stop", "--lift"]) == 0
    assert subprocess.run(asked, capture_output=True, text=True, check=False).returncode == 0
    store = open_store("sqlite:///seedbed.db")
    assert all(fact.link for fact in store.facts(Query(kind="stop")))


# Many random runs


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(seedbed.__file__).parents[2] / "benchmarks"))
    import lying_provider

    return lying_provider


async def test_random_runs_against_a_provider_that_lies_never_cost_more_than_they_may(study: Any) -> None:
    for each in await study.study(60, seed=7):
        assert each.bill.usd <= each.limit * (1 + 1e-9)
        assert each.recorded >= each.bill.usd * (1 - 1e-9)


async def test_a_provider_that_bills_the_impossible_overshoots_by_the_requests_under_way_and_is_named(
    study: Any,
) -> None:
    huge = [each for each in await study.study(20, 7, ("honest", study.HUGE)) if each.bill.huge]
    assert huge
    for each in huge:
        assert each.named
        assert each.bill.after_huge <= 4  # that many are under way together
