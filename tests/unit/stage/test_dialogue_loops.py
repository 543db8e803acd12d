"""Rounds of several speakers, steps that are taken only sometimes, and contexts that are cut to size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from seedbed.models.cards import Model
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run_start import RunStart
from seedbed.settings import Card
from seedbed.spending.ledger import Ledger
from seedbed.stage.dialogue.dialogue import dialogue
from seedbed.stage.stage import Stage, StageOptions
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

DEBATE: dict[str, Any] = {
    "roles": {"for": {"model": "fast", "system": "FOR"}, "against": {"model": "fast", "system": "AGAINST"}},
    "steps": [
        {"name": "topic", "role": "for", "prompt": "name it"},
        {"name": "pro", "role": "for", "prompt": "speak for {topic}"},
        {
            "name": "con",
            "role": "against",
            "prompt": "answer {pro}",
            "until": {"back_to": "pro", "settled": 1.0, "at_most": 4},
        },
        {"name": "end", "role": "for", "prompt": "so: {pro} / {con}"},
    ],
}


def on_stage(document: dict[str, Any], replies: Any, *, limit_usd: float | None = None) -> Stage:
    model = Model("fast", Card(use="tests.Scripted", usd_per_million=(1_000_000.0, 1_000_000.0)))
    vars(model)["chat"] = ScriptedChat(replies=replies)
    recorder = Recorder(Journal(MemoryStore()), RunStart("b2:0", {}, seed=1, models={}), by="ada")
    return Stage(Playbook.from_document(document), lambda _: model, recorder, StageOptions(ledger=Ledger(limit_usd)))


def spoken(stage: Stage) -> list[tuple[str, str]]:
    return [(turn.step, turn.text) for turn in stage.recorder.turns]


def decided(stage: Stage) -> list[tuple[str, str]]:
    return [(each.point, each.action) for each in stage.recorder.decisions]


# Rounds


async def test_a_round_of_several_steps_is_repeated_until_all_have_settled() -> None:
    stage = on_stage(DEBATE, ["tea", "p1", "c1", "p2", "c2", "p2", "c2", "the end"])
    assert await dialogue({}, stage) == "the end"
    assert [step for step, _ in spoken(stage)] == ["topic", "pro", "con", "pro", "con", "pro", "con", "end"]
    assert stage.recorder.turns[-1].messages[-1] == ("user", "so: p2 / c2")
    assert decided(stage) == [("con until", "converged")]


async def test_from_the_second_round_on_a_step_hears_what_the_others_said_and_knows_what_it_said() -> None:
    stage = on_stage(DEBATE, ["tea", "p1", "c1", "p2", "c2", "p2", "c2", "the end"])
    await dialogue({}, stage)
    second_pro = stage.recorder.turns[3].messages
    assert second_pro == (
        ("system", "FOR"),
        ("user", "speak for tea"),
        ("assistant", "p1"),
        ("user", "con:\nc1"),
        ("user", "speak for tea"),
    )
    # What its prompt names it is not told twice.
    assert stage.recorder.turns[4].messages[1:] == (("user", "answer p1"), ("assistant", "c1"), ("user", "answer p2"))


async def test_what_was_said_in_earlier_rounds_is_a_prefix_of_what_is_said_in_later_ones() -> None:
    stage = on_stage(DEBATE, ["tea", "p1", "c1", "p2", "c2", "p3", "c3", "p4", "c4", "the end"])
    await dialogue({}, stage)
    rounds = [turn.messages for turn in stage.recorder.turns if turn.step == "pro"]
    assert len(rounds) == 4
    for earlier, later in pairwise(rounds):
        assert later[: len(earlier)] == earlier


async def test_rounds_that_come_to_nothing_end_at_their_limit_and_say_so() -> None:
    stage = on_stage(DEBATE, ["tea", *(f"{who}{n}" for n in range(4) for who in "pc"), "the end"])
    await dialogue({}, stage)
    assert len(stage.recorder.turns) == 10
    assert decided(stage) == [("con until", "stalled")]


async def test_a_later_round_without_money_leaves_the_round_before_it() -> None:
    stage = on_stage(DEBATE, ["tea", *(f"{who}{n}" for n in range(4) for who in "pc"), "the end"], limit_usd=300)
    assert await dialogue({}, stage)
    steps = [step for step, _ in spoken(stage)]
    assert len(steps) < 10
    assert steps[-1] == "end"
    assert stage.ledger.refused


async def test_steps_after_a_loop_wait_for_its_end() -> None:
    document = {
        **DEBATE,
        "steps": [*DEBATE["steps"][:3], {"name": "note", "role": "for", "prompt": "on {pro}"}],
    }
    stage = on_stage(document, ["tea", "p1", "c1", "p2", "c2", "p2", "c2", "noted"])
    await dialogue({}, stage)
    assert spoken(stage)[-1] == ("note", "noted")
    assert stage.recorder.turns[-1].messages[-1] == ("user", "on p2")


async def test_a_round_may_hold_steps_that_stand_together() -> None:
    experts = [{"name": name, "role": "for", "prompt": f"{name}?"} for name in ("ann", "bob")]
    rule = {"back_to": "ann", "settled": 1.0, "at_most": 3}
    document = {
        "roles": DEBATE["roles"],
        "steps": [{"together": experts}, {"name": "chair", "role": "against", "prompt": "{ann} {bob}", "until": rule}],
    }
    stage = on_stage(document, {"ann": "A", "bob": "B", "A B": "both"})
    assert await dialogue({}, stage) == "both"
    assert [step for step, _ in spoken(stage)] == ["ann", "bob", "chair"] * 2


async def test_a_refinement_loop_ends_when_the_reviewer_gives_enough() -> None:
    document = {
        "roles": DEBATE["roles"],
        "steps": [
            {"name": "draft", "role": "for", "prompt": "write"},
            {
                "name": "review",
                "role": "against",
                "prompt": "rate {draft}",
                "until": {"back_to": "draft", "at_least": 8, "at_most": 5},
            },
            {"name": "final", "role": "for", "prompt": "print {draft}"},
        ],
    }
    stage = on_stage(document, ["d1", "Score: 4/10", "d2", "Score: 6/10", "d3", "Score: 8/10", "done"])
    await dialogue({}, stage)
    assert stage.recorder.turns[-1].messages[-1] == ("user", "print d3")
    assert decided(stage) == [("review until", "converged")]


# When


CHECKED: dict[str, Any] = {
    "roles": DEBATE["roles"],
    "steps": [
        {"name": "work", "role": "for", "prompt": "work"},
        {"name": "review", "role": "against", "prompt": "review {work}"},
        {
            "name": "rework",
            "role": "for",
            "prompt": "again, mind {review}",
            "when": {"step": "review", "lacks": "nothing must change"},
        },
        {"name": "final", "role": "for", "prompt": "print", "sees": ["work", "rework"]},
    ],
}


async def test_a_step_is_taken_only_when_its_condition_holds() -> None:
    stage = on_stage(CHECKED, ["w", "Nothing must  change.", "printed"])
    assert await dialogue({}, stage) == "printed"
    assert [step for step, _ in spoken(stage)] == ["work", "review", "final"]
    assert stage.recorder.turns[-1].messages[1:] == (("user", "work:\nw"), ("user", "print"))
    assert decided(stage) == [("rework when", "left out")]

    stage = on_stage(CHECKED, ["w", "Shorter!", "w2", "printed"])
    await dialogue({}, stage)
    assert ("user", "rework:\nw2") in stage.recorder.turns[-1].messages
    assert decided(stage) == [("rework when", "taken")]


async def test_the_output_is_the_last_answer_given_when_the_last_step_is_left_out() -> None:
    document = {**CHECKED, "steps": CHECKED["steps"][:3]}
    stage = on_stage(document, ["w", "nothing must change"])
    assert await dialogue({}, stage) == "nothing must change"


FIXED: dict[str, Any] = {
    "roles": DEBATE["roles"],
    "steps": [
        {"name": "work", "role": "for", "prompt": "work"},
        {"name": "review", "role": "against", "prompt": "review {work}"},
        {"name": "fix", "role": "for", "prompt": "fix", "when": {"step": "review", "below": 8}},
        {
            "name": "check",
            "role": "against",
            "prompt": "check {fix}",
            "until": {"back_to": "review", "step": "check", "says": "fine", "at_most": 4},
        },
        {"name": "end", "role": "for", "prompt": "print {fix}"},
    ],
}


async def test_a_step_that_is_left_out_of_a_later_round_stands_by_what_it_said() -> None:
    stage = on_stage(FIXED, ["w", "5/10", "f1", "no", "9/10", "still no", "9/10", "fine", "printed"])
    assert await dialogue({}, stage) == "printed"
    assert [step for step, _ in spoken(stage)] == [
        *("work", "review", "fix", "check"),
        *("review", "check"),
        *("review", "check"),
        "end",
    ]
    checks = [turn.messages[-1] for turn in stage.recorder.turns if turn.step == "check"]
    assert checks == [("user", "check f1")] * 3
    assert stage.recorder.turns[-1].messages[-1] == ("user", "print f1")


async def test_a_round_that_fails_leaves_what_was_said_before_by_those_who_were_left_out() -> None:
    stage = on_stage(FIXED, ["w", "5/10", "f1", "no", "9/10", "no", "9/10", "no" * 400, "printed"], limit_usd=400)
    await dialogue({}, stage)
    assert stage.ledger.refused
    assert stage.recorder.turns[-1].step == "end"
    assert stage.recorder.turns[-1].messages[-1] == ("user", "print f1")


async def test_others_do_not_hear_again_what_a_step_said_before_it_was_left_out() -> None:
    steps = [
        {"name": "mood", "role": "for", "prompt": "mood"},
        {"name": "joke", "role": "for", "prompt": "joke", "when": {"step": "mood", "says": "good"}},
        {"name": "reply", "role": "against", "prompt": "reply", "until": {"back_to": "mood", "at_most": 3}},
    ]
    stage = on_stage({"roles": DEBATE["roles"], "steps": steps}, ["good", "ha", "r1", "bad", "r2", "bad", "r3"])
    await dialogue({}, stage)
    told = [turn.messages for turn in stage.recorder.turns if turn.step == "reply"][-1]
    assert [text for _, text in told].count("joke:\nha") == 1


async def test_a_round_in_which_no_step_is_due_is_the_last() -> None:
    steps = [
        {"name": "ask", "role": "for", "prompt": "ask"},
        {"name": "answer", "role": "for", "prompt": "answer", "when": {"step": "ask", "says": "why"}},
        {
            "name": "more",
            "role": "for",
            "prompt": "more",
            "when": {"step": "ask", "says": "why"},
            "until": {"back_to": "answer", "says": "enough", "at_most": 9},
        },
        {"name": "end", "role": "for", "prompt": "end"},
    ]
    stage = on_stage({"roles": DEBATE["roles"], "steps": steps}, ["nothing", "the end"])
    assert await dialogue({}, stage) == "the end"
    assert decided(stage) == [("answer when", "left out"), ("more when", "left out"), ("more until", "stalled")]
    assert stage.recorder.decisions[-1].because == "no step was due in round 1 of at most 9"


# Context


async def test_a_step_is_told_no_more_than_its_context_allows() -> None:
    filler = " ".join(f"Sentence {n} is about the weather in the north." for n in range(200))
    fact = "The invoice is due on 14 March."
    document = {
        "roles": DEBATE["roles"],
        "steps": [
            {"name": "long", "role": "for", "prompt": "talk"},
            {
                "name": "short",
                "role": "against",
                "prompt": "When is the invoice due?",
                "sees": ["long"],
                "context": {"at_most_tokens": 100},
            },
        ],
    }
    stage = on_stage(document, [f"{filler} {fact} {filler}", "14 March"])
    await dialogue({}, stage)
    told = "".join(text for _, text in stage.recorder.turns[-1].messages[1:-1])
    assert fact in told
    assert len(told) < 400


async def test_a_context_can_be_summed_up_by_a_role_and_the_summary_is_a_turn_of_its_own() -> None:
    document = {
        "roles": {**DEBATE["roles"], "scribe": {"model": "fast", "system": "SCRIBE"}},
        "steps": [
            {"name": "long", "role": "for", "prompt": "talk"},
            {
                "name": "short",
                "role": "against",
                "prompt": "And?",
                "sees": ["long"],
                "context": {"at_most_tokens": 100, "summary": "scribe"},
            },
        ],
    }
    stage = on_stage(document, ["words and " * 300, "They spoke at length.", "so"])
    await dialogue({}, stage)
    assert [(turn.step, turn.role) for turn in stage.recorder.turns] == [
        ("long", "for"),
        ("short_context", "scribe"),
        ("short", "against"),
    ]
    assert "They spoke at length." in stage.recorder.turns[-1].messages[1][1]


async def test_an_extract_stands_in_for_a_summary_that_nobody_gives() -> None:
    document = {
        "roles": {"one": {"model": "fast"}, "scribe": {"model": "fast"}},
        "steps": [
            {"name": "long", "role": "one", "prompt": "talk"},
            {
                "name": "short",
                "role": "one",
                "prompt": "And the fee?",
                "sees": ["long"],
                "context": {"at_most_tokens": 100, "summary": "scribe"},
            },
        ],
    }
    talk = "It rained all day. " * 100 + "The fee is 30 euros. " + "It rained all night. " * 100
    stage = on_stage(document, {"^talk$": talk, "^And": "30 euros"})  # and nothing for the scribe
    assert await dialogue({}, stage) == "30 euros"
    assert "The fee is 30 euros." in stage.recorder.turns[-1].messages[0][1]


async def test_what_was_decided_is_in_the_record() -> None:
    stage = on_stage(CHECKED, ["w", "nothing must change", "printed"])
    await dialogue({}, stage)
    (fact,) = stage.recorder._journal.store.facts(Query(kind="decision"))
    assert fact.body["action"] == "left out"
    assert "lacks" in fact.body["because"]
