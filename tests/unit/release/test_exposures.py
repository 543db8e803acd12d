"""Who met what on a channel, and what came of it, as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from canary_samples import NEW, OLD, OTHER, at_place, ended, met, rated, said

import seedbed
from seedbed.errors import RunError
from seedbed.playbooks.playbook import Playbook
from seedbed.release.monitor import exposures
from seedbed.release.monitor.exposures import Exposure, ExposureFeed, ExposureOutcome
from seedbed.settings import Settings
from seedbed.settings.channels import RUN_METRICS
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def reading(store: Any, *metrics: str, **more: Any) -> ExposureFeed:
    return ExposureFeed(store, "live", [NEW, OLD], metrics or ["rating"], **{"after": 0, **more})


def outcomes(found: ExposureFeed) -> list[tuple[str, str, float, bool]]:
    read = [each for each in found.read() if isinstance(each, ExposureOutcome)]
    return [(each.met.playbook, each.metric, each.value, each.met.compared) for each in read]


def meetings(found: ExposureFeed) -> list[tuple[str, bool]]:
    return [(each.playbook, each.compared) for each in found.read() if isinstance(each, Exposure)]


def test_everything_is_read_once_whenever_it_comes(store: MemoryStore) -> None:
    found = reading(store)
    first, second = met(NEW), met(OLD)
    store.append([first, second])
    assert meetings(found) == [(NEW, True), (OLD, True)]
    assert [*found.read()] == []
    store.append([said(second, 0.5)])  # whoever came later answers sooner
    assert outcomes(found) == [(OLD, "rating", 0.5, True)]
    store.append([said(first, 1.0)])
    assert outcomes(found) == [(NEW, "rating", 1.0, True)]
    assert [*found.read()] == []


def test_of_a_unit_only_the_first_exposure_that_is_compared_counts(store: MemoryStore) -> None:
    store.append(rated(OLD, 0.1, unit="anna", compared=False))
    store.append(rated(NEW, 0.2, unit="anna"))  # it was between the two before the share grew
    store.append(rated(NEW, 0.3, unit="anna"))
    store.append(rated(NEW, 0.4, unit="ben"))
    found = [(value, compared) for _, _, value, compared in outcomes(reading(store))]
    assert found == [(0.1, False), (0.2, True), (0.3, False), (0.4, True)]


def test_units_next_to_a_small_canary_are_read_beside_its_control_each_once_for_each_playbook(
    store: MemoryStore,
) -> None:
    near, far = at_place(0.05, 0.45, 1)[0], at_place(0.5, 0.95, 1)[0]
    store.append(rated(OLD, 0.1, unit=near, compared=False, share=0.05))
    store.append(rated(OLD, 0.2, unit=near, compared=False, share=0.05))  # who comes again tells nothing new
    store.append(rated(OLD, 0.3, unit=far, compared=False, share=0.05))
    store.append(rated(OLD, 0.4, unit=at_place(0.05, 0.45, 2)[1], compared=False, share=0.0))  # before the canary
    store.append(rated(NEW, 0.5, unit=near, share=0.45))  # the share grew
    found = [each.met for each in reading(store).read() if isinstance(each, ExposureOutcome)]
    assert [(met.beside, met.compared) for met in found] == [
        (True, False),
        (False, False),
        (False, False),
        (False, False),
        (False, True),
    ]
    assert (found[0].controls, found[-1].controls) == (9, 1)


def test_of_an_exposure_only_the_first_outcome_counts(store: MemoryStore) -> None:
    one = met(NEW)
    store.append([one, said(one, 0.5), said(one, 1.0), said(one, 0.0, "resolved"), said(one, 1.0, "resolved")])
    found = reading(store, "rating", "resolved")
    assert outcomes(found) == [(NEW, "rating", 0.5, True), (NEW, "resolved", 0.0, True)]
    store.append([said(one, 0.0)])
    assert outcomes(found) == []


def test_nothing_else_is_read(store: MemoryStore) -> None:
    """Other channels, other playbooks, other metrics, other runs, and all that was before."""
    store.append(rated(NEW, 0.1))
    before = next(store.facts(Query(kind="feedback"))).number
    store.append(rated(NEW, 0.2, channel="staging"))
    store.append(rated(OTHER, 0.3))
    store.append(rated(NEW, 0.4, metric="resolved"))
    store.append([said("a run without a key", 0.5)])
    store.append(rated(OLD, 0.6))
    assert [value for _, _, value, _ in outcomes(reading(store, after=before))] == [0.6]


def test_what_was_met_until_some_moment_is_read_with_what_came_of_it_later(store: MemoryStore) -> None:
    early, late = met(OLD), met(OLD)
    store.append([early, late])
    moment = [fact.number for fact in store.facts(Query(kind="exposure"))][1]
    store.append([said(early, 0.5), said(late, 0.6)])
    assert [value for _, _, value, _ in outcomes(reading(store, until=moment))] == [0.5]


def test_an_exposure_without_an_outcome_is_not_waited_for_without_end(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposures, "WAITING", 2)
    meeting = [met(NEW) for _ in range(3)]
    store.append(meeting)
    found = reading(store)
    assert len(meetings(found)) == 3
    store.append([said(one, 0.5) for one in meeting])
    assert len(outcomes(found)) == 2


@dataclass
class Busy:
    """A store in which something happens after each question."""

    within: MemoryStore
    happens: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.within, name)

    def facts(self, query: Query) -> Iterator[Fact]:
        found = list(self.within.facts(query))
        self.happens()
        return iter(found)


def test_no_outcome_is_lost_that_comes_while_somebody_reads(store: MemoryStore) -> None:
    """An exposure and its outcome are written between two questions: the one is not known without the other."""
    found = reading(Busy(store, lambda: store.append(rated(NEW, 0.5)) and None))
    events = [event for _ in range(5) for event in found.read()]
    met_first = [each for each in events if isinstance(each, Exposure)]
    assert len(met_first) == 9  # the last came after the last question
    assert len([each for each in events if isinstance(each, ExposureOutcome)]) == 8


# Of runs


def agent(system: str) -> Playbook:
    role = {"model": "m", "system": system}
    rules = {"never": ["delete"], "confirm": ["refund"]}
    return Playbook.from_document({"program": "canary_samples:work", "roles": {"agent": role}, "rules": rules})


SETTINGS = Settings.model_validate(
    {
        "store": "memory:",
        "by": "ada",
        "models": {"m": {"use": "scripted", "args": {"replies": {".": "fine"}}, "usd_per_million": [0, 1_000_000]}},
        "channels": {"live": {"require": []}},
    }
)


async def test_what_is_known_of_a_run_is_read_when_it_ends_also_of_one_that_failed() -> None:
    with closing(seedbed.open(SETTINGS)) as space:
        playbook = agent("Answer.")
        await space.release(playbook, to="live", because="first")
        found = ExposureFeed(space.store, "live", [playbook.digest], [*RUN_METRICS, "rating"], after=0)

        async def told(do: str) -> dict[str, float]:
            with suppress(RunError):
                run = await space.run("live", key="anna", do=do)
                space.feedback(run, 0.5)
            return {each.metric: each.value for each in found.read() if isinstance(each, ExposureOutcome)}

        await space.run("live", do="answer")  # without a key it is no exposure
        assert [*found.read()] == []
        well = await told("answer")
        assert {**well, "latency_seconds": 0} == {
            "error_rate": 0.0,
            "violation_rate": 0.0,
            "latency_seconds": 0,
            "cost_usd": 1.0,
            "rating": 0.5,
        }
        assert well["latency_seconds"] > 0
        failed = await told("fail")
        assert (failed["error_rate"], failed["violation_rate"], failed["cost_usd"]) == (1.0, 0.0, 0.0)
        assert (await told("delete"))["violation_rate"] == 1.0  # it is never allowed
        assert (await told("refund"))["violation_rate"] == 1.0  # nobody allowed it


def test_a_run_waits_for_those_that_began_before_it_so_that_quick_failures_do_not_come_first(
    store: MemoryStore,
) -> None:
    found = reading(store, "error_rate")
    slow, quick, last, other = met(NEW, run=True), met(NEW, run=True), met(NEW, run=True), met(OLD, run=True)
    store.append([slow, quick, last, other, ended(quick, failed=True), ended(other)])
    assert outcomes(found) == [(OLD, "error_rate", 0.0, True)]  # the two sides do not wait for each other
    store.append([ended(slow)])
    assert [value for _, _, value, _ in outcomes(found)] == [0.0, 1.0]
    store.append([ended(last)])
    assert [value for _, _, value, _ in outcomes(found)] == [0.0]


def test_a_run_that_takes_very_long_keeps_nobody_waiting_and_is_read_when_it_ends(store: MemoryStore) -> None:
    found = reading(store, "error_rate")
    slow, quick = met(NEW, run=True), met(NEW, run=True)
    store.append([slow, quick, ended(quick, failed=True, at=slow.at + exposures.RUN_TIME)])
    assert outcomes(found) == []
    store.append([met(NEW, run=True, at=slow.at + 1.01 * exposures.RUN_TIME)])
    assert [value for _, _, value, _ in outcomes(found)] == [1.0]
    store.append([ended(slow)])
    assert [value for _, _, value, _ in outcomes(found)] == [0.0]


async def test_of_a_run_that_was_taken_up_again_its_first_end_counts() -> None:
    store = MemoryStore()
    ended = {"status": "failed", "latency_seconds": 1.0, "cost_usd": 0.0}
    one = met(NEW)
    run = Fact(kind="run", key=one.key, subject=NEW, at=one.at, by="ada", body=ended)
    again = Fact(
        kind="run", key=f"{one.key}@2", subject=NEW, at=one.at, by="ada", body={**ended, "status": "completed"}
    )
    found = reading(store, "error_rate")
    store.append([one, run])
    assert outcomes(found) == [(NEW, "error_rate", 1.0, True)]
    store.append([again])
    assert outcomes(found) == []
