"""The views over facts answer in plain SQL what docs/stores.md says they do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from loop_samples import searched
from sqlalchemy import Connection, create_engine, inspect, text

from seedbed import ExactMatch
from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.suite import SuiteScore, record_results
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.options import Comparing
from seedbed.experiments.sentinel import play_sentinel
from seedbed.models.cards import Registry
from seedbed.playbooks.formats import import_document
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.specialised import specialise
from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.delivery import send
from seedbed.release.alerts.senders.log import LogSender
from seedbed.release.assignment import Reader, choose, feedback
from seedbed.release.review.review import approve, refuse, request
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Failure, Run, Turn
from seedbed.runs.run_start import RunStart
from seedbed.spending.ledger import Ledger
from seedbed.stage.confirmation import Queue
from seedbed.stage.stage import Stage, StageOptions
from seedbed.stage.tools import tool, toolbox
from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import Fact, Json, Store
from seedbed.testing import fact

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
PAGE = Path(__file__).parents[3] / "docs" / "stores.md"

STRATEGY = {
    "metadata": {"name": "mail", "version": "1.1.0", "parent_version": "1.0.0"},
    "parameters": {"warmth": 0.5},
    "constraints": {},
    "evolution_metadata": {},
    "change_log": [{"version": "1.1.0", "date": "2026-01-01", "changes": [{"parameter": "warmth", "from": 0.4}]}],
}


@contextmanager
def database(url: str) -> Iterator[Connection]:
    """As a program that knows nothing of seedbed connects."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as db:
            yield db
    finally:
        engine.dispose()


