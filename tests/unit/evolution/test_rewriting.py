from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from variation_samples import search, sorter

from seedbed.errors import BudgetSpent
from seedbed.evolution.protocols import Performs
from seedbed.evolution.variation.checks import problems
from seedbed.evolution.variation.rewriting import (
    MANNERS,
    answered,
    cleaned,
    difference,
    paraphrase,
    persona,
    rewriters,
    summary,
)
from seedbed.playbooks.genes import get, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace

SYSTEM, PROMPT = "roles.sorter.system", "steps.label.prompt"


class Asked:
    """Performs what an operator asks in a real workspace, and remembers what that was."""

    def __init__(self, answer: str, **args: Any) -> None:
        editor = {"use": "scripted", "args": {"replies": {"(?s).": answer}, **args}}
        self.space = Workspace(Settings(by="ada", models={"editor": editor}), MemoryStore())
        self.names: list[str] = []
        self.runs: list[Run] = []

    async def __call__(self, name: str, playbook: Playbook, inputs: Mapping[str, Any]) -> Run:
        self.names.append(name)
        self.runs.append(await self.space.run(playbook, **inputs))
        return self.runs[-1]

    @property
    def prompt(self) -> str:
        return self.runs[-1].turns[-1].messages[-1][1]


async def made(
    operator: Any, asked: Performs | None, *mates: Playbook, parent: Playbook | None = None, event: str = "1"
) -> Playbook | None:
    start = parent or sorter()
    child: Playbook | None = await operator(start, mates, search(start, perform=asked), event)
    return child


# The text in an answer


@pytest.mark.parametrize(
    "answer",
    [
        "Sort the message.",
        "  Sort the message.\n",
        "<text>Sort the message.</text>",
        "Sure!\n<text>\nSort the message.\n</text>\nI made it shorter.",
        "<text>a draft</text> no: <text>Sort the message.</text>",
        "<think>Let me <text>see</text>.</think>\nSort the message.",
        "I should be brief.</think>\nSort the message.",
        "```\nSort the message.\n```",
        "```text\nSort the message.```",
        '"Sort the message."',
        "“Sort the message.”",
        "Here is the edited text:\n\nSort the message.",
        "Sure, here it is:\n```\nSort the message.\n```",
    ],
)
def test_what_models_put_around_a_text_is_taken_off(answer: str) -> None:
    assert cleaned(answer) == "Sort the message."


@pytest.mark.parametrize(
    "answer", ["", "  ", "<text></text>", "<text>Sort the", "it.</text>", "```\n```", "<think>a</think>"]
)
def test_an_answer_without_a_whole_text_is_none(answer: str) -> None:
    assert not cleaned(answer)


@pytest.mark.parametrize(
    "text",
    [
        "Think between <think> and </think>.",
        '"Yes" or "no".',
        "Say:\n```\nyes\n```",
        '"Yes" means "no"',
        "Here is what counts: words.",
        "It's 'so'",
    ],
)
def test_what_belongs_to_a_text_stays(text: str) -> None:
    assert cleaned(text) == text


# Paraphrase


async def test_a_paraphrase_is_the_model_s_text_in_one_gene() -> None:
    asked = Asked("<text>Sort the message by mood.</text>")
    child = await made(paraphrase(SYSTEM, "editor"), asked)
    assert child == with_genes(sorter(), {SYSTEM: "Sort the message by mood."})
    assert asked.prompt.endswith("Read the message. Name its mood.")
    assert asked.runs[0].turns[0].model == "editor"


async def test_the_manner_is_drawn_by_the_event_so_that_texts_differ() -> None:
    asked = Asked("Sort it.")
    for n in range(30):
        await made(paraphrase(SYSTEM, "editor"), asked, event=str(n))
    assert {manner for manner in MANNERS for run in asked.runs if run.inputs["manner"] == manner} == {*MANNERS}
    again = Asked("Sort it.")
    await made(paraphrase(SYSTEM, "editor"), again, event="0")
    assert again.runs[0].inputs == asked.runs[0].inputs


async def test_each_event_is_performed_under_a_name_of_its_own() -> None:
    asked = Asked("Sort it.")
    for operator in (paraphrase(SYSTEM, "editor"), paraphrase(PROMPT, "editor"), summary(SYSTEM, "editor")):
        for event in ("1", "2"):
            await made(operator, asked, event=event)
    assert len(set(asked.names)) == 6


async def test_a_placeholder_is_told_as_it_is_and_must_come_back() -> None:
    asked = Asked("Say the mood of: {text}")
    child = await made(paraphrase(PROMPT, "editor"), asked)
    assert child
    assert get(child, PROMPT) == "Say the mood of: {text}"
    assert "Message: {text}" in asked.prompt
    assert await made(paraphrase(PROMPT, "editor"), Asked("Say the mood of the text.")) is None
    assert await made(paraphrase(PROMPT, "editor"), Asked("Say the mood of {text} and {more}.")) is None


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "<text></text>",
        "<think>What could I",
        "Read it. Then name the",
        "Read the message. Name its mood.",
        "Mind each word. " * 500,
    ],
)
async def test_an_unusable_answer_makes_no_child(answer: str) -> None:
    assert await made(paraphrase(SYSTEM, "editor"), Asked(answer)) is None


