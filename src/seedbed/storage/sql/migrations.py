"""Migrations: the schema of a SQL store, in numbered steps up and down.

Content, facts and refs survive every step in either direction; what is derived from them is rebuilt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, inspect

from seedbed.errors import StoreError, StoreTooNew
from seedbed.storage.paths import without_password
from seedbed.storage.sql.dialects import Dialect


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: the statements to go up and down, for each dialect."""

    name: str
    up: Mapping[str, Iterable[str]]
    down: Iterable[str]
    fill: Callable[[Dialect, Connection], None] | None = None
    """Fills what the step added from the data that is already there."""

    @property
    def number(self) -> int:
        return int(self.name[1:4])


def version(db: Connection) -> int:
    """The number of the newest migration of the database; 0 if it has none."""
    if not inspect(db).has_table("migrations"):
        return 0
    return int(db.exec_driver_sql("SELECT coalesce(max(number), 0) FROM migrations").scalar_one())


def migrate(engine: Engine, dialect: Dialect, to: int | None = None) -> None:
    """Migrate a database to a version, by default the newest. Each step is one transaction.

    Raises StoreTooNew if a newer seedbed wrote the database, and StoreError if a step down would lose data: version 0
    has no tables.
    """
    goal = target_version(to)
    with engine.connect() as db:
        while _known(version(db), engine) != goal:
            db.rollback()
            db.exec_driver_sql(dialect.begin)
            dialect.lock_chain(db)
            current = _known(version(db), engine)  # somebody else may have migrated while we waited for the lock
            if current < goal:
                _up(dialect, db, MIGRATIONS[current])
            elif current > goal:
                _down(db, MIGRATIONS[current - 1])
            db.commit()


def target_version(to: int | None) -> int:
    """The version to migrate to, by default the newest. Raises StoreError if there is no such version."""
    goal = NEWEST if to is None else to
    if not 0 <= goal <= NEWEST:
        raise StoreError(f"found schema version {goal}; expected one of 0 to {NEWEST}")
    return goal


def _known(version: int, engine: Engine) -> int:
    if version > NEWEST:
        raise StoreTooNew(
            f"{without_password(str(engine.url))} has schema version {version}; this seedbed knows versions up to"
            f" {NEWEST}. Upgrade seedbed, or go back to version {NEWEST} with the seedbed that wrote it"
        )
    return version


def _up(dialect: Dialect, db: Connection, step: Migration) -> None:
    if step.number == 1:
        db.exec_driver_sql(
            "CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, at BIGINT NOT NULL)"
        )
    for statement in step.up[dialect.name]:
        db.exec_driver_sql(statement)
    if step.fill:
        step.fill(dialect, db)
    at = time.time_ns() // 1000
    db.exec_driver_sql(f"INSERT INTO migrations (number, name, at) VALUES ({step.number}, '{step.name}', {at})")


def _down(db: Connection, step: Migration) -> None:
    if step.number == 1:
        for table in ("content", "facts", "refs"):
            if db.exec_driver_sql(f"SELECT 1 FROM {table} LIMIT 1").first():
                raise StoreError(
                    f"going back to version 0: found rows in {table}; expected an empty store, as they would be lost."
                    " Copy the store elsewhere and delete the database instead"
                )
    for statement in step.down:
        db.exec_driver_sql(statement)
    if step.number == 1:
        db.exec_driver_sql("DROP TABLE migrations")
    else:
        db.exec_driver_sql(f"DELETE FROM migrations WHERE number = {step.number}")


