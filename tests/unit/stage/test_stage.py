from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from seedbed.errors import ModelUnavailable, PlaybookError, SettingsError
from seedbed.models.chat import Message
from seedbed.models.registry import Registry
from seedbed.models.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.recorder import Recorder
from seedbed.stage.stage import Stage
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
    recorder = Recorder(store or MemoryStore(), playbook.digest, {}, seed=seed, by="ada", models={})
    return Stage(playbook, Registry(cards).__getitem__, recorder, seed)


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
    assert given == {"seed": 7, "stop": None}


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
    assert [fact.body for fact in store.facts(Query(kind="turn"))] == [turn.body()]


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