async def test_an_answer_that_was_cut_off_makes_no_child() -> None:
    asked = Asked("Sort it. Mind each word. Be sure.", max_tokens=5)
    assert await made(paraphrase(SYSTEM, "editor"), asked) is None
    assert answered(asked.runs[0]) is None
    assert asked.runs[0].output == "Sort it. Mind each word."


async def test_a_locked_or_missing_gene_is_not_asked_about() -> None:
    asked = Asked("Sort it.")
    for operator in rewriters(sorter(), "editor"):
        assert await made(operator, asked, parent=sorter(locked=["*"])) is None
    assert await made(paraphrase("roles.nobody.system", "editor"), asked) is None
    assert await made(paraphrase("roles.sorter.temperature", "editor"), asked) is None
    assert asked.names == []


async def test_without_somebody_to_perform_there_is_no_child() -> None:
    assert await made(paraphrase(SYSTEM, "editor"), None) is None


async def test_a_spent_budget_is_told() -> None:
    async def spent(name: str, playbook: Playbook, inputs: Mapping[str, Any]) -> Run:
        raise BudgetSpent("nothing left")

    with pytest.raises(BudgetSpent):
        await made(paraphrase(SYSTEM, "editor"), spent)


# Summarise


async def test_a_summary_is_shorter() -> None:
    child = await made(summary(SYSTEM, "editor"), Asked("Name the mood."))
    assert child
    assert get(child, SYSTEM) == "Name the mood."
    longer = Asked("Read the whole message. Name the mood that it has.")
    assert await made(summary(SYSTEM, "editor"), longer) is None


# Persona


async def test_a_persona_comes_first_and_takes_the_place_of_another() -> None:
    first = await made(persona(SYSTEM, "editor"), Asked('"You are a patient reader."'))
    assert first
    assert get(first, SYSTEM) == "You are a patient reader. Read the message. Name its mood."
    second = await made(persona(SYSTEM, "editor"), Asked("You are a critic."), parent=first)
    assert second
    assert get(second, SYSTEM) == "You are a critic. Read the message. Name its mood."


@pytest.mark.parametrize("answer", ["A patient reader.", "You are a reader. Read the message!", "I am a reader."])
async def test_what_is_no_persona_is_not_used(answer: str) -> None:
    assert await made(persona(SYSTEM, "editor"), Asked(answer)) is None


async def test_a_role_without_instructions_can_get_a_persona() -> None:
    start = sorter(roles={"sorter": {"model": "fast"}})
    (operator,) = [each for each in rewriters(start, "editor") if each.name.endswith(SYSTEM)]
    child = await made(operator, Asked("You are a reader."), parent=start)
    assert child
    assert get(child, SYSTEM) == "You are a reader."


# Only what differs


async def test_the_model_is_told_only_what_differs_between_the_mates() -> None:
    one, two = (
        with_genes(sorter(), {SYSTEM: text}) for text in ("Read it. Be kind. End.", "Read it. Be strict. Mind. End.")
    )
    asked = Asked("<text>Read the message. Be fair. Name its mood.</text>")
    child = await made(difference(SYSTEM, "editor"), asked, one, two)
    assert child == with_genes(sorter(), {SYSTEM: "Read the message. Be fair. Name its mood."})
    assert asked.runs[0].inputs == {
        "text": "Read the message. Name its mood.",
        "first": "Be kind.",
        "second": "Be strict.\nMind.",
    }


async def test_two_mates_that_differ_are_needed() -> None:
    asked, other = Asked("Sort it."), with_genes(sorter(), {SYSTEM: "Be kind."})
    for mates in ([], [other], [other, other]):
        assert await made(difference(SYSTEM, "editor"), asked, *mates) is None
    assert asked.names == []


# All of them


def test_there_is_one_of_each_for_every_text_with_words() -> None:
    start = sorter(parameters={"tone": "warm"})
    assert [each.name for each in rewriters(start, "editor")] == [
        f"{what} {path}"
        for path in (SYSTEM, PROMPT)
        for what in ("paraphrase", "summarise", "change what differs in", "give a persona to")
        if path == SYSTEM or "persona" not in what
    ]
    assert rewriters(sorter(locked=["*"]), "editor") == []


async def test_whatever_a_model_says_children_are_sound() -> None:
    rng = random.Random(1)
    pieces = [
        "{text}",
        "{other}",
        "<text>",
        "</text>",
        "```",
        "<think>",
        "Sort it.",
        "and the",
        "\n",
        '"',
        "You are kind.",
    ]
    mates = [with_genes(sorter(), {SYSTEM: text, PROMPT: f"{text} {{text}}"}) for text in ("Be kind.", "Be brief.")]
    children = 0
    for n in range(60):
        asked = Asked(" ".join(rng.choices(pieces, k=rng.randint(1, 6))))
        for operator in rewriters(sorter(), "editor"):
            child = await made(operator, asked, *mates, event=str(n))
            if child:
                children += 1
                assert problems(sorter(), child) == []
    assert children > 10
