"""A program named in the call performs the playbook, in every verb."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from workspace_samples import in_memory

from seedbed import Dataset, Playbook, Task, past_runs
from seedbed.errors import PlaybookError, SeedbedError, SettingsError
from seedbed.playbooks.formats import import_document
from seedbed.stage.program import HERE, program_of, with_program
from seedbed.stage.stage import Stage
from seedbed.workspace import Workspace, open_workspace

STRATEGY = {
    "metadata": {"name": "desk", "version": "1.0.0"},
    "parameters": {"firmness": 0.3},
    "constraints": {},
    "evolution_metadata": {},
}
TASKS = Dataset([Task(f"t{number}", {"text": f"mail {number}"}, "soft") for number in range(30)])


async def decide(task: Mapping[str, Any], stage: Stage) -> str:
    return "firm" if stage.playbook.parameter("firmness") >= 0.5 else "soft"


PATH = f"{__name__}:decide"


def imported(space: Workspace) -> str:
    return space.playbooks.import_foreign(import_document(STRATEGY), because="imported")


async def test_an_imported_strategy_runs_by_a_program_and_stays_its_parent() -> None:
    async with in_memory() as space:
        strategy = imported(space)
        run = await space.run("desk", program=decide, text="hello")
        assert run.output == "soft"
        performed = space.playbooks.get(run.playbook)
        assert performed.program == PATH
        assert performed.digest != strategy
        assert space.playbooks.library.entry(run.playbook).parents == (strategy,)


async def test_without_a_program_the_error_says_how_to_name_one() -> None:
    async with in_memory() as space:
        imported(space)
        with pytest.raises(SeedbedError, match=r"program=.*--program module:function"):
            await space.run("desk", text="hello")


async def test_a_function_and_its_path_are_the_same_program() -> None:
    playbook = import_document(STRATEGY).playbook
    assert with_program(playbook, decide).digest == with_program(playbook, PATH).digest


@pytest.mark.parametrize("wrong", ["nowhere", "no.such:module", f"{__name__}:absent", 5])
async def test_a_wrong_program_is_refused_before_anything_runs(wrong: Any) -> None:
    async with in_memory() as space:
        imported(space)
        with pytest.raises(PlaybookError, match="program"):
            await space.evaluate("desk", TASKS, program=wrong)


def replying(word: Any) -> Any:
    async def reply(task: Mapping[str, Any], stage: Stage) -> str:
        return str(word)

    return reply


def test_a_local_function_is_known_by_its_source_and_what_it_holds() -> None:
    playbook = import_document(STRATEGY).playbook
    one, same, other = (with_program(playbook, replying(word)) for word in ("a", "a", "b"))
    assert one.digest == same.digest != other.digest
    assert one.program is not None
    assert one.program.startswith(f"{HERE}:reply_")
    thing = replying(object())
    assert with_program(playbook, thing).digest == with_program(playbook, thing).digest
    assert with_program(playbook, thing).digest != with_program(playbook, replying(object())).digest


def test_a_local_function_of_another_process_is_asked_for_again() -> None:
    playbook = Playbook.from_document({"parameters": {"x": 1}, "program": f"{HERE}:gone_0011223344556677"})
    with pytest.raises(PlaybookError, match="Pass the function again as program="):
        program_of(playbook)


async def test_a_local_function_cannot_go_to_other_processes(tmp_path: Path) -> None:
    async with open_workspace(store=f"sqlite:///{tmp_path / 'x.db'}", models={}, by="ada") as space:
        playbook = import_document(STRATEGY).playbook
        with pytest.raises(PlaybookError, match="parallel: loop"):
            await space.evaluate(playbook, TASKS, program=replying("a"), parallel=2)
        card = await space.evaluate(playbook, TASKS, program=replying("soft"))
        assert card.interval.mean == 1


async def test_it_is_evaluated_compared_and_evolved_with_a_program() -> None:
    async with in_memory() as space:
        imported(space)
        assert (await space.evaluate("desk", TASKS, program=decide)).interval.mean == 1
        firm, _ = space.playbooks.derive("desk", {"parameters.firmness": 0.9}, because="harder")
        verdict = await space.compare(firm, "desk", on=TASKS, program=decide)
        assert verdict.finding == "superior"
        found = await space.evolve(firm, TASKS, program=decide, optimizer="cmaes", budget="60 runs")
        assert space.playbooks.get(found.best).program == PATH


async def test_runs_recorded_elsewhere_are_replayed_by_a_program_under_another_strategy() -> None:
    async with in_memory() as space:
        imported(space)
        async with space.runs.recording("desk", text="hello") as stage:
            stage.output = await decide({}, stage)
        recorded = space.runs.recent(1)[0]
        replayed, missed = await space.runs.replay(recorded, program=decide)
        assert (replayed.output, missed) == ("soft", False)
        firm, _ = space.playbooks.derive("desk", {"parameters.firmness": 0.9}, because="harder")
        replayed, _ = await space.runs.replay(recorded, firm, program=decide)
        assert replayed.output == "firm"
        with pytest.raises(SettingsError, match=r"runs\.replay"):
            await space.compare("desk", firm, on=past_runs(), program=decide)
