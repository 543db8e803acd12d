"""Code that is edited between the scores of the control and those of the candidate."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from world import NEW, OLD, is_released, serve_old, tasks, world

from seedbed import Playbook, Workspace

Rewrite = Callable[[str, str], ModuleType]


@pytest.fixture
def rewrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rewrite:
    """Writes a module, and imports all that were written as they are now."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written: list[str] = []

    def again(name: str, text: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)
        importlib.invalidate_caches()
        for each in written:
            sys.modules.pop(each, None)
        return importlib.import_module(name)

    yield again  # type: ignore[misc]
    for each in written:
        sys.modules.pop(each, None)


SCORER = """
from seedbed import metric
import graded
@metric(binary=True{version})
def kind(run, task):
    return graded.is_kind(str(run.output))
"""
STRICT = "def is_kind(text): return False\n"
LENIENT = "def is_kind(text): return True\n"


async def known(metric: Any) -> Workspace:
    """The served one is known to fail at all tasks, by that metric; nothing else is."""
    space = await serve_old(world([1], [*range(60)]))
    space.datasets.add("mail", tasks(range(40)), because="new")
    await space.evaluate(OLD, "mail", metric=metric)
    return space


@pytest.mark.parametrize("version", ["", ", version=1"])
async def test_a_metric_that_calls_code_which_was_edited_has_other_scores(rewrite: Rewrite, version: str) -> None:
    rewrite("graded", STRICT)
    space = await known(rewrite("scorer_beside", SCORER.format(version=version)).kind)
    rewrite("graded", LENIENT)
    verdict = await space.compare(OLD, NEW, on="mail", metric="scorer_beside:kind")
    assert (verdict.mode, verdict.losses, verdict.ties) == ("exploratory", 0, 40)
    assert not await is_released(space, because=verdict)


async def test_nor_does_a_version_hide_that_a_metric_was_edited(rewrite: Rewrite) -> None:
    text = "from seedbed import metric\n@metric(version=1, binary=True)\ndef kind(run, task):\n    return {}\n"
    space = await known(rewrite("scorer", text.format(False)).kind)
    verdict = await space.compare(OLD, NEW, on="mail", metric=rewrite("scorer", text.format(True)).kind)
    assert verdict.why == "results of the control were known when the metric was chosen"
    assert not await is_released(space, because=verdict)


async def test_an_agent_whose_module_beside_it_was_edited_keeps_no_scores(rewrite: Rewrite) -> None:
    rewrite("answers", "ANSWER = 'no'\n")
    agent = "import answers\nasync def answer(inputs, stage):\n    return answers.ANSWER\n"
    rewrite("agent_beside", agent)
    control, candidate = (
        Playbook.from_document({"program": "agent_beside:answer", "parameters": {"patience": n}}) for n in (1, 2)
    )
    space = world(require=["better", "held_out"])
    await space.release(control, to="production", because="the first one")
    space.datasets.add("mail", tasks(range(40)), because="new")
    await space.evaluate(control, "mail")
    rewrite("answers", "ANSWER = 'yes'\n")
    verdict = await space.compare(control, candidate, on="mail")
    assert (verdict.finding, verdict.ties) == ("inconclusive", 40)
