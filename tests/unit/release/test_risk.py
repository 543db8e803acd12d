"""What a candidate could do that the incumbent could not, and how many would notice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from loop_samples import agent, numbers
from release_samples import NEW, OLD, PARAMETERS, RULES, TASKS, change, compared, kept

from seedbed.errors import RunError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.gate import ReleaseRequest
from seedbed.release.gates.risk import Risk, impact
from seedbed.release.review.review import approve, refuse
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import Tool
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace


async def asked(library: Library, candidate: Playbook, incumbent: Playbook = OLD) -> ReleaseRequest:
    library.keep(candidate, because="try")
    verdict = await compared(library, incumbent, candidate, tasks=numbers(10, first=30))
    return change(library, verdict, candidate=candidate.digest, incumbent=incumbent.digest)


def like_new(**more: Any) -> Playbook:
    return Playbook.from_document({**NEW.document(), **more})


async def test_other_words_are_no_risk() -> None:
    assert await Risk()(await asked(kept(), NEW)) is None


@pytest.mark.parametrize(
    ("candidate", "found", "kind"),
    [
        (
            like_new(roles={"agent": {"model": "oracle", "system": ".*", "prefer": "huge"}}),
            "the new model huge",
            "models",
        ),
        (like_new(rules={**RULES, "confirm": []}), "rules.confirm: refund dropped or weakened", "autonomy"),
        (like_new(rules={**RULES, "confirm_below": 0.5}), "rules.confirm_below: 0.7 → 0.5", "autonomy"),
        (like_new(program=f"{__name__}:parrot"), "the program", "code"),
    ],
)
async def test_every_hazard_is_named_and_its_kind_can_be_allowed(candidate: Playbook, found: str, kind: str) -> None:
    library = kept()
    told = await asked(library, candidate)
    refusal = await Risk()(told)
    assert refusal
    assert found in refusal.found
    assert "seedbed review request production" in refusal.remedy
    assert await Risk(allow=(kind,))(told) is None


async def test_what_is_no_longer_locked_is_more_autonomy() -> None:
    locked = agent("[0-4]", rules=RULES, parameters=PARAMETERS, locked=["parameters.warmth"])
    library = kept(locked)
    refusal = await Risk()(await asked(library, NEW, locked))
    assert refusal
    assert refusal.found == "parameters.warmth no longer locked"


async def test_who_reviewed_it_lets_it_pass() -> None:
    library = kept()
    told = await asked(library, like_new(rules={**RULES, "confirm": []}))
    approve(replace(library, by="ben"), "production", told.candidate, because="we refund by hand now")
    assert await Risk()(told) is None
    refuse(replace(library, by="cleo"), "production", told.candidate, because="we do not")
    assert await Risk()(told)


async def test_the_share_that_is_answered_differently_is_measured_and_limited() -> None:
    library = kept()
    told = change(library, await compared(library, tasks=TASKS))
    found = impact(told)
    assert (found.affected.mean, found.hazards) == (1.0, ())
    refusal = await Risk(impact=0.5)(told)
    assert refusal
    assert refusal.found == "100% of requests answered differently, perhaps 100%"
    assert await Risk(impact=0.5)(replace(told, share=0.05)) is None


async def test_a_few_tasks_do_not_show_that_few_are_affected() -> None:
    library = kept()
    told = await asked(library, agent("[0-4]|x", rules=RULES, parameters=PARAMETERS))
    refusal = await Risk(impact=0.1)(told)
    assert refusal
    assert refusal.found == "0% of requests answered differently, perhaps 31%"


async def test_without_runs_to_look_at_nothing_passes() -> None:
    library = kept()
    refusal = await Risk()(change(library))
    assert refusal
    assert refusal.found == "no verdict"
    assert await Risk()(change(library, incumbent=None)) is None
    unknown = Dataset(tuple(Task(f"t{n}", {"n": n}) for n in range(9)))
    with pytest.raises(RunError, match="no expected answer"):  # so there is not even a verdict
        await compared(library, tasks=unknown)


async def parrot(task: Mapping[str, Any], stage: Stage) -> str:
    return str(task["n"])


# Tools


async def clerk(task: Mapping[str, Any], stage: Stage) -> str:
    """Looks things up, and sends mail if it may."""
    await stage.call("look", n=task["n"])
    if stage.playbook.parameters.get("mail") and stage.playbook.parameter("mail"):
        await stage.call("send", n=task["n"])
        if task["n"] == 3:
            await stage.call("shred", n=task["n"])
            raise RunError("and nobody saw it")
    return str(task["n"])


def look(n: int) -> int:
    return n


def send(n: int) -> int:
    return n


def shred(n: int) -> int:
    return n


async def test_a_tool_that_the_incumbent_never_called_is_a_hazard() -> None:
    """Also one that was called in a run that failed."""
    space = Workspace(Settings(by="ada"), MemoryStore())
    pretended: dict[str, Any] = {"effect": "changes", "simulated": lambda n: n}
    space.tools = [Tool("look", look, "reads"), Tool("send", send, **pretended), Tool("shred", shred, "reads")]
    before, after = (
        Playbook.from_document(
            {"program": f"{__name__}:clerk", "parameters": {"mail": {"value": may}}, "rules": {"allow": ["send"]}}
        )
        for may in (False, True)
    )
    verdict = await space.compare(before, after, on=numbers(10), metric=ExactMatch())
    told = change(space.resources.library, verdict, candidate=after.digest, incumbent=before.digest)
    refusal = await Risk()(told)
    assert refusal
    assert refusal.found.split("; ") == [
        "the new tool send, which changes the world",
        "the new tool shred",
    ]
    assert await Risk(allow=("tools",))(told) is None
