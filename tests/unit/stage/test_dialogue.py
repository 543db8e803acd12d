from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from pydantic import Field

from seedbed.errors import ModelUnavailable, PlaybookError
from seedbed.models.cards import Model
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Turn
from seedbed.runs.run_start import RunStart
from seedbed.settings import Card
from seedbed.spending.ledger import Ledger
from seedbed.stage.dialogue.answers import AnswerText
from seedbed.stage.dialogue.dialogue import dialogue, text_of
from seedbed.stage.stage import Stage, StageOptions
from seedbed.storage.memory import MemoryStore


class Patient(ScriptedChat):
    """A scripted model that lets everybody else in before it answers, and counts who is in at the same time."""

    inside: int = 0
    most: int = 0
    left: list[str] = Field(default_factory=list)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            for _ in range(20):
                await asyncio.sleep(0)
            return self._generate(messages)
        finally:
            self.inside -= 1
            self.left.append(messages[-1].text)


def on_stage(document: dict[str, Any], chat: ScriptedChat, *, limit_usd: float | None = None) -> Stage:
    playbook = Playbook.from_document(document)
    model = Model("fast", Card(use="tests.Scripted", usd_per_million=(1_000_000.0, 1_000_000.0)))
    vars(model)["chat"] = chat
    recorder = Recorder(Journal(MemoryStore()), RunStart("b2:0", {}, seed=1, models={}), by="ada")
    return Stage(playbook, lambda _: model, recorder, StageOptions(ledger=Ledger(limit_usd)))


async def perform(document: dict[str, Any], replies: Any, **task: Any) -> tuple[str, list[Turn]]:
    """The output of a playbook on a script, and the turns it took."""
    stage = on_stage(document, ScriptedChat(replies=replies))
    return await dialogue(task, stage), stage.recorder.turns


def asked(turn: Turn) -> list[tuple[str, str]]:
    return [message for message in turn.messages if message[0] != "system"]


WRITER: dict[str, Any] = {"writer": {"model": "fast"}}


def steps(*given: Any, **more: Any) -> dict[str, Any]:
    """A playbook whose steps all belong to one role."""

    def whole(item: Any) -> Any:
        return {"together": [*map(whole, item)]} if isinstance(item, list) else {"role": "writer", **item}

    return {"roles": WRITER, "steps": [*map(whole, given)], **more}


# Order


async def test_steps_are_performed_in_order_and_the_last_answer_is_the_output() -> None:
    playbook = steps(
        {"name": "one", "prompt": "1 {q}"},
        {"name": "two", "prompt": "2 {one}"},
        {"name": "three", "prompt": "3 {two} {one}"},
    )
    output, turns = await perform(playbook, ["a", "b", "c"], q="why")
    assert output == "c"
    assert [turn.step for turn in turns] == ["one", "two", "three"]
    assert [asked(turn)[-1] for turn in turns] == [("user", "1 why"), ("user", "2 a"), ("user", "3 b a")]


async def test_a_single_role_without_steps_is_asked_the_task_itself() -> None:
    output, turns = await perform(
        {"roles": {"sum-up": {"model": "fast", "system": "Briefly."}}}, ["short"], text="long"
    )
    assert output == "short"
    assert turns[0].messages == (("system", "Briefly."), ("user", "long"))
    assert turns[0].step == "sum_up"


async def test_several_inputs_are_named_in_an_order_that_does_not_depend_on_the_file() -> None:
    _, (one,) = await perform({"roles": WRITER}, ["x"], question="Why?", context="Once.")
    _, (other,) = await perform({"roles": WRITER}, ["x"], context="Once.", question="Why?")
    assert asked(one) == asked(other) == [("user", "context: Once.\nquestion: Why?")]


async def test_a_playbook_with_nothing_to_perform_says_so() -> None:
    with pytest.raises(PlaybookError, match="nothing to perform"):
        await perform({"roles": {"a": {"model": "fast"}, "b": {"model": "fast"}}}, [], q="why")


# Together


TOGETHER = steps(
    {"name": "answer", "prompt": "{q}"},
    [{"name": "facts", "prompt": "facts of {answer}"}, {"name": "logic", "prompt": "logic of {answer}"}],
    {"name": "final", "prompt": "{facts} {logic}"},
)