m001_tables = Migration(
    "m001_tables",
    up={
        "sqlite": (
            """CREATE TABLE content (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                digest TEXT NOT NULL UNIQUE,
                kind TEXT NOT NULL,
                body TEXT NOT NULL,
                at INTEGER NOT NULL
            )""",
            """CREATE TABLE facts (
                number INTEGER PRIMARY KEY AUTOINCREMENT,
                kind TEXT NOT NULL,
                key TEXT NOT NULL,
                subject TEXT NOT NULL,
                at INTEGER NOT NULL,
                by TEXT NOT NULL,
                value REAL,
                body TEXT NOT NULL,
                parents TEXT,
                tags TEXT,
                link TEXT
            )""",
            "CREATE UNIQUE INDEX facts_key ON facts (kind, key)",
            "CREATE INDEX facts_kind ON facts (kind, number, at)",
            "CREATE INDEX facts_subject ON facts (kind, subject, number)",
            "CREATE INDEX facts_by ON facts (kind, by, number, at)",
            "CREATE INDEX facts_at ON facts (kind, at)",
            "CREATE INDEX facts_chain ON facts (number) WHERE link IS NOT NULL",
            """CREATE TABLE refs (
                name TEXT PRIMARY KEY,
                target TEXT,
                version INTEGER NOT NULL,
                at INTEGER NOT NULL,
                by TEXT NOT NULL,
                because TEXT NOT NULL
            ) WITHOUT ROWID""",
        ),
        "postgresql": (
            """CREATE TABLE content (
                id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
                digest TEXT COLLATE "C" NOT NULL UNIQUE,
                kind TEXT COLLATE "C" NOT NULL,
                body TEXT NOT NULL,
                at BIGINT NOT NULL
            )""",
            """CREATE TABLE facts (
                number BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
                kind TEXT COLLATE "C" NOT NULL,
                key TEXT COLLATE "C" NOT NULL,
                subject TEXT COLLATE "C" NOT NULL,
                at BIGINT NOT NULL,
                by TEXT COLLATE "C" NOT NULL,
                value DOUBLE PRECISION,
                body TEXT NOT NULL,
                parents TEXT,
                tags TEXT,
                link TEXT
            )""",
            "CREATE UNIQUE INDEX facts_key ON facts (kind, key)",
            "CREATE INDEX facts_kind ON facts (kind, number, at)",
            "CREATE INDEX facts_subject ON facts (kind, subject, number)",
            "CREATE INDEX facts_by ON facts (kind, by, number, at)",
            "CREATE INDEX facts_at ON facts (kind, at)",
            "CREATE INDEX facts_chain ON facts (number) WHERE link IS NOT NULL",
            """CREATE TABLE refs (
                name TEXT COLLATE "C" PRIMARY KEY,
                target TEXT,
                version BIGINT NOT NULL,
                at BIGINT NOT NULL,
                by TEXT NOT NULL,
                because TEXT NOT NULL
            )""",
        ),
    },
    down=("DROP TABLE refs", "DROP TABLE facts", "DROP TABLE content"),
)

m002_search = Migration(
    "m002_search",
    up={
        "sqlite": (
            # The words come split and folded, separated by single spaces, so the tokenizer must change nothing.
            "CREATE VIRTUAL TABLE search USING fts5(words, content='', detail=none, columnsize=0, tokenize='ascii')",
            """CREATE TABLE fact_tags (
                tag TEXT NOT NULL,
                kind TEXT NOT NULL,
                number INTEGER NOT NULL,
                PRIMARY KEY (tag, kind, number)
            ) WITHOUT ROWID""",
        ),
        "postgresql": (
            """CREATE TABLE search (
                rowid BIGINT PRIMARY KEY,
                words TSVECTOR NOT NULL
            )""",
            "CREATE INDEX search_words ON search USING gin (words)",
            """CREATE TABLE fact_tags (
                tag TEXT COLLATE "C" NOT NULL,
                kind TEXT COLLATE "C" NOT NULL,
                number BIGINT NOT NULL,
                PRIMARY KEY (tag, kind, number)
            )""",
        ),
    },
    down=("DROP TABLE search", "DROP TABLE fact_tags"),
    fill=lambda dialect, db: dialect.index(db),
)

