"""A step whose model calls tools: recorded, ruled, limited, replayed, killed, and tried without changing the world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from agent_samples import (
    DESK,
    HELP,
    SCRIPT,
    calls,
    desk,
    killed_and_resumed,
    pretend,
    refund,
    refunded,
    replayed,
    search,
    searched,
    workspace,
)

from seedbed.errors import PlaybookError, RunError, SettingsError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import Missed
from seedbed.runs.history import recall
from seedbed.runs.run import Run
from seedbed.stage.dialogue.agent_loop import MOST_CHARACTERS
from seedbed.stage.tools import tool
from seedbed.storage.store import Query


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    refunded.clear()
    searched.clear()


def told(run: Run) -> list[str]:
    """What tools answered to the model in the last turn."""
    return [text for speaker, text, *_ in run.turns[-1].messages if speaker == "tool"]


async def test_a_model_calls_tools_until_it_answers_and_all_of_it_is_recorded() -> None:
    space = workspace()
    run = await space.run(desk(), **HELP)
    assert (run.output, run.status, refunded) == ("The money is back.", "completed", ["o-17"])
    first, second, third = run.turns
    assert [each["tool"] for each in first.calls] == ["search"] * 3
    assert second.text == "I refund it."
    assert third.messages[-2:] == (
        ("assistant", "I refund it.", {"calls": list(second.calls)}),
        ("tool", "refunded o-17", {"call": second.calls[0]["id"]}),
    )
    (call,) = [each for each in run.calls if each.changes]
    assert (call.call, call.how) == (second.calls[0]["id"], "real")
    assert call.turn in {fact.key for fact in space.store.facts(Query(kind="turn"))}
    toolset = space.store.get(first.toolset)
    assert sorted(toolset) == ["refund", "search"]
    assert toolset["search"]["about"] == "Find orders by what was bought."
    assert toolset["search"]["parameters"]["required"] == ["query"]
    assert recall(space.store, run.id).turns == run.turns


async def test_a_strict_replay_answers_equal_parallel_calls_as_they_were_and_asks_no_tool() -> None:
    space = workspace()
    run = await space.run(desk(), **HELP)
    searched.clear()
    for _ in range(20):
        again = await replayed(space, run)
        assert again.output == run.output
        assert again.replay is not None
        assert again.replay["labels"] == {"call": {"exact": 4}, "turn": {"exact": 3}}
        assert told(again) == told(run)
    assert (searched, refunded) == ([], ["o-17"])


async def test_a_strict_replay_offers_the_tools_as_they_were_then() -> None:
    space = workspace()
    run = await space.run(desk(), **HELP)
    space.tools = []
    assert (await replayed(space, run)).output == run.output
    reworded = desk(TOOLS={"search": {"about": "Another word."}})
    with pytest.raises(Missed, match="toolset"):
        await replayed(space, run, playbook=reworded)


async def test_other_instructions_leave_the_calls_of_a_lenient_replay_exact() -> None:
    space = workspace()
    run = await space.run(desk(), **HELP)
    searched.clear()
    curt = desk(ROLES={"clerk": {**DESK["roles"]["clerk"], "system": "Be curt."}})
    again = await replayed(space, run, "lenient", curt)
    assert again.replay is not None
    assert again.replay["labels"] == {"call": {"exact": 4}, "turn": {"substituted": 3}}
    assert again.turns[1].messages[0] == ("system", "Be curt.")
    assert again.turns[1].messages[2][2]["calls"][0]["tool"] == "search"
    assert (again.output, searched, refunded) == (run.output, [], ["o-17"])


@pytest.mark.parametrize("before", [True, False])
async def test_a_run_killed_at_any_fact_is_resumed_to_the_same_output_or_listed_in_doubt(before: bool) -> None:
    await killed_and_resumed(desk(), before=before)


async def test_an_evaluation_performs_simulated_tools_only() -> None:
    space = workspace()
    tasks = Dataset([Task(id="one", inputs=HELP, expected="It would be back.")])
    card = await space.evaluate(desk(), tasks, metric="exact_match")
    (cell,) = card.cells
    assert (cell.value, refunded) == (1.0, [])
    (call,) = [each for each in recall(space.store, cell.run).calls if each.changes]
    assert call.how == "simulated"


async def test_the_words_of_an_installed_tool_make_other_cells_and_those_of_a_playbook_are_genes() -> None:
    space = workspace()
    before = space.resources.runner.identity(desk())
    space.tools = [search, tool(changes=True, name="refund", simulated=pretend)(pretend)]
    after = space.resources.runner.identity
    assert after(desk())["toolset"] != before["toolset"]
    assert "toolset" not in after(desk(tools=[]))
    worded = desk(TOOLS={"refund": {"about": "Pay.", "arguments": {"order": "As in o-1."}}}, calls={"at_most": 3})
    paths = {"tools.refund.about", "tools.refund.arguments.order", "steps.solve.calls.at_most"}
    assert paths <= genes(worded).keys()
    changed = with_genes(worded, {"tools.refund.about": "Give back.", "steps.solve.calls.at_most": 5})
    assert changed.tools["refund"].about == "Give back."
    space.tools = [search, refund]
    run = await space.run(changed, **HELP)
    offered = space.store.get(run.turns[0].toolset)["refund"]
    assert offered["about"] == "Give back."
    assert offered["parameters"]["properties"]["order"]["description"] == "As in o-1."


async def test_what_cannot_be_called_is_not_and_the_model_is_told_why() -> None:
    asked = calls(("serch", {"query": "x"}), ("search", {"query": 7}), ("search", {"query": "nothing"}))
    space = workspace({"^Help": asked, "": "Sorry."})
    run = await space.run(desk(), **HELP)
    assert told(run) == [
        "found no tool 'serch'; expected one of: refund, search",
        "arguments.query: found 7; 7 is not of type 'string'",
        'tool search failed: ValueError: "the index is empty"',
    ]
    assert [each["failed"] for *_, each in run.turns[-1].messages[-3:] if isinstance(each, Mapping)] == [True] * 3
    assert len(run.calls) == 1
    assert (await replayed(space, run)).output == "Sorry."


async def test_rules_see_the_arguments_and_a_refusal_is_told_to_the_model() -> None:
    rules = {"never": [{"refund": {"order": {"matches": "o-1*"}}}], "allow": ["refund"]}
    space = workspace({"never": "I must not.", **SCRIPT})
    playbook = desk(RULES=rules)
    run = await space.run(playbook, **HELP)
    assert (run.output, refunded) == ("I must not.", [])
    assert [each.action for each in run.decisions] == ["forbidden"]


async def test_people_are_asked_about_all_calls_before_any_begins() -> None:
    space, seen = workspace({"^Help": calls(("refund", {"order": "a"}), ("refund", {"order": "b"})), "": "Done."}), []

    async def person(action: str, because: str, arguments: Mapping[str, Any]) -> bool:
        seen.append((arguments["order"], list(refunded)))
        return arguments["order"] == "b"

    space.resources.confirm = person
    run = await space.run(desk(RULES={"confirm": ["refund"]}), **HELP)
    assert seen == [("a", []), ("b", [])]
    assert (run.output, refunded) == ("Done.", ["b"])
    assert told(run)[1] == "refunded b"
    assert "nobody confirmed it" in told(run)[0]


@pytest.mark.parametrize(
    ("more", "because"),
    [({"calls": {"at_most": 2}}, "at_most"), ({}, "repeats"), ({"calls": {"at_most": 3}}, "at_most")],
)
async def test_a_model_that_goes_on_calling_must_answer_in_the_end(more: Any, because: str) -> None:
    space = workspace(
        [*[calls(("search", {"query": "mug"}))] * (more or {"calls": {"at_most": 3}})["calls"]["at_most"], "So."]
    )
    run = await space.run(desk(**more), **HELP)
    assert run.output == "So."
    assert [(each.point, each.action) for each in run.decisions] == [("solve calls", because)]
    assert run.turns[-1].options == {"tool_choice": "none"}
    space.tools = [tool(effect="reads", name="search")(lambda query: "never asked"), refund]
    assert (await replayed(space, run)).output == "So."


async def test_a_step_may_rather_fail_than_answer_without_its_tools() -> None:
    space = workspace([calls(("search", {"query": "mug"}))])
    with pytest.raises(RunError, match=r"calls.at_most"):
        await space.run(desk(calls={"at_most": 1, "then": "fail"}), **HELP)


async def test_when_the_money_is_spent_the_model_answers_from_what_it_has() -> None:
    script = {"^Help": calls(("search", {"query": "mug"})), "": "So."}
    dear = {"use": "scripted", "usd_per_million": [1_000, 1_000], "args": {"replies": script, "max_tokens": 20}}
    space = workspace(models={"fast": dear})
    brief = desk(ROLES={"clerk": {**DESK["roles"]["clerk"], "max_tokens": 20}})
    run = await space.run(brief, max_cost_usd=0.72, **HELP)
    assert (run.output, run.status) == ("So.", "cost_limited")
    assert [each.action for each in run.decisions] == ["budget"]


async def test_a_long_result_is_cut_for_the_model_and_whole_in_the_record() -> None:
    space = workspace({"^Help": calls(("search", {"query": "x" * 30_000})), "": "Long."})
    run = await space.run(desk(), **HELP)
    (read,) = told(run)
    assert len(read) < MOST_CHARACTERS + 100
    assert "the whole result has 30,0" in read
    assert len(run.calls[0].result) > 30_000


async def test_a_tool_that_no_workspace_has_is_refused_before_anything_is_paid() -> None:
    space = workspace()
    with pytest.raises(
        PlaybookError, match=r"roles.clerk.tools: found \"serch\"; expected one of the tools: refund, search. Did"
    ):
        await space.run(desk(ROLES={"clerk": {"model": "fast", "tools": ["serch"]}}), **HELP)
    assert not list(space.store.facts(Query(kind="start")))
    with pytest.raises(PlaybookError, match=r"limits on calls and no tools"):
        desk(tools=[], calls={"at_most": 3})


async def test_a_model_that_cannot_call_tools_is_refused() -> None:
    space = workspace(models={"fast": {"use": "embedded"}})
    with pytest.raises(RunError, match="cannot do tool calls"):
        await space.run(desk(), **HELP)


async def test_tools_without_a_stand_in_are_refused_in_evaluations_only_where_they_are_named() -> None:
    space = workspace()
    space.tools = [search, refund, tool(changes=True, name="burn")(lambda: "burnt")]
    tasks = Dataset([Task(id="one", inputs=HELP, expected="It would be back.")])
    assert (await space.evaluate(desk(), tasks, metric="exact_match")).cells[0].value == 1.0
    with pytest.raises(SettingsError, match="burn"):
        await space.evaluate(desk(tools=["*"]), tasks, metric="exact_match")


def test_tools_of_a_step_replace_those_of_its_role() -> None:
    plain = Playbook.from_document({**DESK, "steps": [{**DESK["steps"][0], "tools": []}]})
    assert not plain.uses_tools
    assert plain.content()["steps"][0]["tools"] == []
    assert desk(tools=["search"]).named_tools == {"search"}
