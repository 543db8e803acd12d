"""Candidates, optimizers and merges that reach for rules, locks and code, which only people change."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from world import tasks

import seedbed
from seedbed import BestOf, Dataset, Playbook, Task, Workspace
from seedbed.errors import PlaybookError, ReleaseRefused
from seedbed.evaluation.cells import Cell
from seedbed.evolution.protocols import Offer, Search
from seedbed.playbooks.changes import escapes
from seedbed.playbooks.merging import Resolver, merge, ours, theirs
from seedbed.release.gates.gate import ReleaseRequest
from seedbed.release.gates.review import Review
from seedbed.release.gates.rules_kept import rules_kept
from seedbed.settings import Settings
from seedbed.stage.bounds import bounds
from seedbed.stage.stage import Stage
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json

sent: list[str] = []


async def clerk(task: Mapping[str, Any], stage: Stage) -> Any:
    return "yes" if bounds().playbooks[-1] == START else "no"


async def thief(task: Mapping[str, Any], stage: Stage) -> Any:
    sent.append("stolen")
    return "yes"


BOUNDED: Json = {
    "patience": {"value": 1, "low": 0, "high": 9, "whole": True},
    "tone": {"value": "kind", "options": ["kind", "curt"]},
}
START = Playbook.from_document(
    {
        "program": f"{__name__}:clerk",
        "roles": {"clerk": {"system": "Be kind."}, "other": {"system": "Be quick."}},
        "parameters": BOUNDED,
        "rules": {"never": ["shred_*"], "confirm": ["refund"]},
        "locked": ["roles.clerk"],
    }
)
ASK = {"name": "ask", "role": "clerk", "prompt": "{text}"}
OPENED = Playbook.from_document({"roles": {"x": {"system": "hm"}}}).digest
ROLES = {"other": {"system": "Be quick."}}
ESCAPES: dict[str, tuple[Json, str]] = {
    "a rule": ({"rules": {"confirm": ["refund"]}}, r"rules\.never: found shred_\* dropped"),
    "another level": ({"rules": {"never": ["shred_*"], "prefer_confirm": ["refund"]}}, r"rules\.confirm"),
    "the program": ({"program": f"{__name__}:thief"}, "program: found .*thief.*; expected .*clerk"),
    "a lock": ({"locked": []}, r"locked: found no lock on roles\.clerk"),
    "what is locked": ({"roles": {"clerk": {"system": "Be rude."}, **ROLES}}, r"roles\.clerk\.system: found another"),
    **{
        f"a bound, {how}": ({"parameters": {**BOUNDED, name: parameter}}, rf"parameters\.{name}: found {told}")
        for how, name, parameter, told in (
            ("left", "patience", {"value": 99, "low": 0, "high": 99, "whole": True}, "99, beyond its bound of 9"),
            ("moved up", "patience", {"value": 1, "low": 0, "high": 1e6, "whole": True}, r"its bound of 9 moved to 1e"),
            ("moved down", "patience", {"value": 1, "low": -1, "high": 9, "whole": True}, "its bound of 0 moved to -1"),
            ("removed", "patience", {"value": 1, "low": 0, "whole": True}, "its bound of 9 removed"),
            ("for text", "patience", {"value": "much"}, ".*much.*, which is no number"),
            ("for fractions", "patience", {"value": 1, "low": 0, "high": 9}, "no longer a whole number"),
            ("by an option", "tone", {"value": "kind", "options": ["kind", "rude"]}, ".*options that it did not have"),
            ("without options", "tone", {"value": "kind"}, ".*options that it did not have"),
        )
    },
    "a bound, with its parameter": ({"parameters": {"tone": BOUNDED["tone"]}}, r"parameters\.patience: found gone"),
    "another playbook": (
        {
            "steps": [
                {"name": "ask", "role": "other", "prompt": "{text}", "opens": {"input": "text", "playbook": OPENED}}
            ]
        },
        r"steps\.opens\.playbook: found",
    ),
}


class Hostile:
    """An optimizer of somebody else."""

    reads = False
    identity: Json = {"optimizer": "hostile"}  # noqa: RUF012

    def __init__(self, offered: Playbook) -> None:
        self.offered = offered

    def begin(self, search: Search) -> None:
        self.search = search

    async def ask(self) -> Sequence[Offer]:
        new = self.offered.digest not in self.search.pool
        return [Offer(self.offered, (self.search.start.digest,), "improved")] if new else []

    async def tell(self, cells: Sequence[Cell]) -> None:
        return None


def space() -> Workspace:
    return seedbed.open(store=MemoryStore(), by="ada")


@pytest.mark.parametrize("by", ["plug-in", "best_of"])
@pytest.mark.parametrize("what", ESCAPES)
async def test_no_optimizer_gets_an_offer_tried_that_escapes(what: str, by: str) -> None:
    change, told = ESCAPES[what]
    freed = Playbook.from_document({**START.content(), **change})
    optimizer: Any = Hostile(freed) if by == "plug-in" else BestOf([freed])
    sent.clear()
    async with space() as at:
        with pytest.raises(PlaybookError, match=told):
            await at.evolve(START, tasks(range(30)), optimizer=optimizer, budget="60 runs")
        assert {run.playbook for run in at.runs.recent(1000)} <= {START.digest}
    assert sent == []


async def test_what_may_evolve_is_tried_and_under_the_rules_of_the_start() -> None:
    varied = Playbook.from_document(
        {**START.content(), "parameters": {**BOUNDED, "patience": {**BOUNDED["patience"], "value": 5}}}
    )
    async with space() as at:
        found = await at.evolve(START, tasks(range(60)), optimizer=Hostile(varied), budget="200 runs")  # type: ignore[arg-type]
        own = [run for run in at.runs.recent(1000) if run.playbook == varied.digest]
        assert own
        assert {run.output for run in own} == {"yes"}
    assert varied.digest in found.pool


def test_a_merge_keeps_a_lock_on_demos_that_are_still_empty() -> None:
    plain = {
        "roles": {"clerk": {"system": "Be kind."}},
        "steps": [{"name": "ask", "role": "clerk", "prompt": "{text}"}],
    }
    base = Playbook.from_document(plain)
    locked = Playbook.from_document({**plain, "locked": ["demos.ask", "steps.ask.prompt"]})
    other = Playbook.from_document({**plain, "roles": {"clerk": {"system": "Be very kind."}}})
    assert {*merge(base, locked, other).playbook.locked} == {"demos.ask", "steps.ask.prompt"}
    assert {*merge(base, other, locked).playbook.locked} == {"demos.ask", "steps.ask.prompt"}


@pytest.mark.parametrize("resolver", [ours, theirs])
def test_a_merge_keeps_a_threshold_that_rests_on_otherwise(resolver: Resolver) -> None:
    base, strict = (
        Playbook.from_document(
            {
                "parameters": {"sure": {"value": 0.5, "low": 0, "high": 1}},
                "rules": {"otherwise": "prefer_confirm", "confirm_below": below},
            }
        )
        for below in ("sure", 0.95)
    )
    for one, other in ((strict, base), (base, strict)):
        assert merge(base, one, other, [resolver]).playbook.threshold == 0.95


# Gates


@pytest.mark.parametrize("what", ESCAPES)
async def test_the_gates_see_every_escape(what: str) -> None:
    freed = Playbook.from_document({**START.content(), **ESCAPES[what][0]})
    async with space() as at:
        library = at.resources.library
        for each in (START, freed):
            library.keep(each, because="made")
        request = ReleaseRequest("shop", freed.digest, START.digest, None, library)
        assert await rules_kept(request) is not None
        assert await Review("rules or roles change")(request) is not None


def test_a_step_that_is_gone_is_an_escape() -> None:
    whole = Playbook.from_document({"roles": ROLES, "steps": [step("draft"), step("review")]})
    less = Playbook.from_document({"roles": ROLES, "steps": [step("draft")]})
    assert [str(each.found) for each in escapes(whole, less)] == ["no step review any more"]
    assert escapes(less, whole) == []


def step(name: str) -> Json:
    return {"name": name, "role": "other", "prompt": f"{name} {{text}}"}


async def test_without_runs_that_show_its_tools_no_program_passes() -> None:
    old, new = (Playbook.from_document({"program": f"{__name__}:helps", "parameters": {"n": n}}) for n in (1, 2))
    async with space() as at:
        library = at.resources.library
        for each in (old, new):
            library.keep(each, because="made")
        request = ReleaseRequest("shop", new.digest, old.digest, None, library)
        refusal = await rules_kept(request)
        assert refusal
        assert "no runs that show which ones it calls" in refusal.found
        assert await Review("rules or roles change")(request) is not None


async def test_a_program_that_was_edited_since_the_release_of_the_incumbent_needs_a_review(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "edited_clerk.py"
    file.write_text("async def handle(task, stage):\n    return 'yes'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    one, other = (
        Playbook.from_document({"program": "edited_clerk:handle", "parameters": {"patience": value}})
        for value in (1, 2)
    )
    gates = {"kept": {"require": ["rules_kept"]}, "seen": {"require": [{"review": {"when": "rules or roles change"}}]}}
    settings = Settings.model_validate({"by": "ada", "channels": gates})
    async with Workspace(settings, MemoryStore()) as at:
        verdict = await at.compare(one, other, on=tasks(range(10)))
        for channel in gates:
            await at.release(one, to=channel, because="first")
            await at.release(other, to=channel, because=verdict)
        file.write_text("async def handle(task, stage):\n    return 'yes, at once'\n")
        sys.modules.pop("edited_clerk")
        for channel, told in (("kept", "program: source edited since the release"), ("seen", "review")):
            with pytest.raises(ReleaseRefused, match=told):
                await at.release(one, to=channel, because="back again")


async def helps(task: Mapping[str, Any], stage: Stage) -> Any:
    name = "shred" if stage.playbook.parameter("bold") else "look"
    return await stage.call(name, n=task["n"])


def look(n: int) -> int:
    return n


async def test_a_tool_that_changes_the_world_and_is_new_stops_a_release() -> None:
    tools = [seedbed.tool(look, effect="reads"), seedbed.tool(look, name="shred", simulated=look)]
    old, new = (
        Playbook.from_document({"program": f"{__name__}:helps", "parameters": {"bold": bold}}) for bold in (False, True)
    )
    async with seedbed.open(store=MemoryStore(), tools=tools, by="ada") as at:
        numbers = Dataset(tuple(Task(f"t{n}", {"n": n}, n) for n in range(10)))
        verdict = await at.compare(old, new, on=numbers)
        request = ReleaseRequest("shop", new.digest, old.digest, verdict, at.resources.library)
        refusal = await rules_kept(request)
        assert refusal
        assert "the new tool shred, which changes the world" in refusal.found
        assert await Review("rules or roles change")(request) is not None


DESK: Json = {
    "roles": {"reader": {"model": "m"}, "clerk": {"model": "m", "tools": ["look", "mail_*"]}},
    "steps": [
        {"name": "read", "role": "reader", "prompt": "{n}"},
        {"name": "act", "role": "clerk", "prompt": "{read}"},
    ],
}
MORE_TOOLS: dict[str, Json] = {
    "of a role": {"roles": {**DESK["roles"], "reader": {"model": "m", "tools": ["look"]}}},
    "by a pattern": {"roles": {**DESK["roles"], "clerk": {"model": "m", "tools": ["*"]}}},
    "of a step": {"steps": [{**DESK["steps"][0], "tools": ["shred"]}, DESK["steps"][1]]},
    "of a new step": {"steps": [*DESK["steps"], {"name": "more", "role": "reader", "prompt": "x", "tools": ["look"]}]},
    "by another role": {"steps": [{**DESK["steps"][0], "role": "clerk"}, DESK["steps"][1]]},
}


@pytest.mark.parametrize("how", MORE_TOOLS)
async def test_nothing_that_evolves_gives_a_model_more_tools(how: str) -> None:
    start, thief = Playbook.from_document(DESK), Playbook.from_document({**DESK, **MORE_TOOLS[how]})
    assert [each.path for each in escapes(start, thief)] == ["tools"]
    library = space().resources.library
    for each in (start, thief):
        library.keep(each, because="to be released")
    refusal = await rules_kept(ReleaseRequest("shop", thief.digest, start.digest, None, library))
    assert refusal
    assert "which could not call it" in refusal.found


def test_fewer_tools_and_other_steps_with_the_same_tools_may_evolve() -> None:
    fewer = {"model": "m", "tools": ["look", "mail_read"]}
    more = {"name": "more", "role": "clerk", "prompt": "{act}", "tools": ["mail_send"]}
    after = {"roles": {**DESK["roles"], "clerk": fewer}, "steps": [*DESK["steps"], more]}
    assert escapes(Playbook.from_document(DESK), Playbook.from_document({**DESK, **after})) == []
