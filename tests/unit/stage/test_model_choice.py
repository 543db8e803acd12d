"""Which model a step is given: what it needs, prefers and may cost goes before what its role says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from seedbed.errors import BudgetSpent, ModelUnavailable
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json, Query
from seedbed.workspace import Workspace

LONG = " ".join(["word"] * 50_000)


def card(says: str, price: float, **more: Any) -> Json:
    return {"use": "scripted", "args": {"replies": {".": says}}, "usd_per_million": [0, price], **more}


CARDS = {
    "plain": card("plain", 1, can=["writing"]),
    "clever": card("clever", 10, skill={"writing": 0.7, "reasoning": 0.7}),
    "brilliant": card("brilliant", 1000, skill={"writing": 0.705, "reasoning": 0.705}),
}


def workspace(store: MemoryStore | None = None, **cards: Json) -> Workspace:
    return Workspace(Settings.model_validate({"by": "ada", "models": {**CARDS, **cards}}), store or MemoryStore())


def playbook(role: Json, *steps: Json) -> Playbook:
    listed = [{"name": f"s{number}", "role": "writer", "prompt": "{q}", **step} for number, step in enumerate(steps)]
    return Playbook.from_document({"inputs": ["q"], "roles": {"writer": role}, "steps": listed})


def chosen(space: Workspace) -> dict[str, Json]:
    """The choices that were recorded, by step."""
    return {fact.body["step"]: fact.body for fact in space.store.facts(Query(kind="routing"))}


def rejected(choice: Json) -> dict[str, str]:
    return {each["model"]: each["rejected"] for each in choice["considered"] if each["rejected"]}


async def test_a_step_keeps_its_roles_model_where_that_can_do_what_it_needs_and_is_given_another_where_not() -> None:
    space = workspace()
    steps: list[Json] = [{}, {"needs": ["writing"]}, {"needs": ["reasoning"]}]
    run = await space.run(playbook({"model": "plain"}, *steps), q="why", seed=1)
    models = [turn.model for turn in run.turns]
    assert models[:2] == ["plain", "plain"]
    assert models[2] in ("clever", "brilliant")
    choices = chosen(space)
    assert choices.keys() == {"s1", "s2"}  # where nothing was asked for there was nothing to choose
    assert (choices["s1"]["propensity"], choices["s1"]["preferred"]) == (1.0, True)
    assert rejected(choices["s2"]) == {"plain": "it cannot do reasoning"}
    assert "plain is preferred, but it cannot do reasoning" in choices["s2"]["because"]


async def test_what_a_step_prefers_goes_before_the_model_of_its_role() -> None:
    space = workspace()
    run = await space.run(playbook({"model": "plain"}, {"prefer": "clever"}, {}), q="why", seed=1)
    assert [turn.model for turn in run.turns] == ["clever", "plain"]


async def test_a_preference_that_cannot_do_what_the_step_needs_is_passed_over() -> None:
    space = workspace()
    step = {"needs": ["reasoning"], "prefer": "plain"}
    run = await space.run(playbook({"model": "plain"}, step), q="why", seed=1)
    assert run.turns[0].model != "plain"


async def test_where_only_quality_counts_the_cost_takes_nothing_away() -> None:
    space = workspace()
    steps: list[Json] = [{"needs": ["reasoning"]}, {"needs": ["reasoning"], "quality": "maximum"}]
    await space.run(playbook({}, *steps), q="why", seed=1)
    balanced, maximum = chosen(space)["s0"], chosen(space)["s1"]

    def chance(choice: Json, model: str) -> float:
        return float(next(each["chance"] for each in choice["considered"] if each["model"] == model))

    fitting = [each for each in maximum["considered"] if not each["rejected"]]
    assert {each["model"] for each in fitting} == {"clever", "brilliant"}
    assert all(each["score"] == each["expected"] for each in fitting)
    assert chance(balanced, "brilliant") < 0.5 < chance(maximum, "brilliant")
    assert (balanced["quality"], maximum["quality"]) == ("balanced", "maximum")


async def test_where_only_quality_counts_the_model_of_the_role_has_no_precedence() -> None:
    space = workspace()
    await space.run(playbook({"model": "plain"}, {"needs": ["writing"], "quality": "maximum"}), q="why", seed=1)
    assert not chosen(space)["s0"]["preferred"]


async def test_a_step_that_may_cost_little_is_given_none_that_may_cost_more() -> None:
    space = workspace()
    step = {"needs": ["reasoning"], "quality": "maximum", "max_cost_usd": 0.05}
    run = await space.run(playbook({}, step), q="why", seed=1)
    assert run.turns[0].model == "clever"
    assert "$0.050000 allowed would cut its reply short" in rejected(chosen(space)["s0"])["brilliant"]


async def test_a_step_that_may_cost_little_is_answered_in_short_if_nobody_can_be_paid_for_a_long_answer() -> None:
    """Nobody said how long it may be, which could be 4,096 tokens."""
    space = workspace(plain=card(LONG, 10, can=["writing"]))
    step = {"needs": ["writing"], "prefer": "plain", "max_cost_usd": 0.001}
    run = await space.run(playbook({}, step), q="why", seed=1)
    assert [turn.model for turn in run.turns] == ["plain"]
    assert run.turns[0].completion_tokens == 99
    assert run.cost_usd <= 0.001


async def test_a_model_that_was_named_is_cut_short_where_the_step_may_cost_no_more() -> None:
    space = workspace(wordy=card(LONG, 1000))
    steps: list[Json] = [{"max_cost_usd": 0.05}, {"max_cost_usd": 0.5}]
    run = await space.run(playbook({"model": "wordy"}, *steps), q="why", seed=1)
    assert [turn.finish_reason for turn in run.turns] == ["length", "length"]
    assert [turn.completion_tokens for turn in run.turns] == [49, 499]  # and not a cent more
    assert [turn.cost_usd for turn in run.turns] == [pytest.approx(0.049), pytest.approx(0.499)]
    assert run.status == "completed"


async def test_each_choice_is_recorded_with_its_chance_and_all_that_was_considered() -> None:
    space = workspace()
    run = await space.run(playbook({"needs": ["reasoning"]}, {}), q="why", seed=3)
    (choice,) = chosen(space).values()
    assert choice["model"] == run.turns[0].model
    assert {each["model"] for each in choice["considered"]} == CARDS.keys()
    chances = {each["model"]: each["chance"] for each in choice["considered"]}
    assert choice["propensity"] == chances[choice["model"]]
    assert 0 < choice["propensity"] < 1
    assert sum(chances.values()) == pytest.approx(1.0)
    (fact,) = space.store.facts(Query(kind="routing", subject=run.id))
    assert fact.by == "ada"


class Asked(ScriptedChat):
    """Never answers, but tells that it was asked."""

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()


asked = asyncio.Event()


async def test_a_run_that_is_taken_up_again_asks_the_model_it_had_chosen_whatever_was_learned_since() -> None:
    global asked  # of the loop of this test
    asked = asyncio.Event()
    store = MemoryStore()
    silent = {name: {**CARDS[name], "use": f"{__name__}.Asked"} for name in ("clever", "brilliant")}
    before = workspace(store, **silent)
    running = asyncio.ensure_future(before.run(playbook({"needs": ["reasoning"]}, {}), q="why", seed=3))
    async with asyncio.timeout(30):
        await asked.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    (choice,) = chosen(before).values()

    after = workspace(store)
    (other,) = {"clever", "brilliant"} - {choice["model"]}
    for _ in range(500):
        after.resources.runner.router.learn("reasoning", choice["model"], 0.0, None, None)
        after.resources.runner.router.learn("reasoning", other, 1.0, None, None)
    (start,) = store.facts(Query(kind="start"))
    run = await after.runs.resume(start.key)
    assert run.output == choice["model"]
    assert list(chosen(after).values()) == [choice]


# Money


@pytest.mark.parametrize(("limit", "models"), [(100.0, {"brilliant"}), (0.5, {"clever"})])
async def test_what_is_left_of_the_runs_budget_is_part_of_the_choice(limit: float, models: set[str]) -> None:
    space = workspace()
    step = {"needs": ["reasoning"], "prefer": "brilliant"}
    run = await space.run(playbook({}, step), q="why", seed=1, max_cost_usd=limit)
    assert {turn.model for turn in run.turns} == models


async def test_nobody_is_chosen_who_cannot_be_paid_for_the_prompt_as_the_ledger_counts_it() -> None:
    """100 dollars for a million tokens read: by estimate the prompt costs $0.03, at most $0.10."""
    dear = {**card("dear", 0, can=["singing"]), "usd_per_million": [100, 0]}
    space = workspace(dear=dear, free=card("free", 0, can=["singing"]))
    step = {"needs": ["singing"], "prefer": "dear"}
    run = await space.run(playbook({}, step), q="why? " * 200, seed=1, max_cost_usd=0.06)
    assert (run.output, run.status) == ("free", "completed")


async def test_as_money_goes_cheaper_models_are_chosen() -> None:
    wordy = {name: card(LONG, price, skill={"writing": 0.5}) for name, price in (("dear", 1000.0), ("cheap", 1.0))}
    space = Workspace(Settings.model_validate({"by": "ada", "models": wordy}), MemoryStore())
    steps: list[Json] = [{"prefer": "dear"}] * 3
    run = await space.run(playbook({}, *steps), q="why", seed=1, max_cost_usd=6.0)
    assert [turn.model for turn in run.turns] == ["dear", "cheap", "cheap"]
    assert "would cut its reply short" in rejected(chosen(space)["s1"])["dear"]
    assert run.cost_usd <= 6.0


async def test_a_step_that_no_model_can_be_paid_for_is_told_and_the_run_says_that_money_was_missing() -> None:
    space = workspace()
    steps: list[Json] = [{"needs": ["reasoning"], "max_cost_usd": 0.000001}, {"prompt": "so"}]
    run = await space.run(playbook({"model": "plain"}, *steps), q="why", seed=1)
    assert [(turn.step, turn.model) for turn in run.turns] == [("s1", "plain")]
    assert run.status == "cost_limited"
    (remark,) = space.store.facts(Query(kind="remark"))
    assert "s0 was not answered: found no model for" in remark.body["text"]


async def test_if_there_is_no_money_for_any_step_the_run_fails_with_that_reason() -> None:
    space = workspace()
    with pytest.raises(BudgetSpent, match="found no model for"):
        await space.run(playbook({}, {"needs": ["reasoning"]}), q="why", seed=1, max_cost_usd=0.00001)
    (end,) = space.store.facts(Query(kind="run"))
    assert end.body["status"] == "cost_limited"


class Slow(ScriptedChat):
    """Holds its money for a while, and says one word."""

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
        for _ in range(20):
            await asyncio.sleep(0)
        return self._generate(messages)


async def test_who_finds_the_money_held_by_others_waits_with_the_choice_for_what_they_leave() -> None:
    """The first may write as much as there is money for."""
    space = workspace(able={**card("fine", 1000, can=["singing"]), "use": f"{__name__}.Slow"})
    named = {"name": "first", "role": "singer", "prompt": "{q}"}
    free = {"name": "second", "role": "writer", "prompt": "{q}", "needs": ["singing"]}
    end = {"name": "end", "role": "singer", "prompt": "so"}
    roles = {"singer": {"model": "able"}, "writer": {}}
    plan = Playbook.from_document({"inputs": ["q"], "roles": roles, "steps": [{"together": [named, free]}, end]})
    run = await space.run(plan, q="why", seed=1, max_cost_usd=1.0)
    assert [turn.step for turn in run.turns] == ["first", "second", "end"]
    assert run.status == "completed"


# Learning from scores


TASKS = Dataset([Task(f"{number}", {"q": f"{number}"}, "clever") for number in range(30)])
"""Only one of the models answers them right."""


def taught(space: Workspace) -> list[tuple[str, float | None]]:
    return [(fact.body["model"], fact.value) for fact in space.store.facts(Query(kind="outcome"))]


async def test_evaluating_teaches_the_router_and_the_next_evaluation_asks_the_better_model() -> None:
    space, routed = workspace(), playbook({"needs": ["writing"]}, {})
    card = await space.evaluate(routed, TASKS)
    outcomes = taught(space)
    assert len(outcomes) == len(TASKS)
    assert all(value == (model == "clever") for model, value in outcomes)
    rows, _ = space.models.outcomes()
    assert sum(row["n"] for row in rows) == len(TASKS)
    later = await space.evaluate(routed, TASKS, replicates=2)  # the first replicate is known, and teaches no more
    assert len(taught(space)) == 2 * len(TASKS)
    assert later.cells.column("value")[1::2].mean() > card.cells.column("value").mean()


async def test_nothing_is_learned_while_a_verb_is_under_way() -> None:
    """The choices of an evaluation would depend on which of its runs ends first."""
    space, routed = workspace(), playbook({"needs": ["writing"]}, {})
    await space.evaluate(routed, TASKS)
    odds = {json.dumps(fact.body["considered"]) for fact in space.store.facts(Query(kind="routing"))}
    assert len(odds) == 1


async def test_what_is_no_quality_teaches_nothing() -> None:
    space = workspace()
    await space.evaluate(playbook({"needs": ["writing"]}, {}), TASKS, metric="cost_usd")
    assert taught(space) == []


async def test_a_rating_teaches_the_router_once() -> None:
    space = workspace()
    run = await space.run(playbook({"needs": ["writing"]}, {}, {"needs": ["reasoning"]}), q="why", seed=1)
    space.feedback(run, 0.5, metric="length")
    assert taught(space) == []
    space.feedback(run, 1.0)
    space.feedback(run, 0.0)
    assert taught(space) == [(turn.model, 1.0) for turn in run.turns]


class Broken(ScriptedChat):
    """A model that refuses."""

    async def _agenerate(self, *_: Any, **__: Any) -> Any:
        raise ModelUnavailable("found no credit; expected some", "credit")


async def test_if_the_chosen_model_fails_another_that_can_do_it_answers() -> None:
    broken = {"use": f"{__name__}.Broken", "args": {"replies": {}}, "can": ["drawing"], "usd_per_million": [0, 0]}
    space = workspace(broken=broken, plain=card("plain", 1, can=["drawing"]))
    run = await space.run(playbook({"needs": ["drawing"], "prefer": "broken"}, {}), q="why", seed=1)
    (turn,) = run.turns
    assert (turn.model, turn.text) == ("plain", "plain")
    assert "plain was asked instead of broken" in turn.notices[0]