async def test_steps_of_a_together_block_are_under_way_at_the_same_time() -> None:
    chat = Patient(replies={"facts of": "right", "logic of": "sound", "right sound": "done", "why": "so"})
    stage = on_stage(TOGETHER, chat)
    assert await dialogue({"q": "why"}, stage) == "done"
    assert chat.most == 2


async def test_steps_that_are_not_together_are_never_under_way_at_the_same_time() -> None:
    chat = Patient(replies=["a", "b", "c"])
    stage = on_stage(steps(*({"name": f"s{n}", "prompt": "{q}"} for n in range(3))), chat)
    await dialogue({"q": "why"}, stage)
    assert chat.most == 1


async def test_answers_of_a_together_block_go_to_their_own_steps_whoever_is_quicker() -> None:
    class Slow(Patient):
        async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
            for _ in range(50 if "facts of" in messages[-1].text else 0):
                await asyncio.sleep(0)
            return self._generate(messages)

    stage = on_stage(TOGETHER, Slow(replies={"facts of": "F", "logic of": "L", "F L": "in order", "why": "so"}))
    assert await dialogue({"q": "why"}, stage) == "in order"
    assert [turn.step for turn in stage.recorder.turns] == ["answer", "logic", "facts", "final"]


async def test_the_output_of_a_block_at_the_end_is_that_of_its_last_step() -> None:
    playbook = steps([{"name": "one", "prompt": "1 {q}"}, {"name": "two", "prompt": "2 {q}"}])
    output, _ = await perform(playbook, {"^1": "first", "^2": "second"}, q="why")
    assert output == "second"


class Uneven(Patient):
    """Fails at once whatever begins with 1, and takes its time for the rest."""

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
        if messages[-1].text.startswith("1"):
            raise ModelUnavailable("gone")
        return await super()._agenerate(messages)


async def test_a_step_that_fails_does_not_lose_the_others() -> None:
    stage = on_stage(
        steps([{"name": "one", "prompt": "1 {q}"}, {"name": "two", "prompt": "2 {q}"}]), Uneven(replies={"2": "paid"})
    )
    assert await dialogue({"q": "why"}, stage) == "paid"
    assert [turn.step for turn in stage.recorder.turns] == ["two"]


