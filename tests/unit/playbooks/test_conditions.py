"""Conditions and stop rules of a playbook: what they may say, and that they are part of its content."""

from __future__ import annotations

from typing import Any

import pytest

from seedbed.errors import PlaybookError
from seedbed.playbooks.genes import build, flatten, genes, with_genes
from seedbed.playbooks.playbook import Playbook

ROLES = {"for": {"model": "fast"}}

LOOP: dict[str, Any] = {
    "inputs": ["q"],
    "roles": ROLES,
    "steps": [
        {"name": "draft", "role": "for", "prompt": "{q}", "opens": {"input": "q", "depth": 2}},
        {
            "name": "review",
            "role": "for",
            "prompt": "{draft}",
            "sees": ["draft"],
            "context": {"at_most_tokens": 200},
            "until": {
                "back_to": "draft",
                "settled": 0.9,
                "any": [{"stable": 2}, {"all": [{"step": "draft", "says": "done"}, {"at_least": 8}]}],
                "at_most": 5,
            },
        },
        {"name": "end", "role": "for", "prompt": "!", "when": {"any": [{"step": "review", "below": 8}]}},
    ],
}


def test_rules_are_content_and_survive_every_form_of_it() -> None:
    playbook = Playbook.from_document(LOOP)
    assert playbook.content() == LOOP
    assert Playbook.from_document(playbook.document()) == playbook
    assert build(flatten(playbook)) == playbook
    other = {**LOOP, "steps": [*LOOP["steps"][:2], {**LOOP["steps"][2], "when": {"step": "review", "below": 7}}]}
    assert Playbook.from_document(other) != playbook


def test_how_settled_answers_must_be_and_how_often_they_are_asked_for_may_evolve() -> None:
    playbook = Playbook.from_document(LOOP)
    assert {path for path in genes(playbook) if "until" in path} == {
        "steps.review.until.settled",
        "steps.review.until.at_most",
    }
    changed = with_genes(playbook, {"steps.review.until.settled": 0.8})
    assert changed.content()["steps"][1]["until"]["settled"] == 0.8


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"until": {"back_to": "later"}}, r'until\.back_to: found "later"; expected a step up to this one: a, b'),
        ({"until": {"step": "a", "says": "x"}}, r'until\.step: found "a"; expected a step of the round: b'),
        ({"until": {"back_to": "a", "any": [{"step": "c", "says": "x"}]}}, r'until\.any\[0\]\.step: found "c"'),
        ({"when": {"says": "x"}}, r"when: found no step; expected the step it is about: a"),
        ({"when": {"step": "b", "says": "x"}}, r'when\.step: found "b"; expected an earlier step: a'),
        ({"when": {"step": "a"}}, r'when: found step "a" and nothing about it; expected says, lacks'),
        ({"when": {"step": "a", "sais": "x"}}, r"when\.sais: found an unknown key.*Did you mean says\?"),
        ({"context": {"at_most_tokens": 100}}, r"context: found nothing to shorten"),
        ({"context": {"at_most_tokens": 100, "summary": "nobody"}, "sees": ["a"]}, r'context\.summary: found "nobody"'),
        ({"opens": {"input": "topic"}}, r'opens\.input: found "topic"; expected one of the inputs: q'),
        ({"when": {"all": [{"step": "a", "says": "x"}, {"says": "y"}]}}, r"when\.all\[1\]: found no step"),
        ({"when": {"says": "y", "any": [{"step": "a", "says": "x"}]}}, r"when: found no step"),
        ({"until": {"stable": 5, "at_most": 3}}, r"until: found a rule that can hold after round 5, and at_most 3"),
        (
            {"until": {"stable": 4}},
            r"until: found a rule that can hold after round 4, and at_most 3; expected at_most 4",
        ),
        ({"until": {"settled": 0.9, "rounds": 3}}, r"until: found a rule that can hold after round 4, and at_most 3"),
        ({"until": {"settled": 0.9, "at_most": 1}}, r"until: found a rule that can hold after round 2, and at_most 1"),
        ({"until": {"agreement": 0.9, "at_most": 1}}, r"until: found a rule that can hold after round 2"),
        ({"until": {"any": [{"says": "x"}, {"stable": 5}]}}, r"until\.any\[1\]: found a rule that can hold after"),
        ({"opens": {"input": "q", "playbook": "versions/x"}}, r'opens\.playbook: found "versions/x"'),
    ],
)
def test_what_cannot_be_meant_is_said_with_its_place(change: dict[str, Any], told: str) -> None:
    steps = [{"name": name, "role": "for", "prompt": "{q}"} for name in "abc"]
    document = {"inputs": ["q"], "roles": ROLES, "steps": [steps[0], {**steps[1], **change}, steps[2]]}
    with pytest.raises(PlaybookError, match=told):
        Playbook.from_document(document)


@pytest.mark.parametrize(
    "change",
    [
        {"when": {"step": "a", "any": [{"says": "x"}, {"says": "y"}]}},
        {"when": {"step": "a", "says": "x", "all": [{"any": [{"below": 3}]}]}},
        {"until": {"back_to": "a", "agreement": 0.9, "at_most": 1}},  # of two, in the first round
        {"until": {"settled": 0.9, "rounds": 2, "at_most": 3}},
        {"until": {"at_most": 1}},
    ],
)
def test_what_can_be_meant_is_accepted(change: dict[str, Any]) -> None:
    steps = [{"name": name, "role": "for", "prompt": "{q}"} for name in "ab"]
    Playbook.from_document({"inputs": ["q"], "roles": ROLES, "steps": [steps[0], {**steps[1], **change}]})


def test_to_open_dialogues_on_what_no_prompt_names_is_a_mistake() -> None:
    step: dict[str, Any] = {"name": "plan", "role": "for", "prompt": "{q}", "opens": {"input": "topic"}}
    told = r'opens\.input: found "topic", which no prompt names; expected an input. Write \{topic\} where'
    with pytest.raises(PlaybookError, match=told):
        Playbook.from_document({"roles": ROLES, "steps": [step]})
    whole = {"name": "end", "role": "for", "sees": ["plan"]}  # is told the whole task
    for steps in ([{**step, "prompt": "{topic}"}], [step, whole]):
        Playbook.from_document({"roles": ROLES, "steps": steps})
    elsewhere = {**step, "opens": {"input": "topic", "playbook": "b2:" + "0" * 64}}
    Playbook.from_document({"roles": ROLES, "steps": [elsewhere]})


def test_loops_that_cut_into_each_other_are_a_mistake() -> None:
    steps = [{"name": name, "role": "for", "prompt": "x"} for name in "abcd"]
    steps[2]["until"] = {"back_to": "a"}
    steps[3]["until"] = {"back_to": "b"}
    with pytest.raises(PlaybookError, match="overlaps with that of c"):
        Playbook.from_document({"roles": ROLES, "steps": steps})
