"""What another policy would have scored, from decisions as runs record them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pattern_samples import run

from seedbed.errors import DocumentError, NotFound, SeedbedError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Metric
from seedbed.evaluation.metrics.registry import by_name
from seedbed.experiments.patterns.traits import ScoredRun
from seedbed.experiments.screening.policies import Situation
from seedbed.experiments.screening.screening import DecisionLog, read_decisions, screen_policy
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Decision, RunStatus
from seedbed.runs.run_start import RunStart
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Store, digest

DAY = datetime(2026, 1, 1, tzinfo=UTC)
A, B = digest("playbook", {"name": "a"}), digest("playbook", {"name": "b"})
EXACT = by_name("exact_match")
WAY = "way"

Made = tuple[str, float | None]
"""An action, and its chance."""


def decision(action: str, chance: float | None, point: str = WAY) -> Decision:
    return Decision(point=point, action=action, because="by chance", propensity=chance, confidence=None)


async def recorded(
    store: Store,
    number: int,
    *made: Made,
    status: RunStatus = "completed",
    playbook: str = A,
    score: float | None = None,
    point: str = WAY,
    **more: Any,
) -> str:
    """A run that decided so, and has a cell if a score is given; its answer is its number."""
    at = DAY + timedelta(days=number)
    recorder = Recorder(
        Journal(store),
        RunStart(playbook, {"n": number}, seed=0, models={}, **more),
        by="ada",
        run=f"{number:032x}",
        clock=lambda: at,
    )
    await recorder.start()
    for action, chance in made:

        async def body(action: str = action, chance: float | None = chance) -> dict[str, Any]:
            return decision(action, chance, point).body()

        await recorder.record("decision", point, [action, chance], body)
    await recorder.end(status, str(number) if status == "completed" else None)
    if score is not None:
        key = f"{recorder.id}/{digest('metric', EXACT.identity)[3:19]}/{number}"
        body = {"run": recorder.id, "metric": "exact_match"}
        store.append([Fact(kind="cell", key=key, subject=playbook, at=at, by="ada", body=body, value=score)])
    return recorder.id


async def scores(store: Store, metric: Metric | None = EXACT, **more: Any) -> dict[int, float]:
    log = await read_decisions(store, WAY, metric, **more)
    return {int(scored.run.id, 16): scored.score for scored, _ in log.runs}


def log(seed: int = 1, n: int = 400, decisions: int = 1, **more: Any) -> DecisionLog:
    """Runs that ask or go by chance, 0.4 to 0.6; one that asks each time it decides passes, others do half the time."""
    draw = random.Random(seed)
    runs = []
    for number in range(n):
        made = [("ask", 0.4) if draw.random() < 0.4 else ("go", 0.6) for _ in range(decisions)]
        passed = all(action == "ask" for action, _ in made) or draw.random() < 0.5
        performed = run(f"{seed:04x}{number:08x}", {"n": number})
        scored = ScoredRun(performed, float(passed), Task(f"t{number}", {"n": number}))
        runs.append((scored, tuple(decision(*each) for each in made)))
    told: dict[str, Any] = {"point": WAY, "metric": "exact_match", "better": "higher", "options": ("ask", "go")}
    return DecisionLog(**{**told, "runs": tuple(runs), **more})


def asks(chance: float) -> Any:
    return lambda situation: {"ask": chance, "go": 1 - chance}


def refused(found: Any) -> list[str]:
    assert found.finding == "refused"
    assert not found.estimates
    return [each.path for each in found.refusals]


@pytest.mark.parametrize(("decisions", "first"), [(1, "sndr"), (2, "snips")])
def test_the_estimate_comes_near_the_truth(decisions: int, first: str) -> None:
    # The candidate asks nine times of ten, each time it decides.
    truth = 0.9**decisions + (1 - 0.9**decisions) * 0.5
    found = [screen_policy(log(seed, decisions=decisions), asks(0.9)) for seed in range(60)]
    told = [each for each in found if each.finding != "refused"]
    assert len(told) >= 51  # the interval of the mean weight misses 1 at times, too
    assert {next(iter(each.estimates)) for each in told} == {first}
    assert {each.finding for each in told} == {"promising"}
    intervals = [each.estimates[first] for each in told]
    missed = sum(not each.low <= truth <= each.high for each in intervals)
    assert missed <= 9  # of 60 at 5 % each: more than that once in a thousand times


def test_the_policy_that_decided_scores_what_was_scored_and_is_told_apart_from_nothing() -> None:
    found = screen_policy(log(), asks(0.4))
    assert found.estimates["snips"].mean == pytest.approx(found.logged.mean)
    assert found.weights.effective == pytest.approx(400)
    assert (found.finding, found.weights.coverage) == ("unclear", 1.0)


def test_where_less_is_better_more_is_worse() -> None:
    assert screen_policy(log(), asks(0.0)).finding == "unpromising"
    assert screen_policy(log(better="lower"), asks(0.0)).finding == "promising"
    assert screen_policy(log(better="lower"), asks(1.0)).finding == "unpromising"


def test_runs_of_one_task_are_no_evidence_of_their_own() -> None:
    once = log(n=300)
    repeated = DecisionLog(**{**{name: getattr(once, name) for name in once.__slots__}, "runs": once.runs * 3})
    for name, estimate in screen_policy(once, asks(0.8)).estimates.items():
        if name in ("ips", "snips"):  # guesses are made from other tasks, which are more now
            again = screen_policy(repeated, asks(0.8)).estimates[name]
            assert (again.low, again.high) == pytest.approx((estimate.low, estimate.high))


def test_too_few_runs_are_refused_and_say_why() -> None:
    found = screen_policy(log(n=40), asks(0.9))
    assert "effective sample size" in refused(found)
    assert found.document()["estimates"] == []
    assert "Try the candidate live" in found.next


def test_what_was_never_done_is_named_and_refused() -> None:
    found = screen_policy(log(), lambda situation: {"ask": 0.5, "wait": 0.5})
    assert refused(found)[0] == "policy"
    assert '"wait"' in found.refusals[0].found
    assert found.refusals[0].expected == "one of: ask, go"
    assert "coverage" in refused(found)
    assert found.weights.coverage == 0


def test_what_is_hardly_ever_wanted_and_was_never_done_is_a_notice() -> None:
    found = screen_policy(
        log(), lambda situation: {"wait": 1.0} if situation.inputs["n"] < 4 else {"ask": 0.5, "go": 0.5}
    )
    assert found.finding != "refused"
    assert found.weights.coverage == pytest.approx(0.99)
    assert '"wait"' in found.notices[0]


@pytest.mark.parametrize("decisions", [1, 2])
def test_what_was_certain_says_nothing_of_anything_else(decisions: int) -> None:
    certain = [(scored, tuple(decision("go", 1.0) for _ in made)) for scored, made in log(decisions=decisions).runs]
    always = log(runs=tuple(certain))
    assert "coverage" in refused(screen_policy(always, asks(0.5)))
    assert screen_policy(always, asks(0.0)).estimates["snips"].mean == pytest.approx(
        screen_policy(always, asks(0.0)).logged.mean
    )


def test_a_run_could_have_been_otherwise_only_if_each_of_its_decisions_could() -> None:
    first_certain = [(scored, (decision("go", 1.0), made[1])) for scored, made in log(decisions=2).runs]
    half = log(runs=tuple(first_certain))
    assert screen_policy(half, asks(0.5)).weights.coverage == 0
    then = screen_policy(half, lambda situation: {"ask": 0.5, "go": 0.5} if situation.earlier else {"go": 1.0})
    assert (then.weights.coverage, then.finding) == (1.0, "unclear")


def test_a_policy_sees_inputs_and_what_was_decided_before_and_not_what_came_of_it() -> None:
    seen: list[Situation] = []

    def policy(situation: Situation) -> dict[str, float]:
        seen.append(situation)
        return {"ask": 1.0}

    few = log(n=3, decisions=2)
    screen_policy(few, policy)
    assert [each.inputs["n"] for each in seen] == [0, 0, 1, 1, 2, 2]
    assert [each.earlier for each in seen[:2]] == [(), (few.runs[0][1][0].action,)]
    assert {each.options for each in seen} == {("ask", "go")}


@pytest.mark.parametrize(
    ("chances", "found"),
    [
        ({"ask": 0.5}, "sum to 0.5"),
        ({"ask": 1.5, "go": -0.5}, '"ask": 1.5'),
        ({"ask": float("nan")}, "nan"),
        ({}, "{}"),
        (None, "None"),
        ({"ask": True}, "True"),
    ],
)
def test_what_are_no_chances_is_refused(chances: Any, found: str) -> None:
    with pytest.raises(DocumentError, match="and 395 more like that") as wrong:
        screen_policy(log(), lambda situation: chances)
    assert all(found in problem.found for problem in wrong.value.problems)
    assert len(wrong.value.problems) == 5


def test_a_policy_that_breaks_is_told_with_the_run() -> None:
    with pytest.raises(DocumentError, match="run 0001000000: found KeyError: 'text'; expected chances"):
        screen_policy(log(n=1), lambda situation: situation.inputs["text"])


# From the store


async def test_runs_count_by_their_cells_or_by_the_metric_where_it_asks_nobody() -> None:
    store = MemoryStore()
    await recorded(store, 1, ("ask", 0.5), score=0.25)
    await recorded(store, 2, ("go", 0.5))
    await recorded(store, 3, ("go", 0.5))
    await recorded(store, 4, score=1.0)  # it never came to the decision
    tasks = [Task("t1", {"n": 1}, "1"), Task("t2", {"n": 2}, "2"), Task("t3", {"n": 3}, "9")]
    assert await scores(store, tasks=tasks) == {1: 0.25, 2: 1.0, 3: 0.0}
    assert await scores(store, tasks=tasks[:2]) == {1: 0.25, 2: 1.0}
    assert (await read_decisions(store, WAY, EXACT, tasks=tasks[:2])).unscored == 0
    told = await read_decisions(store, WAY, EXACT)
    assert (len(told.runs), told.unscored) == (1, 2)  # what is right is not known
    assert "2 more runs have no score" in screen_policy(told, asks(0.5)).notices[0]


async def test_a_run_that_failed_has_the_worst_score() -> None:
    store = MemoryStore()
    await recorded(store, 1, ("ask", 0.5), score=1.0)
    await recorded(store, 2, ("go", 0.5), status="failed")
    assert await scores(store) == {1: 1.0, 2: 0.0}
    store.append([Fact(kind="outcome", key="said", subject=f"{1:032x}", at=DAY, by="ada", value=0.5)])
    assert await scores(store, None) == {1: 0.5}  # nobody said how good the other was


async def test_runs_of_other_playbooks_of_before_and_replays_and_children_are_left_out() -> None:
    store = MemoryStore()
    await recorded(store, 1, ("ask", 0.5), score=1.0)
    await recorded(store, 2, ("ask", 0.5), score=1.0)
    await recorded(store, 3, ("ask", 0.5), score=1.0, playbook=B)
    await recorded(store, 4, ("ask", 0.5), score=1.0, parent="0" * 32)
    await recorded(store, 5, ("ask", 0.5), score=1.0, point="other")
    about = {"inputs": {}, "seed": 0, "models": {}, "parent": "", "max_cost_usd": None, "replay": {"of": f"{1:032x}"}}
    told = decision("ask", 0.5).body()
    replay: dict[str, Any] = {"at": DAY + timedelta(days=6), "by": "ada"}
    store.append(
        [
            Fact(kind="start", key="6" * 32, subject=A, body={**about, "worker": ""}, **replay),
            Fact(kind="decision", key=f"{'6' * 32}/decision", subject="6" * 32, body=told, **replay),
            Fact(kind="run", key="6" * 32, subject=A, body={**about, "status": "failed", "claim": 0}, **replay),
        ]
    )
    assert {*await scores(store)} == {1, 2, 3}
    assert (await read_decisions(store, WAY, EXACT)).unscored == 0
    assert {*await scores(store, playbook=A)} == {1, 2}
    assert {*await scores(store, since=DAY + timedelta(days=2))} == {2, 3}


async def test_decisions_without_a_chance_are_left_out_and_counted() -> None:
    store = MemoryStore()
    await recorded(store, 1, ("ask", 0.5), score=1.0)
    await recorded(store, 2, ("ask", 0.5), ("go", None), score=1.0)
    found = await read_decisions(store, WAY, EXACT)
    assert (len(found.runs), found.without_chance) == (1, 1)
    assert found.options == ("ask", "go")


async def test_errors_say_what_is_missing() -> None:
    store = MemoryStore()
    with pytest.raises(NotFound, match="no run is recorded here"):
        await read_decisions(store, WAY, EXACT)
    await recorded(store, 1, ("ask", None), score=1.0)
    with pytest.raises(SeedbedError, match=r'"way": found no chance in 1 runs; .* Give stage\.decide a propensity'):
        await read_decisions(store, WAY, EXACT)
    await recorded(store, 2, ("ask", 0.5), point="other")
    with pytest.raises(NotFound, match=r'no run decided at "wya"\. Points with recorded chances: "other"'):
        await read_decisions(store, "wya", EXACT)
    with pytest.raises(NotFound, match="no run of this playbook since then is recorded"):
        await read_decisions(store, WAY, EXACT, playbook=B, since=DAY)
    with pytest.raises(SeedbedError, match="found 1 runs without a score by exact_match"):
        await read_decisions(store, "other", EXACT)
    with pytest.raises(NotFound, match='no run on these tasks decided at "way"'):
        await read_decisions(store, WAY, EXACT, tasks=[Task("t", {"n": 77}, "1")])
    await recorded(store, 3, ("ask", 0.0), score=1.0)
    with pytest.raises(SeedbedError, match="found a chance of 0; expected one above 0 and at most 1"):
        await read_decisions(store, WAY, EXACT)
