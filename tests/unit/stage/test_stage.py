from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from seedbed.errors import ActionForbidden, ModelUnavailable, PlaybookError, RunError, SettingsError
from seedbed.models.cards import Registry
from seedbed.models.chat import Message
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.models.routing.router import Router
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import entries_of, recall
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run_start import RunStart
from seedbed.stage.stage import Stage, StageOptions
from seedbed.stage.tools import tool, toolbox
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query


class Curious(ScriptedChat):
    """A scripted model that knows seeds, and remembers what it was asked."""

    seed: int | None = None

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
        given.pop("run_manager", None)
        asked.append(([(message.type, message.text) for message in messages], given))
        return self._generate(messages)


asked: list[Any] = []


def stage(roles: dict[str, Any], *, store: MemoryStore | None = None, seed: int = 7, **document: Any) -> Stage:
    asked.clear()
    playbook = Playbook.from_document({"roles": roles, **document})
    cards = {
        "fast": {
            "use": f"{__name__}.Curious",
            "args": {"replies": ["fine"]},
            "usd_per_million": [1_000_000, 2_000_000],
        },
        "silent": {"use": "scripted", "args": {"replies": []}},
    }
    journal = Journal(store or MemoryStore())
    recorder = Recorder(journal, RunStart(playbook.digest, {}, seed=seed, models={}), by="ada")
    return Stage(playbook, Registry(cards).__getitem__, recorder)


async def test_a_role_answers_under_its_own_words_and_parameters() -> None:
    role = {"model": "fast", "system": "Be brief.", "temperature": 0.5, "max_tokens": 3, "stop": ["\n"]}
    reply = await stage({"writer": role}).ask("writer", "Why?", before=[Message("assistant", "Because.")])
    assert reply.text == "fine"
    ((messages, given),) = asked
    assert messages == [("system", "Be brief."), ("ai", "Because."), ("human", "Why?")]
    assert given == {"temperature": 0.5, "max_tokens": 3, "stop": ["\n"], "seed": 7}


async def test_what_a_role_leaves_open_is_left_to_the_model() -> None:
    await stage({"writer": {"model": "fast"}}).ask("writer", "Why?")
    ((messages, given),) = asked
    assert messages == [("human", "Why?")]
    assert given == {"seed": 7}


async def test_other_words_can_stand_in_for_the_roles_own() -> None:
    await stage({"writer": {"model": "fast", "system": "Be brief."}}).ask("writer", "Why?", system="")
    assert asked[0][0] == [("human", "Why?")]


async def test_whatever_is_asked_is_recorded_with_what_it_took() -> None:
    store = MemoryStore()
    on = stage({"writer": {"model": "fast", "system": "Be brief."}}, store=store)
    await on.ask("writer", "Why not?", step="answer")
    (turn,) = on.recorder.turns
    assert (turn.step, turn.role, turn.model, turn.text, turn.seed) == ("answer", "writer", "fast", "fine", 7)
    assert turn.messages == (("system", "Be brief."), ("user", "Why not?"))
    assert (turn.prompt_tokens, turn.completion_tokens, turn.cost_usd) == (4, 1, 6.0)
    assert turn.finish_reason == "stop"
    assert [fact.body for fact in entries_of(store, on.recorder.id, "turn")] == [turn.body()]


async def test_an_unknown_role_is_told_with_the_known_ones() -> None:
    with pytest.raises(PlaybookError, match=r"roles\.critic.*writer"):
        await stage({"writer": {"model": "fast"}}).ask("critic", "Why?")


async def test_a_role_without_a_model_is_a_mistake_of_the_playbook() -> None:
    with pytest.raises(PlaybookError, match=r"roles\.writer\.model: found nothing"):
        await stage({"writer": {"system": "Be brief."}}).ask("writer", "Why?")


async def test_an_unknown_model_is_told_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match='no model named "slow"; expected one of: fast, silent'):
        await stage({"writer": {"model": "slow"}}).ask("writer", "Why?")


async def test_what_was_not_answered_is_not_a_turn() -> None:
    on = stage({"writer": {"model": "silent"}})
    with pytest.raises(ModelUnavailable):
        await on.ask("writer", "Why?")
    assert on.recorder.turns == []


