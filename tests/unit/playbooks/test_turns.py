"""Turns of a mode as steps, and steps as turns."""

from __future__ import annotations

from typing import Any

import pytest
from format_samples import NATIVE, back, document, example

from seedbed.errors import PlaybookError
from seedbed.playbooks.formats import export, import_document
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.playbook import Playbook


def test_turns_become_steps_and_speakers_become_roles() -> None:
    playbook = example("code-review.json").playbook
    steps = {step.name: step for step in playbook.all_steps()}
    assert [len(group) for group in playbook.plan] == [1, 1, 1]
    assert steps["turn_1"].role == steps["turn_3"].role == "first_reader"
    assert playbook.roles["first_reader"].system.endswith("House style: {STYLE_GUIDE}")
    assert playbook.roles["first_reader"].model == "claude"
    second = playbook.roles["second_reader"]
    assert (second.model, second.needs, second.prefer) == ("grok-small", ("reasoning",), "grok")
    assert steps["turn_2"].prompt.startswith("{turn_1.model} read {PATCH} and said:\n{turn_1}")
    assert playbook.needed_inputs == {"PATCH", "STYLE_GUIDE"}


def test_a_turn_sees_its_context_once() -> None:
    steps = {step.name: step for step in example("code-review.json").playbook.all_steps()}
    assert steps["turn_2"].sees == ()  # its template quotes turn_1
    assert steps["turn_3"].sees == ("turn_1", "turn_2")


def test_a_prompt_that_comes_to_quote_what_its_turn_sees_needs_no_second_look() -> None:
    found = example("code-review.json")
    exported = back(found, with_genes(found.playbook, {"steps.turn_3.prompt": "Is {turn_2} right?"}))
    assert exported["prompts"]["turn_3"]["template"] == "Is {turn_2} right?"
    assert exported["prompts"]["turn_3"]["context_from"] == [1, 2]
    assert list(import_document(exported).playbook.all_steps())[2].sees == ("turn_1",)


def test_a_text_that_would_mean_something_else_in_a_mode_is_refused() -> None:
    found = example("code-review.json")
    literally = with_genes(found.playbook, {"steps.turn_1.prompt": "Write <PATCH> in angle brackets."})
    with pytest.raises(PlaybookError, match="what a mode can say") as told:
        back(found, literally)
    assert [problem.path for problem in told.value.problems] == ["steps.turn_1.prompt"]


def test_the_same_role_with_other_settings_is_another_speaker() -> None:
    mode = document("code-review.json")
    mode["prompts"]["turn_3"]["role_instruction"] = "You are tired."
    found = import_document(mode)
    assert [step.role for step in found.playbook.all_steps()] == ["first_reader", "second_reader", "first_reader_2"]
    alike = with_genes(found.playbook, {"roles.first_reader_2.system": found.playbook.roles["first_reader"].system})
    exported = back(found, alike)
    assert [turn["role"] for turn in exported["prompts"].values()] == [
        "first reader",
        "second reader",
        "first_reader_2",
    ]
    assert import_document(exported).playbook == alike


def test_parallel_and_mixed_structures_become_steps_that_run_together() -> None:
    assert [len(group) for group in example("name-jury.json").playbook.plan] == [3]
    assert [len(group) for group in example("launch-plan.json").playbook.plan] == [2, 1, 1]
    mode = document("launch-plan.json")
    del mode["phases"]
    assert import_document(mode).playbook == example("launch-plan.json").playbook


def test_phases_may_hold_their_turns_themselves() -> None:
    mode = document("launch-plan.json")
    prompts = mode.pop("prompts")
    mode["phases"] = [
        {"type": "parallel", "prompts": {name: prompts[name] for name in ("turn_1", "turn_2")}},
        {"type": "dynamic", "instructions": "made up at run time"},
        {"type": "sequential", "prompts": {name: prompts[name] for name in ("turn_3", "turn_4")}},
    ]
    found = import_document(mode)
    assert found.playbook == example("launch-plan.json").playbook
    exported = back(found, with_genes(found.playbook, {"steps.turn_2.prompt": "Who would sue over {topic}?"}))
    mode["phases"][0]["prompts"]["turn_2"] |= {"template": "Who would sue over {topic}?", "context_from": []}
    assert exported == mode


def test_more_turns_may_be_announced_than_written_and_fewer_be_played() -> None:
    mode = document("code-review.json")
    mode["turns"] = 8
    assert len(list(import_document(mode).playbook.all_steps())) == 3
    mode["turns"] = 2
    found = import_document(mode)
    assert [step.name for step in found.playbook.all_steps()] == ["turn_1", "turn_2"]
    assert back(found) == mode


def test_a_turn_that_says_nothing_answers_to_all_before_it() -> None:
    mode = {"name": "bare", "turns": 3, "prompts": {f"turn_{n}": {"role": "voice"} for n in (1, 2, 3)}}
    first, second, third = import_document(mode).playbook.all_steps()
    assert (first.prompt, second.sees, third.sees) == ("{topic}", ("turn_1",), ("turn_1", "turn_2"))


