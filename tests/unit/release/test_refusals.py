"""What must never reach a channel, each refused with a message of its own, and all of them at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from loop_samples import agent, bench, numbers, searched
from release_samples import NEW, OLD, PARAMETERS, POOR, RULES, TASKS, compared, kept

from seedbed.errors import ReleaseRefused
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.channels import release, stable
from seedbed.release.gates.gate import Gate
from seedbed.release.gates.registry import build_gates
from seedbed.release.review.review import approve
from seedbed.settings import ChannelSettings

STRICT: dict[str, Any] = {
    "require": ["schema", "better", "held_out", "rules_kept", "redundant", {"review": {"when": "always"}}]
}


def gates_of(protection: Any) -> list[Gate]:
    return build_gates("production", ChannelSettings.read(protection, "channels.production"))


async def refused(library: Library, candidate: Playbook, verdict: Verdict | None, protection: Any = STRICT) -> str:
    """Why a candidate is refused that is otherwise reviewed."""
    with pytest.raises(ReleaseRefused) as caught:
        await release(
            library,
            "production",
            candidate.digest,
            gates_of(protection),
            verdict=verdict,
            because="try",
        )
    assert stable(library.store, "production") == OLD.digest
    return str(caught.value)


async def on_duty(*more: Playbook) -> Library:
    library = kept(*more)
    await release(library, "production", OLD.digest, [], verdict=None, because="first")
    for playbook in (NEW, *more):
        approve(replace(library, by="ben"), "production", playbook.digest, because="read it")
    return library


async def test_one_that_is_better_and_reviewed_passes() -> None:
    library = await on_duty()
    gates = gates_of(STRICT)
    await release(library, "production", NEW.digest, gates, verdict=await compared(library), because="better")
    assert stable(library.store, "production") == NEW.digest


async def test_one_that_dropped_a_never_rule() -> None:
    lax = agent(".*", rules={**RULES, "never": []}, parameters=PARAMETERS)
    library = await on_duty(lax)
    told = await refused(library, lax, await compared(library, OLD, lax))
    assert "rules_kept: found rules.never: delete_* dropped or weakened" in told


@pytest.mark.parametrize(("value", "bound"), [(1.5, 1), (-0.5, 0)])
async def test_one_that_moved_a_number_beyond_its_bound_and_the_bound_with_it(value: float, bound: float) -> None:
    wild = agent(".*", rules=RULES, parameters={"warmth": {"value": value, "low": -2, "high": 2}})
    library = await on_duty(wild)
    told = await refused(library, wild, await compared(library, OLD, wild))
    assert f"rules_kept: found parameters.warmth: {value:g}, beyond its bound of {bound:g}" in told
    assert "Bring the numbers back." in told


async def test_one_that_came_with_its_sibling_s_verdict() -> None:
    sibling = agent("3.|4.|5.", rules=RULES, parameters=PARAMETERS)
    library = await on_duty(sibling)
    told = await refused(library, sibling, await compared(library, OLD, NEW))
    assert f"better: found a verdict about {NEW.digest[3:13]} against {OLD.digest[3:13]}" in told


async def test_one_that_wrote_its_own_name_into_its_sibling_s_verdict() -> None:
    sibling = agent("3.|4.|5.", rules=RULES, parameters=PARAMETERS)
    library = await on_duty(sibling)
    copied = replace(await compared(library, OLD, NEW), candidate=sibling.digest)
    told = await refused(library, sibling, copied)
    assert "better: found a verdict that this store does not hold" in told


async def test_one_that_was_judged_on_its_own_training_tasks() -> None:
    grown = agent("3.|4.|5.|6.", rules=RULES, parameters=PARAMETERS)
    library = await on_duty(grown)
    await searched(OLD, TASKS, BestOf([grown]), bench(library.store))
    told = await refused(library, grown, await compared(library, OLD, grown))
    assert "held_out: found 30 of 30 tasks that were evolved on" in told


async def test_one_that_its_author_approved() -> None:
    library = kept()
    await release(library, "production", OLD.digest, [], verdict=None, because="first")
    with pytest.raises(ReleaseRefused, match="review: found ada, who made it; expected another person"):
        approve(library, "production", NEW.digest, because="looks fine to me")
    approval = approve(replace(library, by="ben"), "staging", NEW.digest, because="read it")
    forged = replace(approval, key="slipped in", by="ada", body={"channel": "production", "because": "fine"})
    library.store.append([forged])
    told = await refused(library, NEW, await compared(library))
    assert "review: found an approval by ada, who made it; expected one by somebody other than ada" in told


async def test_one_with_everything_wrong_hears_all_of_it_at_once() -> None:
    bad = agent("x|y", rules={"never": []}, parameters={"warmth": {"value": 3}})
    library = kept(bad)
    await release(library, "production", OLD.digest, [], verdict=None, because="first")
    gates: list[Any] = [
        *STRICT["require"],
        {"not_worse": {"metrics": ["cost_usd"], "margin": 0.01}},
        {"max_change": {"number": 0.1}},
        {"cooldown": "1 week"},
        "content",
        "risk",
        "replay_fidelity",
        "error_budget",
    ]
    with pytest.raises(ReleaseRefused) as caught:
        await release(
            library,
            "production",
            bad.digest,
            gates_of({"require": gates}),
            verdict=await compared(library, OLD, POOR, tasks=numbers(9, first=30)),
            because="try",
        )
    paths = [refusal.path for refusal in caught.value.refusals]
    assert paths == [
        *("better", "rules_kept", "review", "not_worse", "max_change", "cooldown", "content", "risk"),
        *("replay_fidelity", "error_budget"),
    ]
    assert all(refusal.remedy for refusal in caught.value.refusals)


async def test_a_person_may_let_a_rule_go_where_the_channel_says_so() -> None:
    lax = agent(".*", rules={**RULES, "never": []}, parameters=PARAMETERS)
    library = await on_duty(lax)
    protection = {"require": [{"rules_kept": {"unless": "reviewed"}}]}
    await release(library, "production", lax.digest, gates_of(protection), verdict=None, because="as agreed")
    other = agent("x", rules={**RULES, "never": []}, parameters=PARAMETERS)
    library.keep(other, because="try")
    await release(library, "production", OLD.digest, [], verdict=None, because="back")
    told = await refused(library, other, None, protection)
    assert "rules.never: delete_* dropped or weakened" in told