async def use(store: Store) -> None:
    """Something of everything that seedbed records."""
    library, journal = Library(store, "ann"), Journal(store)

    async def look(at: str) -> str:
        return at

    async def routing() -> dict[str, Any]:
        told = {"step": "say", "model": "m", "because": "so", "task_type": "t", "quality": "maximum"}
        return {**told, "propensity": 0.5}

    start, better = (
        Playbook.from_document({"roles": {"writer": {"system": text}}, "rules": {"allow": ["look"]}})
        for text in ("Say 0.", "Echo.")
    )

    async def perform(_: str, playbook: Playbook, task: Task, seed: int, __: Ledger) -> Run:
        recorder = Recorder(
            journal, RunStart(playbook.digest, dict(task.inputs), seed=seed, models={}, parent="p"), by="ann"
        )
        await recorder.start()
        answer = task.expected if playbook == better else "0"
        told: dict[str, Any] = {"step": "say", "role": "writer", "model": "m", "messages": (), "text": answer}
        used = {"prompt_tokens": 3, "completion_tokens": 2, "cost_usd": 0.25, "latency_seconds": 0.5}
        turn = Turn(**told, **used, finish_reason="stop", seed=seed)

        async def said() -> Json:
            return turn.body()

        await recorder.record("turn", "say", answer, said)
        recorder.turns.append(turn)
        recorder.paid_usd += turn.cost_usd
        await recorder.record_failure(Failure(step="say", role="writer", error="too slow", cost_usd=0.25, tokens=4))
        asking = Queue(store, "ann", timedelta(0))
        stage = Stage(
            playbook,
            Registry({}).__getitem__,
            recorder,
            StageOptions(tools=toolbox([tool(look, changes=True)]), confirm=asking),
        )
        await stage.confirm("look", "so", {"at": "it"})
        await stage.call("look", at="it")
        await recorder.record("routing", "say", "x", routing)
        body = {"task_type": "t", "model": "m", "score": 1.0, "cost_usd": 0.5, "latency_seconds": 0.5}
        outcome = Fact(kind="outcome", key=recorder.id, subject=recorder.id, at=AT, by="ann", body=body, value=1.0)
        store.append([outcome])
        await stage.decide("label", "good", because="so", propensity=0.5, confidence=0.5)
        await stage.log("done")
        await stage.now()

        async def open_another(run: str) -> Run:
            child = Recorder(
                journal, RunStart(playbook.digest, {}, seed=1, models={}, parent=recorder.id), by="ann", run=run
            )
            await child.start()
            return await child.end("completed", answer)

        await recorder.record_child("say", "x", open_another)
        store.append([Fact(kind="heartbeat", key=recorder.id, subject=journal.worker, at=AT, by="ann")])
        # Older runs announced what they were about to change by facts of their own.
        store.append(
            [Fact(kind="intent", key=recorder.id, subject=recorder.id, at=AT, by="ann", body={"what": "look"})]
        )
        interrupted = Recorder(journal, RunStart(playbook.digest, {}, seed=1, models={}, parent="p"), by="ann")
        await interrupted.start()
        interrupted.claims.leave()
        return await recorder.end("completed", answer)

    tasks = Dataset(tuple(Task(f"t{n}", {"n": n}, f"{n % 4}") for n in range(20)))
    bench = EvaluationContext(store, perform, lambda playbook: {}, "ann")
    await searched(start, tasks, BestOf([better]), bench)
    await run_experiment(start, better, tasks, ExactMatch(), bench, Comparing(channel="production"))
    await play_sentinel(start, tasks, ExactMatch(), bench)
    card = await evaluate(better, tasks, ExactMatch(), bench)
    record_results([SuiteScore("first", "better", "numbers", tasks.digest, card)], store, by="ann", at=AT)
    told = {"judge": "b2:j", "name": "rubric", "labels": "b2:l", "n": 4, "unscored": 0, "low": 0.5, "high": 1.0}
    told |= {"raw": 1.0, "bias": 0.0, "cost_usd": 0.5}
    store.append([Fact(kind="agreement", key="a", subject="b2:j", at=AT, by="ann", body=told, value=0.75)])
    told = {"cell": "c", "playbook": "b2:p", "task": "t", "replicate": 0, "metric": "f1", "reason": "too slow"}
    body = {**told, "run": "", "cost_usd": 0.0, "tokens": 0}
    store.append([Fact(kind="lapse", key="l", subject="b2:e", at=AT, by="ann", body=body)])
    body = {"id": "t", "inputs": {}, "expected": "x", "playbook": "b2:p", "score": 0.5}
    store.append([Fact(kind="example", key="e", subject="branches/main", at=AT, by="ann", body=body, value=0.5)])
    body = {"search": "b2:s", "examples": 4, "start": "b2:p", "best": "b2:q", "moved": True}
    store.append([Fact(kind="training", key="t", subject="branches/main", at=AT, by="ann", body=body)])
    told = {"metric": "f1", "low": 0.25, "high": 0.5, "incumbent": 0.75, "chance": 0.05, "playbooks": 40, "tasks": 20}
    body = {**told, "audited": False}
    store.append([Fact(kind="skip", key="s", subject=start.digest, at=AT, by="ann", body=body, value=0.375)])
    library.tag(better.digest, "good")
    library.branch("side", start.digest, because="a try")
    library.close("side", "failed", because="no good")
    library.name("main", start.digest, because="the base")
    specialise(library, "law", "qa", "main", because="another kind of question")
    ref = store.move("channels/production", {"stable": start.digest}, expected=None, because="first", by="ann")
    store.move("channels/production", {"stable": better.digest}, expected=ref, because="better", by="bob")
    reader = Reader(library, "production")
    feedback(library, (await choose(reader, "user 1")).exposure, 0.5, "so so")
    told = Alert(
        channel="production", kind="held", severity="warning", message="It waits.", at=AT, key="a", details={"n": 1}
    )
    await send(library, [LogSender("log", "info", Path(os.devnull))], told)
    at = AT
    request(library, "production", better.digest, because="have a look")
    approve(Library(store, "eva"), "production", better.digest, because="fine")
    refuse(Library(store, "bob"), "production", better.digest, because="too long")
    store.append([Fact(kind="key", key="new", subject="keyring", at=at, by="eva", body={"generation": 2})])
    notes = import_document(STRATEGY).facts
    store.append(Fact(kind=note.kind, key=note.key, subject="p", at=at, by="ann", body=note.body) for note in notes)
    store.append([Fact(kind="score", key="s", subject="p", at=at, by="ann", body={"metric": "wins", "value": 0.5})])