def test_added_removed_and_regrouped_steps_are_written_as_turns() -> None:
    found = example("code-review.json")
    content = found.playbook.content()
    first, second, third = content["steps"]
    check = {"name": "check", "role": "second_reader", "prompt": "Check {PATCH} again."}
    content["steps"] = [{"together": [first, check]}, {**third, "sees": ["turn_1", "check"]}]
    assert second["name"] == "turn_2"
    exported = back(found, Playbook.from_document(content))
    assert list(exported["prompts"]) == ["turn_1", "turn_3", "turn_4"]
    assert exported["structure"] == "mixed"
    assert exported["phases"] == [{"type": "parallel", "turns": [1, 4]}, {"type": "sequential", "turns": [3]}]
    assert exported["prompts"]["turn_3"]["context_from"] == [1, 4]
    assert exported["turns"] == 4
    again = import_document(exported).playbook
    assert [[step.name for step in group] for group in again.plan] == [["turn_1", "turn_4"], ["turn_3"]]


def test_a_native_dialogue_is_written_as_numbered_turns() -> None:
    exported = export(Playbook.from_document(NATIVE["mode"]), "mode", refs=["branches/debate"])
    assert (exported["name"], exported["structure"], exported["turns"]) == ("debate", "mixed", 4)
    assert exported["metadata"] == {"template_variables": ["audience", "question"]}
    assert exported["participants"] == ["fast"]
    assert exported["phases"] == [
        {"type": "sequential", "turns": [1]},
        {"type": "parallel", "turns": [2, 3]},
        {"type": "sequential", "turns": [4]},
    ]
    assert exported["prompts"]["turn_1"] == {
        "role": "proposer",
        "participant": "fast",
        "role_instruction": "Answer <audience>.",
        "template": "<question>",
        "context_from": [],
    }
    assert exported["prompts"]["turn_2"]["template"] == "{turn_1_participant} said {turn_1}"
    assert exported["prompts"]["turn_3"]["template"] == "Is {{answer}} logical?"
    assert exported["prompts"]["turn_4"]["context_from"] == [1, 2, 3]


def adaptive(count: int = 2, **settings: Any) -> dict[str, Any]:
    prompts = {f"turn_{n}": {"role": f"speaker_{n}", "template": f"{{topic}} {n}"} for n in range(1, count + 1)}
    return {"name": "pair", "prompts": prompts, **settings}


@pytest.mark.parametrize(
    ("settings", "rounds"),
    [({}, 3), ({"max_turns": 9}, 4), ({"max_turns": 4}, 2), ({"max_turns": 999}, 50), ({"max_turns": 3}, None)],
)
def test_a_convergence_threshold_repeats_all_turns_for_at_most_max_turns(
    settings: dict[str, Any], rounds: int | None
) -> None:
    *_, last = import_document(adaptive(convergence_threshold=0.85, **settings)).playbook.all_steps()
    assert (last.until and (last.until.back_to, last.until.settled, last.until.at_most)) == (
        rounds and ("turn_1", 0.85, rounds)
    )


def test_max_turns_are_the_first_turns_and_a_threshold_without_rounds_is_told() -> None:
    found = import_document(adaptive(4, convergence_threshold=0.85, max_turns=3))
    assert [step.name for step in found.playbook.all_steps()] == ["turn_1", "turn_2", "turn_3"]
    (warning,) = found.warnings
    assert (warning.path, warning.found) == ("convergence_threshold", "4 turns and max_turns 3")
    assert "max_turns: 8" in warning.remedy


def test_changed_rounds_are_written_as_a_threshold_and_max_turns() -> None:
    found = import_document(adaptive(convergence_threshold=0.85))
    changed = with_genes(found.playbook, {"steps.turn_2.until.at_most": 5, "steps.turn_2.until.settled": 0.9})
    assert back(found, changed) == adaptive(convergence_threshold=0.9, max_turns=10)
    content = found.playbook.content()
    del content["steps"][-1]["until"]
    assert back(found, Playbook.from_document(content)) == adaptive(convergence_threshold=None)


def test_compressed_context_is_a_share_of_the_conversation_so_far() -> None:
    mode = adaptive(4, context_compression="relevant_only")
    mode["prompts"]["turn_1"]["max_tokens"] = 1_000
    mode["prompts"]["turn_3"] |= {"context_from": [1], "context_compression": "none"}
    mode["prompts"]["turn_4"] |= {"context_from": [1, 2], "template": "{turn_3}"}
    *_, third, fourth = import_document(mode).playbook.all_steps()
    assert third.context is None
    assert fourth.context
    assert fourth.context.at_most_tokens == round(0.3 * (1_000 + 500 + 500))


def test_compression_of_what_a_template_quotes_is_told() -> None:
    mode = adaptive(2)
    mode["prompts"]["turn_2"] |= {"template": "{turn_1}", "context_from": [1], "context_compression": "relevant_only"}
    found = import_document(mode)
    assert list(found.playbook.all_steps())[-1].context is None
    assert [problem.path for problem in found.warnings] == ["prompts.turn_2.context_compression"]
