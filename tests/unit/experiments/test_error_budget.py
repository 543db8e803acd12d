"""The error budget of a channel: who pays which level, whoever else is at it, and whatever happens to them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from loop_samples import agent, bench, count, numbers

from seedbed.errors import SeedbedError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import abort, run_experiment
from seedbed.experiments.experiment import RuleChoice
from seedbed.experiments.options import Comparing
from seedbed.experiments.proof import certificate
from seedbed.experiments.proof.error_budget import BudgetTerms, error_budget, next_level
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.multiplicity import ELond, Lord, e_from_p
from seedbed.storage import open_store, upkeep
from seedbed.storage.memory import MemoryStore
from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import Fact, Query, Store, now

OLD, BETTER, WORSE = agent("[0-4]|1."), agent(".*"), agent("x")
CAREFUL = BudgetTerms(control="e-lond")


async def judged(store: Store, candidate: Playbook, first: int = 0, channel: str = "production") -> float:
    verdict = await run_experiment(
        OLD, candidate, numbers(30, first=first), ExactMatch(), bench(store), Comparing(channel=channel)
    )
    return verdict.alpha


def paid(store: Store, terms: BudgetTerms | None = None) -> list[float]:
    """What each place in the line paid, of which everybody who computes it says the same."""
    budget = error_budget(store, "production", terms)
    places = list(store.facts(Query(kind="reservation", subject="production")))
    assert [fact.key for fact in places] == [f"production@{place}" for place in range(1, len(places) + 1)]
    levels = [budget.reserve(fact.body["experiment"]) for fact in places]
    assert levels == [fact.body["alpha"] for fact in places]
    return levels


async def test_each_candidate_pays_a_level_and_a_discovery_earns_some_back() -> None:
    store = MemoryStore()
    fresh = Lord(alpha=0.05)
    first = await judged(store, WORSE)
    assert first == fresh.next_alpha
    poor = error_budget(store, "production").balance()
    assert (poor.tested, poor.discoveries, poor.spent) == (1, 0, first)
    assert poor.next_alpha < first
    await judged(store, BETTER, first=100)
    rich = error_budget(store, "production").balance()
    assert (rich.tested, rich.discoveries) == (2, 1)
    assert rich.next_alpha > poor.next_alpha


async def test_a_comparison_that_is_repeated_or_goes_on_pays_once_and_at_the_same_level() -> None:
    store = MemoryStore()
    assert await judged(store, BETTER) == await judged(store, BETTER)
    assert error_budget(store, "production").balance().tested == 1


async def test_asking_again_in_another_order_is_another_candidate_to_pay_for() -> None:
    store = MemoryStore()
    first = await judged(store, WORSE)
    again = await run_experiment(
        OLD, WORSE, numbers(30), ExactMatch(), bench(store), Comparing(seed=1, channel="production")
    )
    assert again.alpha < first
    assert error_budget(store, "production").balance().tested == 2


async def test_other_channels_and_comparisons_for_none_cost_nothing_here() -> None:
    store = MemoryStore()
    await judged(store, WORSE, channel="staging")
    await run_experiment(OLD, WORSE, numbers(30), ExactMatch(), bench(store))
    balance = error_budget(store, "production").balance()
    assert (balance.tested, balance.waiting, balance.next_alpha) == (0, 0, Lord(alpha=0.05).next_alpha)


async def test_no_comparison_has_more_than_the_rate_of_the_budget_whatever_was_earned_at_once() -> None:
    store = MemoryStore()

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    candidates = [agent(f".*|{number}") for number in range(6)]
    for each in candidates:
        with pytest.raises(ZeroDivisionError):
            await run_experiment(
                OLD, each, numbers(90), ExactMatch(), bench(store, broken), Comparing(channel="production")
            )
    for each in candidates:
        verdict = await run_experiment(
            OLD, each, numbers(90), ExactMatch(), bench(store), Comparing(channel="production")
        )
        assert verdict.finding == "superior"
    assert error_budget(store, "production").next_alpha > 0.05
    assert await judged(store, BETTER) == 0.05


async def test_one_that_was_begun_and_never_answered_has_used_its_level() -> None:
    store = MemoryStore()

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_experiment(
            OLD, BETTER, numbers(30), ExactMatch(), bench(store, broken), Comparing(channel="production")
        )
    balance = error_budget(store, "production").balance()
    assert (balance.tested, balance.waiting, balance.spent) == (0, 1, Lord(alpha=0.05).next_alpha)


# At the same moment


class Together(SqlStore):
    """A store whose users all look at the budget before any of them takes a place."""

    def __init__(self, url: str, everybody: Barrier) -> None:
        super().__init__(url)
        self._everybody: Barrier | None = everybody

    def append(self, facts: Iterable[Fact]) -> int:
        batch = list(facts)
        if self._everybody and any(fact.kind == "reservation" for fact in batch):
            self._everybody.wait()
            self._everybody = None
        return super().append(batch)


def race(url: str, candidates: list[Playbook]) -> list[Verdict]:
    everybody = Barrier(len(candidates), timeout=60)

    def begun(candidate: Playbook) -> Verdict:
        with closing(Together(url, everybody)) as store:
            work = run_experiment(
                OLD, candidate, numbers(12), ExactMatch(), bench(store), Comparing(channel="production")
            )
            return asyncio.run(work)

    with ThreadPoolExecutor(len(candidates)) as pool:
        return list(pool.map(begun, candidates))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    shared = request.param == "postgresql"
    found = str(request.getfixturevalue("postgres_url")) if shared else f"sqlite:///{tmp_path / 'shared.db'}"
    open_store(found).close()
    return found


def test_all_that_begin_at_the_same_moment_get_places_and_levels_of_their_own(url: str) -> None:
    verdicts = race(url, [agent(f"x{number}") for number in range(6)])
    fresh = Lord(alpha=0.05)
    levels = [fresh.reserve(str(place)) for place in range(6)]
    assert sorted((verdict.alpha for verdict in verdicts), reverse=True) == levels
    with closing(open_store(url)) as store:
        assert paid(store) == levels
        assert {verdict.experiment: [] for verdict in verdicts} == certificate.verify(
            store, [verdict.experiment for verdict in verdicts]
        )


def test_one_comparison_that_several_begin_at_the_same_moment_pays_once(url: str) -> None:
    verdicts = race(url, [WORSE] * 4)
    assert len({verdict.experiment for verdict in verdicts}) == 1
    with closing(open_store(url)) as store:
        assert paid(store) == [Lord(alpha=0.05).next_alpha]


async def test_a_discovery_that_comes_while_a_place_is_taken_counts_for_the_next_one_for_everybody() -> None:
    class Interrupted(MemoryStore):
        late: Fact | None = None

        def append(self, facts: Iterable[Fact]) -> int:
            batch = list(facts)
            if self.late and batch and batch[0].kind == "reservation":
                late, self.late = self.late, None
                super().append([late])
            return super().append(batch)

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    elsewhere = MemoryStore()
    await judged(elsewhere, BETTER)
    store = Interrupted()
    with pytest.raises(ZeroDivisionError):
        await run_experiment(
            OLD, BETTER, numbers(30), ExactMatch(), bench(store, broken), Comparing(channel="production")
        )
    (store.late,) = elsewhere.facts(Query(kind="verdict"))
    fresh = Lord(alpha=0.05)
    levels = [fresh.reserve("first"), fresh.reserve("second")]
    assert await judged(store, WORSE, first=100) == levels[1]
    assert paid(store) == levels
    assert error_budget(store, "production").balance().discoveries == 1
    await judged(store, WORSE, first=200)
    assert paid(store)[2] > levels[1]


# What was begun


async def test_what_goes_on_has_the_level_it_was_begun_with_whatever_came_since() -> None:
    store = MemoryStore()

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    given: dict[str, Any] = {"channel": "production"}
    with pytest.raises(ZeroDivisionError):
        await run_experiment(OLD, BETTER, numbers(30), ExactMatch(), bench(store, broken), Comparing(**given))
    level = next_level(MemoryStore(), "production")
    await judged(store, WORSE, first=100)
    for terms in (BudgetTerms(), BudgetTerms(rate=0.01), CAREFUL):
        verdict = await run_experiment(
            OLD, BETTER, numbers(30), ExactMatch(), bench(store), Comparing(terms=terms, **given)
        )
        assert (verdict.alpha, verdict.rule) == (level, "exact mcnemar")
    assert len(paid(store)) == 2


KILLED = """
import asyncio, os, signal, sys

