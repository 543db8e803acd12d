from __future__ import annotations

from typing import Any

import pytest
from variation_samples import demo, sorter

from seedbed.evolution.variation.checks import Limits, child, cut, problems
from seedbed.playbooks.genes import build, flatten, with_genes
from seedbed.playbooks.playbook import Playbook

SYSTEM, PROMPT, DEMOS = "roles.sorter.system", "steps.label.prompt", "demos.label"


def told(parent: Playbook, other: Playbook, *given: Any, **more: Any) -> list[tuple[str, str]]:
    return [(each.path, each.found) for each in problems(parent, other, *given, **more)]


def of(values: dict[str, Any], start: Playbook | None = None, **limits: Any) -> list[tuple[str, str]]:
    """What is wrong with the child that has these genes. One that has problems cannot be made at all."""
    parent = start or sorter()
    found = told(parent, with_genes(parent, values), Limits(**limits))
    assert (child(parent, values, Limits(**limits)) is None) is bool(found)
    return found


@pytest.mark.parametrize(
    "values",
    [
        {SYSTEM: "Sort the message."},
        {PROMPT: "{text}"},
        {PROMPT: "Message: {text}\nAgain: {text}\nAnswer:"},
        {SYSTEM: "Mind:\n- the words\n- the tone"},
        {SYSTEM: "Say one word"},
        {DEMOS: [demo(1), demo(2)]},
        {"roles.sorter.temperature": 1.5, "roles.sorter.model": "strong"},
    ],
)
def test_a_sound_child_has_no_problems(values: dict[str, Any]) -> None:
    assert of(values) == []


# Nothing but genes


def test_an_unchanged_child_is_none() -> None:
    assert told(sorter(), sorter()) == [("child", "nothing changed")]
    assert told(sorter(), sorter(meta={"by": "ada"})) == [("child", "nothing changed")]
    assert child(sorter(), {SYSTEM: "Read the message. Name its mood."}) is None
    assert child(sorter(), {}) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("rules.never", []),
        ("rules.never", ["delete_message", "send"]),
        ("rules.confirm", ["send"]),
        ("locked", ["roles.*"]),
        ("roles.sorter.max_tokens", 5),
        ("steps.label.quality", "maximum"),
        ("inputs", ["text"]),
    ],
)
def test_rules_locks_and_structure_stay_as_they_are(path: str, value: Any) -> None:
    parent = sorter()
    other = build({**flatten(parent), path: value, SYSTEM: "Sort the message."})
    assert told(parent, other) == [(path, "a change")]


def test_a_locked_gene_stays_as_it_is() -> None:
    parent = sorter(locked=[SYSTEM])
    other = build({**flatten(parent), SYSTEM: "Sort the message."})
    assert told(parent, other) == [(SYSTEM, "a change")]
    assert child(parent, {SYSTEM: "Sort the message."}) is None


def test_a_threshold_of_rules_is_not_lowered() -> None:
    parameters = {"caution": {"value": 0.6, "low": 0, "high": 1}}
    parent = sorter(parameters=parameters, rules={"prefer_confirm": ["send"], "confirm_below": "caution"})
    lower = build({**flatten(parent), "parameters.caution": 0.1})
    assert "parameters.caution" in dict(told(parent, lower))
    assert child(parent, {"parameters.caution": 0.1}) is None
    assert child(parent, {"parameters.caution": 0.7}) is not None


# Placeholders


def test_lost_placeholders_are_found() -> None:
    assert of({PROMPT: "Name the mood."}) == [(PROMPT, "no {text}")]
    assert of({PROMPT: "Name the mood of {{text}}."}) == [(PROMPT, "no {text}")]


def test_placeholders_that_nothing_fills_are_found() -> None:
    assert of({SYSTEM: "Sort {message}."}) == [(SYSTEM, "{message}")]
    assert of({SYSTEM: "Sort {text}."}) == []


def test_a_step_that_is_asked_the_task_itself_is_still_told_the_task() -> None:
    first = {"name": "first", "role": "sorter", "prompt": "{text}"}
    start = sorter(steps=[first, {"name": "label", "role": "sorter", "sees": ["first"]}])
    assert of({PROMPT: "Name the mood."}, start) == [(PROMPT, "a prompt that does not tell the task")]
    assert of({PROMPT: "Name the mood of {text}."}, start) == []