# A view per kind of fact: its number, time and author, then columns of the fact (name:column) and fields of its body
# (name, or name:body.field), those marked # as numbers.
_VIEWS = {
    "derivation": "derivations playbook:subject how because parents:parents tags:tags",
    "tag": "tags playbook:subject tag:first_tag",
    "branch": "branches ref:subject state playbook:body.digest because",
    "specialisation": "specialisations ref:subject base inherited playbook",
    "move": "moves ref:subject target:body.to previous:body.from because link:link",
    "request": "requests playbook:subject channel because",
    "approval": "approvals playbook:subject channel because link:link",
    "refusal": "refusals playbook:subject channel because",
    "exposure": "exposures exposure:key channel:subject unit arm playbook share# propensity# version#",
    "feedback": "feedbacks run:subject metric rating:value comment",
    "alert": "alerts alert:key channel:subject what severity told details resolved",
    "delivery": "deliveries alert:subject sender status attempts# error",
    "key": "key_changes generation# link:link",
    "start": "starts run:key playbook:subject inputs seed# parent worker",
    "claim": "claims run:subject worker",
    "heartbeat": "heartbeats worker:subject",
    "run": "runs run:key playbook:subject status inputs output error seed# turns# tokens# cost_usd# latency_seconds#",
    "turn": "turns turn:key run:subject step role model text finish_reason"
    " prompt_tokens# completion_tokens# cost_usd# latency_seconds#",
    "failure": "failures failure:key run:subject step role error cost_usd# tokens#",
    "routing": "routings routing:key run:subject step model propensity# because task_type quality",
    "outcome": "outcomes run:subject task_type model score:value cost_usd# latency_seconds#",
    "call": "calls call:key run:subject tool arguments result error changes latency_seconds#",
    "decision": "decisions decision:key run:subject point action because propensity# confidence# answered",
    "question": "questions question:key run:subject playbook action arguments because until",
    "answer": "answers question:key run:subject action answer because link:link",
    "reading": "readings run:subject name value:body.value",
    "child": "children child:body.run run:subject step status output error tokens# cost_usd#",
    "remark": "remarks run:subject text",
    "intent": "intents run:subject what",
    "cell": "cells playbook:subject task replicate# metric value:value answer reason run"
    " cost_usd# tokens# latency_seconds#",
    "verdict": "verdicts experiment:key control candidate:subject dataset metric finding tasks# wins# ties# losses#"
    " control_mean# candidate_mean# difference:value low# high# p#",
    "comparison": "comparisons experiment:key control candidate:subject dataset channel alpha#",
    "reservation": "reservations channel:subject place# experiment candidate alpha# rate# control answered#",
    "lapse": "lapses experiment:subject playbook task replicate# metric reason run cost_usd# tokens#",
    "sentinel": "sentinels experiment:key playbook:subject dataset metric finding alpha# false_winner:value",
    "suite": "suites playbook:subject suite name dataset metric value:value low# high# tasks# cost_usd# regressed",
    "agreement": "agreements judge:subject name labels n# unscored# kappa:value low# high# raw# bias# cost_usd#",
    "skip": "skips playbook:subject metric predicted:value low# high# incumbent# chance# playbooks# tasks# audited",
    "search": "searches search:key start:subject optimizer budget seed#",
    "round": "rounds search:subject runs# tasks#",
    "step": "steps search:subject step# best runs# tokens# usd# seconds# score:value",
    "example": "examples line:subject id expected playbook score:value",
    "training": "trainings line:subject search start best moved",
    "evolution": "evolutions search:key start best:subject dataset metric tried# runs# tokens# usd# ended value:value",
    "trial": "trials playbook:subject dataset",
    "import": "imports playbook:subject format source document",
    "parent": "parents playbook:subject ref",
    "change": "changes playbook:subject path version date",
    "score": "scores playbook:subject metric value#",
}


_WRITTEN = {
    "sqlite": {
        "at": "strftime('%Y-%m-%d %H:%M:%f', at / 1000000.0, 'unixepoch')",
        "text": "json_extract(body, '$.{}')",
        "number": "json_extract(body, '$.{}')",
        "first_tag": "json_extract(tags, '$[0]')",
        "facts": "facts",
    },
    "postgresql": {
        "at": "timestamptz 'epoch' + at * interval '1 microsecond'",
        "text": "told.body ->> '{}'",
        "number": "(told.body ->> '{}')::float8",
        "first_tag": "tags::json ->> 0",
        # jsonb holds no NUL, and one text with it would make the whole view fail.
        "facts": "facts CROSS JOIN LATERAL (SELECT regexp_replace("
        r"facts.body, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::jsonb AS body OFFSET 0) AS told",
    },
}


def _view(kind: str, columns: str, written: Mapping[str, str]) -> str:
    name, *fields = columns.split()
    selected = ["number", f"{written['at']} AS at", "by"]
    for field in fields:
        alias, _, source = field.removesuffix("#").partition(":")
        if not source or source.startswith("body."):
            value = written["number" if field.endswith("#") else "text"].format(source.removeprefix("body.") or alias)
        else:
            value = written.get(source, f"facts.{source}")
        selected.append(f"{value} AS {alias}")
    return f"CREATE VIEW {name} AS SELECT {', '.join(selected)} FROM {written['facts']} WHERE kind = '{kind}'"


m003_views = Migration(
    "m003_views",
    up={
        dialect: [_view(kind, columns, written) for kind, columns in _VIEWS.items()]
        for dialect, written in _WRITTEN.items()
    },
    down=[f"DROP VIEW {columns.split()[0]}" for columns in _VIEWS.values()],
)

MIGRATIONS = (m001_tables, m002_search, m003_views)
NEWEST = MIGRATIONS[-1].number