sys.path.insert(0, sys.argv[2])
from test_error_budget import BETTER, judged
from seedbed.storage.sql.store import SqlStore


class Fatal(SqlStore):
    def append(self, facts):
        batch = list(facts)
        if any(fact.kind == "comparison" for fact in batch):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().append(batch)


asyncio.run(judged(Fatal(sys.argv[1]), BETTER))
"""


async def test_one_that_is_killed_before_it_is_registered_has_paid_and_goes_on_at_its_level(url: str) -> None:
    here = Path(__file__).parent
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(here.parent)!r})\n{KILLED}", url, str(here)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    fresh = Lord(alpha=0.05)
    first, second = fresh.reserve("killed"), fresh.reserve("other")
    with closing(open_store(url)) as store:
        assert (count(store, "reservation"), count(store, "comparison")) == (1, 0)
        assert error_budget(store, "production").balance().waiting == 1
        assert upkeep.verify(store).problems == ()
        assert await judged(store, WORSE, first=100) == second
        assert await judged(store, BETTER) == first
        assert paid(store) == [first, second]
        keys = [fact.key for fact in store.facts(Query(kind="verdict"))]
        assert certificate.verify(store, keys) == {key: [] for key in keys}


async def test_one_that_was_stopped_by_hand_is_no_discovery_and_gets_nothing_back() -> None:
    store = MemoryStore()

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_experiment(
            OLD, BETTER, numbers(30), ExactMatch(), bench(store, broken), Comparing(channel="production")
        )
    (begun,) = store.facts(Query(kind="comparison"))
    abort(store, begun.key, because="enough", by="ada", clock=now)
    balance = error_budget(store, "production").balance()
    assert (balance.tested, balance.waiting, balance.discoveries) == (1, 0, 0)
    assert balance.spent == Lord(alpha=0.05).next_alpha


# e-LOND


async def careful(store: Store, candidate: Playbook, rule: RuleChoice = None, **given: Any) -> Verdict:
    tasks = numbers(90)
    return await run_experiment(
        OLD,
        candidate,
        tasks,
        ExactMatch(),
        bench(store),
        Comparing(rule=rule, channel="production", terms=CAREFUL, **given),
    )


async def test_with_e_lond_a_comparison_bets_and_is_a_discovery_where_it_ends() -> None:
    store, fresh = MemoryStore(), ELond(alpha=0.05)
    worse, better = await careful(store, WORSE), await careful(store, BETTER)
    assert (worse.rule, better.rule) == ("betting", "betting")
    assert (worse.finding, better.finding) == ("inferior", "superior")
    levels = [fresh.reserve("worse"), fresh.reserve("better")]
    assert [worse.alpha, better.alpha] == levels == paid(store, CAREFUL)
    assert better.e is not None
    assert better.e >= 1 / better.alpha
    bank = error_budget(store, "production", CAREFUL)
    assert isinstance(bank, ELond)
    assert bank.discoveries() == [better.experiment]
    fresh.tell("better", better.e)
    assert next_level(store, "production", CAREFUL) == fresh.next_alpha > levels[1]
    keys = [worse.experiment, better.experiment]
    assert certificate.verify(store, keys) == {key: [] for key in keys}


@pytest.mark.parametrize("rule", ["exact", {"rule": "exact", "effect": 0.3}])
async def test_with_e_lond_a_rule_without_bets_must_show_as_much_by_its_p_value(rule: RuleChoice) -> None:
    store, level = MemoryStore(), ELond(alpha=0.05).next_alpha
    verdict = await careful(store, BETTER, rule)
    assert (verdict.rule, verdict.finding, verdict.e) == ("exact mcnemar", "superior", None)
    assert e_from_p(verdict.alpha) == pytest.approx(1 / level)
    assert error_budget(store, "production", CAREFUL).discoveries() == [verdict.experiment]
    plain = await run_experiment(
        OLD, BETTER, numbers(90), ExactMatch(), bench(store), Comparing(rule=rule, alpha=level)
    )
    assert plain.tasks < verdict.tasks


async def test_settings_of_a_rule_are_kept_when_e_lond_chooses_betting() -> None:
    verdict = await careful(MemoryStore(), OLD, {"effect": 0.5})
    assert (verdict.rule, verdict.finding) == ("betting", "futile")


async def test_with_e_lond_no_level_exceeds_the_rate_of_the_budget() -> None:
    store = MemoryStore()
    for number in range(8):
        assert (await careful(store, agent(f".*|{number}"))).finding == "superior"
        assert next_level(store, "production", CAREFUL) <= 0.05


# What is refused


async def test_an_error_rate_beside_that_of_the_budget_is_refused() -> None:
    store = MemoryStore()
    with pytest.raises(SeedbedError, match=r"alpha: found 0\.01; expected none: the error budget of channel"):
        await careful(store, BETTER, alpha=0.01)
    assert store.kinds() == {}


def test_a_control_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SeedbedError, match='control: found "lond"; expected one of lord, e-lond'):
        BudgetTerms(control="lond")


async def test_a_rule_that_does_not_fit_takes_no_place() -> None:
    store = MemoryStore()
    with pytest.raises(SeedbedError, match="rule: found"):
        await careful(store, BETTER, "coin")
    assert count(store, "reservation") == 0
