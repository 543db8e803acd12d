"""Dialogues that have come to an end are stopped, and few that have not; benchmarks/adaptation.py has figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seedbed.playbooks.conditions import Until
from seedbed.stage.dialogue.adaptation import Convergence, assess

LABELLED = Path(__file__).parent / "labelled" / "dialogues.jsonl"
TALK: dict[str, Any] = {"any": [{"agreement": 0.5, "stable": 2}, {"stable": 4}]}
ALONE: dict[str, Any] = {"settled": 0.75, "rounds": 2}


def stopped(dialogue: dict[str, Any]) -> tuple[int, Convergence]:
    """After how many rounds the recommended rule ends it."""
    rounds = dialogue["rounds"]
    rule = {**(TALK if len(rounds[0]) > 1 else ALONE), "at_most": len(rounds)}
    until = Until.model_validate_json(json.dumps(rule))
    ends = ((end, assess(until, rounds[:end])) for end in range(1, len(rounds) + 1))
    return next((end, now) for end, now in ends if now.outcome != "going on")


@pytest.fixture(scope="module")
def ends() -> list[tuple[dict[str, Any], int, str]]:
    """The dialogues that nothing was chosen on."""
    dialogues = [json.loads(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]
    tested = [(each, *stopped(each)) for each in dialogues if each["half"] == "test"]
    assert len(tested) >= 30
    return [(dialogue, end, now.outcome) for dialogue, end, now in tested]


def test_at_least_30_percent_of_the_turns_are_saved(ends: list[tuple[dict[str, Any], int, str]]) -> None:
    turns = sum(len(dialogue["rounds"]) * len(dialogue["rounds"][0]) for dialogue, _, _ in ends)
    taken = sum(end * len(dialogue["rounds"][0]) for dialogue, end, _ in ends)
    assert 1 - taken / turns >= 0.3


def test_few_are_stopped_while_something_still_changes(ends: list[tuple[dict[str, Any], int, str]]) -> None:
    early = [
        dialogue["name"]
        for dialogue, end, outcome in ends
        if end < len(dialogue["rounds"])
        and not (dialogue["outcome"] == outcome == "oscillating")
        and (dialogue["settled"] is None or end < dialogue["settled"])
    ]
    assert len(early) <= 0.15 * len(ends), early


def test_the_end_is_called_what_it_is(ends: list[tuple[dict[str, Any], int, str]]) -> None:
    wrong = [
        (dialogue["name"], outcome)
        for dialogue, _, outcome in ends
        if outcome != {"going on": "stalled"}.get(dialogue["outcome"], dialogue["outcome"])
    ]
    assert len(wrong) <= 0.2 * len(ends), wrong


def test_no_dialogue_that_changes_to_the_end_is_cut_short(ends: list[tuple[dict[str, Any], int, str]]) -> None:
    cut = [
        dialogue["name"]
        for dialogue, end, _ in ends
        if dialogue["outcome"] == "going on" and end < len(dialogue["rounds"])
    ]
    assert not cut