async def test_only_those_fall_with_a_step_that_need_it_and_the_error_is_that_of_the_first() -> None:
    playbook = steps(
        [{"name": "one", "prompt": "1 {q}"}, {"name": "two", "prompt": "2 {q}"}],
        {"name": "three", "prompt": "3 {two}"},
        {"name": "four", "prompt": "4 {one} {three}"},
    )
    stage = on_stage(playbook, Uneven(replies={"2": "paid", "3": "paid too"}))
    heard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    with pytest.raises(ModelUnavailable, match="gone"):
        await dialogue({"q": "why"}, stage)
    assert [turn.step for turn in stage.recorder.turns] == ["two", "three"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    gc.collect()
    assert heard == []


async def test_a_slow_step_holds_nobody_who_does_not_need_it() -> None:
    class Slow(Patient):
        async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
            while messages[-1].text.startswith("slow") and len(stage.recorder.turns) < 2:
                await asyncio.sleep(0)
            return self._generate(messages)

    playbook = steps(
        [{"name": "slow", "prompt": "slow {q}"}, {"name": "quick", "prompt": "quick {q}"}],
        {"name": "next", "prompt": "next {quick}"},
        {"name": "last", "prompt": "last {slow} {next}"},
    )
    stage = on_stage(playbook, Slow(replies={"^slow": "S", "^quick": "Q", "^next Q": "N", "^last S N": "done"}))
    assert await dialogue({"q": "why"}, stage) == "done"
    assert [turn.step for turn in stage.recorder.turns] == ["quick", "next", "slow", "last"]


async def test_a_cancelled_dialogue_leaves_nobody_behind() -> None:
    chat = Patient(replies={".": "x"})
    stage = on_stage(TOGETHER, chat)
    task = asyncio.ensure_future(dialogue({"q": "why"}, stage))
    while not chat.inside:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


# Money


async def test_when_the_money_runs_out_the_last_step_concludes_from_what_there_is() -> None:
    playbook = steps(
        {"name": "one", "prompt": "{q}"},
        {"name": "two", "prompt": "{one}" * 40},
        {"name": "three", "prompt": "Conclude.", "sees": ["one", "two"]},
    )
    stage = on_stage(playbook, ScriptedChat(replies=["a" * 8, "concluded"]), limit_usd=400.0)
    assert await dialogue({"q": "why"}, stage) == "concluded"
    assert stage.ledger.refused
    assert [turn.step for turn in stage.recorder.turns] == ["one", "three"]
    assert asked(stage.recorder.turns[-1])[1] == ("user", "two:\n(not answered: the budget was spent)")


# Prompts


async def test_placeholders_are_filled_in_prompts_and_in_the_words_of_roles() -> None:
    playbook = {
        "roles": {"writer": {"model": "fast", "system": "You know {topic}."}},
        "steps": [{"name": "answer", "role": "writer", "prompt": "{topic}: {{topic}} {q} {answer_format}"}],
    }
    _, (turn,) = await perform(playbook, ["x"], topic="law", q="why", answer_format='{"a": 1}')
    assert turn.messages == (("system", "You know law."), ("user", 'law: {topic} why {"a": 1}'))


async def test_text_that_was_filled_in_is_never_expanded_again() -> None:
    playbook = steps({"name": "answer", "prompt": "{question}"}, {"name": "check", "prompt": "Check {answer}"})
    _, turns = await perform(playbook, ["{question} {{x}} {answer.model}", "ok"], question="{answer} {secret}")
    assert asked(turns[0]) == [("user", "{answer} {secret}")]
    assert asked(turns[1]) == [("user", "Check {question} {{x}} {answer.model}")]


async def test_a_prompt_may_name_the_model_of_an_earlier_step() -> None:
    playbook = steps({"name": "answer", "prompt": "{q}"}, {"name": "check", "prompt": "{answer.model} said {answer}"})
    _, turns = await perform(playbook, ["so", "ok"], q="why")
    assert asked(turns[1]) == [("user", "fast said so")]


async def test_every_missing_input_is_told_before_anything_is_asked() -> None:
    stage = on_stage(steps({"name": "answer", "prompt": "{q} {context}"}), ScriptedChat(replies=["never"]))
    with pytest.raises(PlaybookError) as caught:
        await dialogue({"Q": "why"}, stage)
    assert [problem.path for problem in caught.value.problems] == ["{context}", "{q}"]
    assert stage.recorder.turns == []


async def test_a_step_sees_the_earlier_steps_it_names_in_the_order_it_names_them() -> None:
    playbook = steps(
        {"name": "one", "prompt": "{q}"},
        {"name": "two", "prompt": "{q}"},
        {"name": "three", "prompt": "Decide.", "sees": ["two", "one"]},
    )
    _, turns = await perform(playbook, ["a", "b", "c"], q="why")
    assert asked(turns[2]) == [("user", "two:\nb"), ("user", "one:\na"), ("user", "Decide.")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (3, "3"),
        (3.0, "3"),
        (2.5, "2.5"),
        (True, "true"),
        (None, "null"),
        ({"b": [1], "a": "ü"}, '{"a":"ü","b":[1]}'),
    ],
)
async def test_inputs_that_are_not_text_are_told_as_json_so_that_equal_tasks_get_equal_prompts(
    value: Any, text: str
) -> None:
    _, (turn,) = await perform(steps({"name": "answer", "prompt": "<{q}>"}), ["x"], q=value)
    assert asked(turn) == [("user", f"<{text}>")]
    assert text_of(value) == text


# Demos


async def test_demos_are_shown_as_questions_and_answers_before_the_real_question() -> None:
    demos = [{"inputs": {"q": "2+2"}, "output": "4"}, {"inputs": {"q": "{q}"}, "output": "{q}"}]
    _, (turn,) = await perform(steps({"name": "answer", "prompt": "Q: {q}"}, demos={"answer": demos}), ["9"], q="4+5")
    assert asked(turn) == [
        ("user", "Q: 2+2"),
        ("assistant", "4"),
        ("user", "Q: {q}"),
        ("assistant", "{q}"),
        ("user", "Q: 4+5"),
    ]