async def test_the_rules_of_the_playbook_say_what_may_be_done() -> None:
    rules = {"never": ["forward_*"], "confirm": ["delete"], "prefer_confirm": ["archive"], "confirm_below": "floor"}
    on = stage({"writer": {"model": "fast"}}, rules=rules, parameters={"floor": 0.6})
    assert on.may("read")
    assert on.may("forward_to_all").answer == "forbidden"
    assert on.may("delete", confidence=1.0).answer == "confirm"
    assert on.may("archive", confidence=0.5).answer == "confirm"
    assert on.may("archive", confidence=0.7)


# Everything else a program may do


@tool(effect="reads")
async def weather(city: str) -> dict[str, Any]:
    happened.append(city)
    return {"city": city, "degrees": 21}


@tool(changes=True)
async def refund(order: str) -> str:
    happened.append(order)
    return "refunded"


@tool(effect="reads")
async def broken() -> None:
    raise ValueError("out of order")


happened: list[str] = []


def equipped(
    store: MemoryStore, *, resume: str = "", confirm: Any = None, rules: dict[str, Any] | None = None
) -> Stage:
    happened.clear()
    playbook = Playbook.from_document({"roles": {"writer": {}}, "rules": {"allow": ["refund"], **(rules or {})}})
    journal = Journal(store)
    if resume:
        recorder = Recorder.resume(journal, resume, by="ada")
    else:
        recorder = Recorder(journal, RunStart(playbook.digest, {}, seed=7, models={}), by="ada")
    box = toolbox([weather, refund, broken])
    return Stage(playbook, Registry({}).__getitem__, recorder, StageOptions(tools=box, confirm=confirm))


async def test_what_a_tool_told_is_recorded_and_told_again_when_a_run_goes_on() -> None:
    store = MemoryStore()
    on = equipped(store)
    await on.recorder.start()
    assert await on.call("weather", city="Bern") == {"city": "Bern", "degrees": 21}
    again = equipped(store, resume=on.recorder.id)
    assert await again.call("weather", city="Bern") == {"city": "Bern", "degrees": 21}
    assert happened == []
    await again.call("weather", city="Basel")
    assert happened == ["Basel"]
    (call, _) = recall(store, on.recorder.id).calls
    assert (call.tool, call.arguments, call.changes, call.error) == ("weather", {"city": "Bern"}, False, "")


async def test_a_tool_that_fails_is_recorded_as_that() -> None:
    store = MemoryStore()
    on = equipped(store)
    with pytest.raises(RunError, match="out of order"):
        await on.call("broken")
    (fact,) = store.facts(Query(kind="call"))
    assert "out of order" in fact.body["error"]


async def test_an_unknown_tool_is_told_with_the_known_ones() -> None:
    with pytest.raises(RunError, match="found no tool 'fly'; expected one of: weather, refund, broken"):
        await equipped(MemoryStore()).call("fly")


async def test_what_is_forbidden_does_not_happen() -> None:
    with pytest.raises(ActionForbidden, match="refund"):
        await equipped(MemoryStore(), rules={"never": ["refund"]}).call("refund", order="7")
    assert happened == []


@pytest.mark.parametrize("said", [True, False, None])
async def test_what_needs_confirmation_happens_only_if_a_person_says_yes(said: bool | None) -> None:
    async def person(action: str, because: str) -> bool:
        assert action == "refund"
        assert because
        return bool(said)

    store = MemoryStore()
    on = equipped(store, confirm=None if said is None else person, rules={"confirm": ["refund"]})
    if said:
        assert await on.call("refund", order="7") == "refunded"
    else:
        with pytest.raises(ActionForbidden, match="nobody confirmed"):
            await on.call("refund", order="7")
    assert happened == (["7"] if said else [])
    (decision,) = on.recorder.decisions
    assert (decision.point, decision.action) == ("confirm refund", "yes" if said else "no")


async def test_a_rule_holds_for_what_it_names_also_if_that_says_it_only_looks() -> None:
    with pytest.raises(ActionForbidden, match="never: weather"):
        await equipped(MemoryStore(), rules={"never": ["weather"]}).call("weather", city="Bern")
    with pytest.raises(ActionForbidden, match="nobody confirmed"):
        await equipped(MemoryStore(), rules={"confirm": ["weather"]}).call("weather", city="Bern")
    assert happened == []


async def test_a_program_that_is_sure_says_so_and_that_is_recorded() -> None:
    rules = {"prefer_confirm": ["refund"], "confirm_below": 0.6}
    on = equipped(MemoryStore(), rules=rules)
    assert await on.call("refund", 0.9, order="7") == "refunded"
    for unsure in (None, 0.5, float("inf"), 7, True, "0.9"):
        with pytest.raises(ActionForbidden, match="nobody confirmed"):
            await on.call("refund", unsure, order="8")
    assert happened == ["7"]
    (sure, *_) = on.recorder.decisions
    assert (sure.point, sure.action, sure.confidence) == ("may refund", "allowed", 0.9)