def test_demos_that_the_prompt_cannot_show_are_found() -> None:
    start = sorter(demos={"label": [demo(1)]}, inputs=["text", "topic"])
    assert of({PROMPT: "{topic}: {text}"}, start) == [(DEMOS, "a demo without {topic}")]
    assert of({PROMPT: "{topic}: {text}", DEMOS: []}, start) == []
    assert of({DEMOS: [{"inputs": {"topic": "war"}, "output": "bad"}]}, start) == [(DEMOS, "a demo without {text}")]


# Cut off


@pytest.mark.parametrize(
    "text",
    [
        "Read it. Then name the",
        "Read it. Then name its mood",
        "Read it, name its mood, and",
        "You are someone who reads messages with",
        "Read it:\n```\nmessage",
        "<think>First I should",
        "Read it. </think> Done.",
        "Look at the words,",
    ],
)
def test_a_text_that_was_cut_off_is_found(text: str) -> None:
    assert cut(text)
    assert [path for path, _ in of({SYSTEM: text})] == [SYSTEM]


@pytest.mark.parametrize(
    "text",
    [
        "Read it.",
        "Read it",
        "Read it!\nMood:",
        "Text: {text}",
        "- read\n- name",
        "Mind this.\n- read it\n- name it",
        "```\ncode\n```",
        "Think between <think> and </think>.",
        '他说："好。"',
        "",
        "Sag es auf **Deutsch**.",
    ],
)
def test_a_complete_text_is_not_called_cut_off(text: str) -> None:
    assert cut(text) == ""


def test_a_child_may_end_as_its_parent_does() -> None:
    start = with_genes(sorter(), {SYSTEM: "Read it. Name its mood"})
    assert of({SYSTEM: "Read all of it. Name its mood"}, start) == []


def test_a_tag_that_was_closed_stays_closed() -> None:
    start = with_genes(sorter(), {SYSTEM: "<rules>\nBe brief.\n</rules>\nWrite <label>."})
    assert of({SYSTEM: "<rules>\nBe brief.\nWrite <label>."}, start) == [(SYSTEM, "<rules> without its end")]
    assert of({SYSTEM: "Be brief.\nWrite <label>."}, start) == []


# Size


def test_an_empty_text_is_found() -> None:
    assert of({SYSTEM: " "}) == [(SYSTEM, "an empty text")]


def test_runaway_growth_is_found() -> None:
    grown = "Read the message. Name its mood. " * 4  # 4 times its 32 characters
    assert of({SYSTEM: grown}, growth=3, slack=0) == [(SYSTEM, "132 characters")]
    assert of({SYSTEM: grown}, growth=5, slack=0) == []
    assert of({SYSTEM: grown}, growth=3, slack=40) == []
    assert of({SYSTEM: "Be brief. " * 1000}) == [(SYSTEM, "10,000 characters")]


def test_growth_in_small_steps_is_measured_from_the_start() -> None:
    start, limits = sorter(), Limits(growth=3, slack=0)
    parent = with_genes(start, {SYSTEM: "Read it. " * 10})
    other = with_genes(start, {SYSTEM: "Read it. " * 20})
    assert told(parent, other, limits) == []
    assert told(parent, other, limits, start=start) == [(SYSTEM, "180 characters")]


def test_a_text_that_is_too_long_already_may_shrink() -> None:
    start, limits = sorter(), Limits(growth=1, slack=0, characters=50)
    parent = with_genes(start, {SYSTEM: "Read it. " * 20})
    assert told(parent, with_genes(start, {SYSTEM: "Read it. " * 19}), limits, start=start) == []


def test_all_texts_and_demos_together_have_a_limit() -> None:
    assert of({DEMOS: [demo(n) for n in range(5)]}, characters=100) == [("child", "148 characters")]
    assert of({DEMOS: [demo(n) for n in range(5)]}, characters=148) == []


def test_so_many_demos_and_no_more() -> None:
    assert of({DEMOS: [demo(n) for n in range(3)]}, demos=2) == [(DEMOS, "3 demos")]


def test_values_that_are_no_genes_or_do_not_fit_make_no_child() -> None:
    assert child(sorter(), {"rules.never": []}) is None
    assert child(sorter(), {"roles.nobody.system": "Hi."}) is None
    assert child(sorter(), {"roles.sorter.temperature": 9}) is None
    assert child(sorter(), {DEMOS: [{"inputs": {}}]}) is None