def documented() -> dict[str, list[str]]:
    """The views that docs/stores.md lists, with their columns."""
    listed = re.findall(r"^\| `(\w+)` \| .+? \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    return {view: ["number", "at", "by", *re.findall(r"\w+", columns)] for view, columns in listed}


def test_the_documented_views_are_there_with_the_documented_columns(sql_store: SqlStore, sql_url: str) -> None:
    assert sql_store.kinds() == {}
    with database(sql_url) as db:
        there = {
            view: [column["name"] for column in inspect(db).get_columns(view)] for view in inspect(db).get_view_names()
        }
    assert there == documented()


async def test_every_kind_of_fact_that_is_recorded_has_a_view_that_shows_it(sql_store: SqlStore, sql_url: str) -> None:
    await use(sql_store)
    shown: dict[str, int] = {}
    with database(sql_url) as db:
        for view in documented():
            found = db.execute(text(f"SELECT * FROM {view}")).mappings().all()
            shown[view] = len(found)
            empty = {name for name in found[0] if all(row[name] is None for row in found)} if found else set()
            assert not empty, view
    assert sorted(shown.values()) == sorted(sql_store.kinds().values())


async def test_the_questions_of_the_documentation_are_answered(sql_store: SqlStore, sql_url: str) -> None:
    await use(sql_store)
    [block] = re.findall(r"```sql\n(.+?)```", PAGE.read_text(), re.DOTALL)
    moves, scores = (text(question) for question in block.split(";") if question.strip())
    with database(sql_url) as db:
        assert [(row.by, row.because) for row in db.execute(moves)] == [("bob", "better"), ("ann", "first")]
        assert sorted(row.mean for row in db.execute(scores)) == [0.25, 1.0]


async def test_views_show_times_numbers_and_texts_as_such(sql_store: SqlStore, sql_url: str) -> None:
    await use(sql_store)
    sql_store.append([fact("odd", "turn", body={"text": "nul \0 quote ' \\u0000", "step": "ü"})])
    with database(sql_url) as db:
        told = db.execute(text("SELECT * FROM key_changes")).one()
        at = told.at.astimezone(UTC) if isinstance(told.at, datetime) else told.at
        assert str(at).startswith("2026-01-02 03:04:05.678")
        run = db.execute(text("SELECT * FROM runs WHERE turns > 0 AND output = '0' ORDER BY number")).first()
        assert run is not None
        assert (run.status, run.output, run.tokens, run.cost_usd, run.turns) == ("completed", "0", 9, 0.5, 1)
        verdict = db.execute(
            text("SELECT finding, difference, 1.0 * wins / tasks AS won FROM verdicts WHERE wins > 4")
        ).one()
        assert verdict == ("superior", pytest.approx(verdict.won), pytest.approx(0.75, abs=0.2))
        odd = db.execute(text("SELECT text, step, role FROM turns WHERE turn = 'odd'")).one()
        assert odd.step == "ü"
        assert odd.role is None
        assert odd.text.startswith("nul ")  # SQLite's JSON ends a text there


async def test_views_of_sealed_bodies_show_who_and_when_and_nothing_within(sql_store: SqlStore, sql_url: str) -> None:
    sql_store.append([fact("a", "run", body={"sealed": "1:QUJD"}), fact("b", "cell", body={"sealed": "x"}, value=0.5)])
    with database(sql_url) as db:
        run = db.execute(text("SELECT by, run, status, tokens FROM runs")).one()
        assert run == ("ann", "a", None, None)
        assert db.execute(text("SELECT value, task FROM cells")).one() == (0.5, None)