async def test_decisions_remarks_time_and_chance_are_the_same_again() -> None:
    store = MemoryStore()
    on = equipped(store)
    await on.recorder.start()

    async def act(stage: Stage) -> list[Any]:
        said = await stage.decide("label", "spam", because="many links", propensity=0.5, confidence=0.9)
        await stage.log("half way", done=1)
        return [said, await stage.now(), await stage.now(), await stage.random(), await stage.random()]

    first = await act(on)
    assert first[1] <= first[2]
    assert first[3] != first[4]
    again = equipped(store, resume=on.recorder.id)
    assert await act(again) == first
    assert await again.random() not in first
    assert store.kinds() == {"start": 1, "decision": 1, "remark": 1, "reading": 5}
    (decision,) = recall(store, on.recorder.id).decisions
    assert (decision.because, decision.propensity, decision.confidence) == ("many links", 0.5, 0.9)


async def test_searching_is_calling_the_tool_of_that_name() -> None:
    with pytest.raises(RunError, match="found no tool 'search'"):
        await equipped(MemoryStore()).search("pumps")


# Roles that name no model


def routed(store: MemoryStore, *, resume: str = "", **role: Any) -> Stage:
    playbook = Playbook.from_document({"roles": {"writer": role}})
    cards = {
        "sharp": {"use": "scripted", "args": {"replies": {".": "sharp"}}, "skill": {"reasoning": 0.9}},
        "blunt": {"use": "scripted", "args": {"replies": {".": "blunt"}}, "can": ["drawing"]},
    }
    journal = Journal(store)
    if resume:
        recorder = Recorder.resume(journal, resume, by="ada")
    else:
        recorder = Recorder(journal, RunStart(playbook.digest, {}, seed=7, models={}), by="ada")
    models = Registry(cards)
    return Stage(playbook, models.__getitem__, recorder, StageOptions(router=lambda: Router(models)))


async def test_a_role_that_says_what_it_needs_is_given_a_model_that_can() -> None:
    store = MemoryStore()
    turn = await routed(store, needs=["reasoning"]).ask("writer", "Why?")
    assert (turn.model, turn.text) == ("sharp", "sharp")
    (fact,) = store.facts(Query(kind="routing"))
    assert (fact.body["model"], fact.body["propensity"], fact.body["step"]) == ("sharp", 1.0, "writer")
    assert {each["model"] for each in fact.body["considered"] if each["rejected"]} == {"blunt"}


async def test_the_choice_is_made_once_also_when_the_run_goes_on() -> None:
    store = MemoryStore()
    on = routed(store, needs=["reasoning"])
    await on.recorder.start()
    await on.ask("writer", "Why?")
    again = routed(store, resume=on.recorder.id, needs=["reasoning"])
    await again.ask("writer", "Why?")
    assert len(list(store.facts(Query(kind="routing")))) == 1


async def test_what_nobody_can_do_is_told_with_everybodys_reason() -> None:
    with pytest.raises(ModelUnavailable, match=r"(?s)blunt.*sharp"):
        await routed(MemoryStore(), needs=["singing"]).ask("writer", "Why?")


async def test_a_preference_is_followed_where_it_fits() -> None:
    turn = await routed(MemoryStore(), prefer="blunt").ask("writer", "Why?")
    assert turn.model == "blunt"


async def test_what_changes_the_world_is_announced_first_and_after_a_crash_named_and_not_repeated() -> None:
    store = MemoryStore()
    on = equipped(store)
    await on.recorder.start()
    await on.call("weather", city="Bern")
    assert "claim" not in store.kinds()
    assert await on.call("refund", order="7") == "refunded"
    (claim,) = store.facts(Query(kind="claim"))
    assert (claim.body["what"], claim.body["arguments"]) == ("refund", {"order": "7"})
    killed = MemoryStore()  # as it was when the refund had begun and nothing more was known
    killed.append(fact for kind in ("start", "claim") for fact in store.facts(Query(kind=kind)))
    again = equipped(killed, resume=on.recorder.id)
    with pytest.raises(RunError, match="refund was started, and its result is unknown"):
        await again.call("refund", order="7")
    assert happened == []