async def test_demos_of_a_role_without_steps_are_asked_like_its_task() -> None:
    playbook = {"roles": WRITER, "demos": {"writer": [{"inputs": {"b": "2", "a": "1"}, "output": "3"}]}}
    _, (turn,) = await perform(playbook, ["7"], b="4", a="3")
    assert asked(turn) == [("user", "a: 1\nb: 2"), ("assistant", "3"), ("user", "a: 3\nb: 4")]


async def test_demos_belong_to_their_own_step_only() -> None:
    playbook = steps(
        {"name": "one", "prompt": "{q}"},
        {"name": "two", "prompt": "{q}!"},
        demos={"two": [{"inputs": {"q": "x"}, "output": "y"}]},
    )
    _, turns = await perform(playbook, ["a", "b"], q="why")
    assert asked(turns[0]) == [("user", "why")]
    assert asked(turns[1]) == [("user", "x!"), ("assistant", "y"), ("user", "why!")]


async def test_a_demo_that_leaves_a_placeholder_empty_is_told_by_its_place() -> None:
    playbook = steps(
        {"name": "one", "prompt": "{q}"},
        {"name": "two", "prompt": "{q} {one} {one.model}"},
        demos={"two": [{"inputs": {"q": "x", "one": "1"}, "output": "y"}]},
    )
    with pytest.raises(PlaybookError, match=r"demos\.two\[0\]\.inputs: found q, one; expected .*\{one\.model\}"):
        await perform(playbook, ["a", "b"], q="why")


# Until


def until(agreement: float, at_most: int) -> dict[str, Any]:
    step = {"name": "answer", "prompt": "{q}", "until": {"agreement": agreement, "at_most": at_most}}
    return steps({"name": "seen", "prompt": "look"}, {**step, "sees": ["seen"]})


async def test_a_step_is_repeated_until_two_answers_agree() -> None:
    replies = ["seen", "red green", "red blue", "red blue", "never asked"]
    output, turns = await perform(until(1.0, 9), replies, q="why")
    assert output == "red blue"
    assert [turn.text for turn in turns[1:]] == ["red green", "red blue", "red blue"]


async def test_agreement_is_how_alike_two_answers_are() -> None:
    replies = ["seen", "The red door is open.", "The blue door is open.", "The blue door is open.", "never asked"]
    alike = AnswerText(replies[1]).like(AnswerText(replies[2]))
    _, turns = await perform(until(alike, 9), replies, q="why")
    assert len(turns) == 3
    _, turns = await perform(until(alike + 0.01, 9), replies, q="why")
    assert len(turns) == 4


async def test_a_round_that_fails_leaves_what_the_one_before_it_came_to() -> None:
    output, turns = await perform(until(1.0, 9), ["seen", "red", "blue"], q="why")
    assert output == "blue"
    assert len(turns) == 3


async def test_a_first_round_that_fails_is_a_failure() -> None:
    with pytest.raises(ModelUnavailable, match="the script is over"):
        await perform(until(1.0, 9), ["seen"], q="why")


async def test_without_agreement_a_step_ends_at_its_cap_with_its_last_answer() -> None:
    output, turns = await perform(until(1.0, 3), ["seen", "a", "b", "c", "never asked"], q="why")
    assert output == "c"
    assert len(turns) == 4


async def test_a_cap_of_one_asks_once() -> None:
    document = until(0.0, 2)
    document["steps"][-1]["until"] = {"at_most": 1}
    output, turns = await perform(document, ["seen", "a"], q="why")
    assert (output, len(turns)) == ("a", 2)


async def test_each_repetition_sees_the_question_and_the_answers_before_it_in_turn() -> None:
    _, turns = await perform(until(1.0, 3), ["s", "a", "b", "c"], q="why")
    seen = ("user", "seen:\ns")
    assert asked(turns[1]) == [seen, ("user", "why")]
    assert asked(turns[3]) == [
        seen,
        ("user", "why"),
        ("assistant", "a"),
        ("user", "why"),
        ("assistant", "b"),
        ("user", "why"),
    ]
