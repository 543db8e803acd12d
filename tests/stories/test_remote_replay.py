"""Past runs replayed by many processes: the same verdict, nothing paid twice, never more than was said."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import seedbed
from model_server import Answer, ModelServer, Request, serving
from seedbed import Dataset, ExactMatch, Playbook, Task, Workspace
from seedbed.errors import BudgetSpent
from seedbed.experiments.evidence_sources import PastRuns, past_runs
from seedbed.experiments.proof.certificate import certificate, verify
from seedbed.settings import Settings
from seedbed.storage.store import Query, Store

OLD, NEW = (
    Playbook.from_document({"roles": {"one": {"model": "m", "system": system, "max_tokens": 1}}})
    for system in ("Even or odd?", "Even or odd? Think.")
)


def parity(request: Request) -> Answer:
    """Whoever is told to think says what is so; the other says odd. Each word costs a dollar."""
    system, *_, last = (message["content"] for message in request["messages"])
    even = "Think" in system and int(last.split()[-1]) % 2 == 0
    return Answer("even" if even else "odd", usage={"prompt_tokens": 1, "completion_tokens": 1})


@contextmanager
def opened(folder: Path, server: ModelServer, name: str = "seedbed") -> Iterator[Workspace]:
    card = {"use": "openai", "args": {"model": "m", "base_url": server.url}, "usd_per_million": [0, 1_000_000]}
    space = seedbed.open(Settings(store=f"sqlite:///{folder}/{name}.db", by="ada", models={"m": card}))
    try:
        yield space
    finally:
        space.close()


def known(size: int) -> Dataset:
    return Dataset(tuple(Task(f"t{n}", {"question": f"Is it {n}"}, "odd" if n % 2 else "even") for n in range(size)))


async def lived(space: Workspace, size: int = 40) -> PastRuns:
    """Past runs of the old playbook, with the answers that were expected."""
    for task in known(size):
        await space.run(OLD, seed=1, **task.inputs)
    return past_runs(expected=known(size))


def paid(store: Store, tag: str | None = None) -> float:
    return sum(fact.body["cost_usd"] for fact in store.facts(Query(kind="turn", tag=tag)))


def told(verdict: Any) -> tuple[Any, ...]:
    return verdict.finding, verdict.tasks, verdict.at_most, verdict.outcomes, verdict.difference


async def test_past_runs_replayed_by_other_processes_come_to_the_same_verdict(tmp_path: Path) -> None:
    verdicts = []
    with serving(script=parity) as server:
        with opened(tmp_path, server, "loop") as space:
            past = await lived(space)
        shutil.copy(tmp_path / "loop.db", tmp_path / "processes.db")
        for where in ("loop", "processes"):
            server.requests.clear()
            with opened(tmp_path, server, where) as space:
                verdict = await space.compare(
                    OLD,
                    NEW,
                    on=replace(past, mode="fork:1"),
                    metric=ExactMatch(),
                    parallel={"processes": 2}.get(where, where),
                )
                replays = verdict.replays
                assert replays
                assert (len(replays.tasks), replays.replayable.missed) == (40, {})
                assert replays.fidelity.agreement.rate.n == 40
                assert not verify(space.store, [verdict.experiment])[verdict.experiment]
                assert certificate(space.store, verdict.experiment).flags["replay_coverage"]
                starts = [fact for fact in space.store.facts(Query(kind="start")) if "replay" in fact.body]
                assert (len(starts), len({fact.body["worker"] for fact in starts}) > 1) == (80, where == "processes")
            asked = Counter(str(request["messages"]) for request in server.requests)
            assert (len(asked), set(asked.values())) == (80, {1})  # each playbook at each task, once
            verdicts.append(told(verdict))
    assert verdicts[0] == verdicts[1]
    assert verdicts[0][0] == "superior"


async def test_recordings_that_cannot_answer_are_told_of_by_the_process_that_found_it(tmp_path: Path) -> None:
    with serving(script=parity) as server, opened(tmp_path, server) as space:
        past = await lived(space, 6)
        odd = Playbook.from_document({**OLD.document(), "parameters": {"x": {"value": 1, "low": 0, "high": 2}}})
        verdict = await space.compare(OLD, odd, on=past, metric=ExactMatch(), parallel=2)
        assert verdict.replays
        assert (verdict.replays.fidelity.agreement.agreed, len(verdict.replays.tasks), verdict.ties) == (6, 6, 6)
        with pytest.raises(Exception, match=r'messages.0.text: found "Even or odd\? Think."'):
            await space.compare(OLD, NEW, on=past, metric=ExactMatch(), parallel=2)


async def test_replays_by_other_processes_never_cost_more_than_was_said_and_go_on(tmp_path: Path) -> None:
    with serving(script=parity) as server, opened(tmp_path, server) as space:
        past = await lived(space)
        before = paid(space.store)
        how: dict[str, Any] = {"metric": ExactMatch(), "on": replace(past, mode="fork:1"), "parallel": 2}
        with pytest.raises(BudgetSpent, match="higher limit"):
            await space.compare(OLD, NEW, max_cost_usd=30.0, **how)
        assert 0 < paid(space.store) - before <= 30.0
        assert "comparison" not in space.store.kinds()
        verdict = await space.compare(OLD, NEW, max_cost_usd=80.0, **how)
        assert verdict.finding == "superior"
        assert paid(space.store) - before == 80.0  # each replay once, whoever paid for it


async def test_both_arms_of_a_comparison_by_other_processes_share_the_money(tmp_path: Path) -> None:
    with serving(script=parity) as server, opened(tmp_path, server) as space:
        with pytest.raises(BudgetSpent, match="higher limit"):
            await space.compare(OLD, OLD_TOO, on=known(40), metric=ExactMatch(), max_cost_usd=30.0, parallel=2)
        assert 0 < paid(space.store) <= 30.0
        verdict = await space.compare(OLD, OLD_TOO, on=known(40), metric=ExactMatch(), parallel=2)
        assert (verdict.tasks, verdict.failed) == (40, ())


OLD_TOO = Playbook.from_document({"roles": {"one": {"model": "m", "system": "Odd or even?", "max_tokens": 1}}})
"""As good as the old one, so that all tasks are needed."""
