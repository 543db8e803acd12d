from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from seedbed.runs.run import Decision, Run, Turn

TURN = Turn(
    step="answer",
    role="writer",
    model="fast",
    messages=(("system", "Be brief."), ("user", "Why?")),
    text="Because.\u2028✓",
    prompt_tokens=5,
    completion_tokens=2,
    cost_usd=0.25,
    latency_seconds=0.5,
    finish_reason="stop",
    seed=7,
)


def run(**changed: Any) -> Run:
    told: dict[str, Any] = {
        "id": "r",
        "playbook": "b2:00",
        "inputs": {"question": "Why?"},
        "seed": 7,
        "started": datetime(2026, 1, 1, tzinfo=UTC),
        "status": "completed",
        "output": "Because.",
        "error": "",
        "turns": (TURN,),
        "tokens": 7,
        "cost_usd": 0.25,
        "latency_seconds": 1.0,
        "models": {},
    }
    return Run(**{**told, **changed})


def test_a_turn_comes_back_equal_from_its_body_even_through_json() -> None:
    assert Turn.from_body(TURN.body()) == TURN
    assert Turn.from_body(json.loads(json.dumps(TURN.body()))) == TURN


def test_what_happened_cannot_be_changed() -> None:
    for thing, name in ((TURN, "text"), (run(), "output")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, "something else")


def test_altering_a_body_does_not_alter_the_turn() -> None:
    body = TURN.body()
    body["messages"][0][1] = "Be long."
    assert TURN.messages[0] == ("system", "Be brief.")


def test_a_run_says_at_which_turn_its_last_loop_converged() -> None:
    turns = tuple(replace(TURN, step=step) for step in ("draft", "review", "draft", "review", "final"))
    rule, action = "each at least 0.90 like the one before, 0.85 asked for, after 2 of at most 3 rounds", "converged"
    decision = Decision(point="review until", action=action, because=rule)
    done = run(turns=turns, decisions=(Decision(point="may pay", action="allowed", because="no rule"), decision))
    assert (done.status, done.converged_at, done.ending) == ("completed", 4, "converged at turn 4")
    assert json.loads(done.to_json())["converged_at"] == 4
    assert "converged at turn 4" in repr(done)
    for other in (replace(decision, action="stalled"), replace(decision, because="all 3 rounds planned were done")):
        assert run(turns=turns, decisions=(other,)).converged_at is None
    assert run(turns=turns).ending == "completed"
    together = tuple(replace(TURN, step=step) for step in ("case", "review", "draft", "review", "draft", "final"))
    assert run(turns=together, decisions=(decision,)).converged_at == 5
