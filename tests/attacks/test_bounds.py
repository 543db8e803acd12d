"""Attacks on memory and time: answers, expressions and files that grow without end, and runs that do not end."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import seedbed
from model_server import Answer, serving
from seedbed.errors import DatasetError, ModelUnavailable, Problem, RunError, SeedbedError
from seedbed.evaluation.datasets import files
from seedbed.evaluation.metrics.instructions import followed
from seedbed.evaluation.metrics.matching import json_schema, regex
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.evolution.variation.edits import out_of_style
from seedbed.models.calling import connections
from seedbed.models.cards import Registry
from seedbed.models.chat import Message, ask, stream
from seedbed.playbooks.playbook import Playbook
from seedbed.redaction import redact
from seedbed.release.gates.content import HAZARDS
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.testing.metric import a_run
from seedbed.workspace import Workspace

HELLO = [Message("user", "hello")]
CATASTROPHE = "(a|a)*(a|aa)+$"


def registry(url: str) -> Registry:
    return Registry({"one": {"use": "openai", "args": {"model": "m", "base_url": url}}})


# Answers


async def collected(pieces: Any) -> list[Any]:
    return [piece async for piece in pieces]


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_without_end_is_cut_off_and_paid_for(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_BYTES", 100_000)
    with serving(Answer("word " * 40_000)) as server:
        model = registry(server.url)["one"]
        asking = collected(stream(model, HELLO)) if streamed else ask(model, HELLO)
        with pytest.raises(ModelUnavailable, match="more than 100,000 bytes; expected fewer") as cut:
            await asking
    assert (cut.value.why, cut.value.paid) == ("transient", True)


async def test_sixty_megabytes_are_not_read() -> None:
    body = b'{"choices": [{"message": {"content": "' + b"x" * 60_000_000
    with serving(Answer(body=body)) as server, pytest.raises(ModelUnavailable, match="more than 32,000,000 bytes"):
        await ask(registry(server.url)["one"], HELLO)


async def test_a_redirect_is_followed_within_its_origin_only() -> None:
    with serving(Answer("elsewhere")) as other:
        moved = Answer(status=307, headers={"Location": "/v1/chat/completions?new"})
        with serving(moved, Answer("hello")) as server:
            got = await ask(registry(server.url)["one"], HELLO)
        assert got.text == "hello"
        away = Answer(status=307, headers={"Location": f"{other.url}/chat/completions"})
        with serving(away) as server, pytest.raises(ModelUnavailable, match=r"from 127\.0\.0\.1 to another origin"):
            await ask(registry(server.url)["one"], HELLO)
    assert other.requests == []


# Expressions


async def test_an_expression_that_takes_too_long_gives_no_score() -> None:
    run = a_run("a" * 60 + "b")
    score = await regex(run, seedbed.Task("t", {}, CATASTROPHE))
    assert score.value is None
    assert "took longer than 1 s" in score.reason
    assert (await regex(run, seedbed.Task("t", {}, "a+(b)"))).answer == "b"  # the next one is matched


@pytest.mark.parametrize(
    "pattern",
    ["a?" * 40 + "a" * 40 + "c", "(?:a|a)" * 40 + "c"],
    ids=["optional", "alternatives"],
)
async def test_nor_does_one_that_repeats_nothing(pattern: str) -> None:
    assert "took longer than 1 s" in (await regex(a_run("a" * 60), seedbed.Task("t", {}, pattern))).reason


async def test_nor_does_one_in_a_schema() -> None:
    for schema in ({"pattern": CATASTROPHE}, {"patternProperties": {CATASTROPHE: {}}}):
        output = {"a" * 60 + "b": 1} if "patternProperties" in schema else "a" * 60 + "b"
        score = await json_schema(a_run(json.dumps(output)), seedbed.Task("t", {}, schema))
        assert "took longer than 1 s" in score.reason


@pytest.mark.parametrize("pattern", ["a{99999999999999999999}", "(" * 3_000 + ")" * 3_000])
async def test_an_expression_that_cannot_be_compiled_is_a_mistake_that_is_said(pattern: str) -> None:
    score = await regex(a_run("a"), seedbed.Task("t", {}, pattern))
    assert "not a regular expression" in score.reason
    with pytest.raises(SeedbedError):
        parse_metric(f"regex(pattern={json.dumps(pattern)})")


LONG = 100_000


@pytest.mark.parametrize("unit", ["\n", " ", ".", "!", "a-", "a.", "sk-", "-eyJaaaaaaaa", "``` \n", "1."])
async def test_what_a_model_repeats_is_read_in_linear_time(unit: str) -> None:
    text = (unit * LONG)[:LONG]
    run, task = a_run(f"```json\n{text}"), seedbed.Task("t", {"q": f"A) x{text}"}, "A")
    before = time.process_time()
    redact(text)
    Problem.read(text)
    SeedbedError(f"found {text}")
    HAZARDS["an address"].search(text)
    out_of_style(text, [text])
    followed(text, seedbed.Task("t", {"instruction_id_list": ["length_constraints:number_sentences"], "kwargs": [{}]}))
    for name in ("choice", "json_valid", "rule_violations"):
        score = parse_metric(name)(replace(run, error=text), task)
        if inspect.isawaitable(score):
            await score
    assert time.process_time() - before < 20  # quadratic time would take hours


def test_an_instruction_whose_keyword_takes_too_long_is_unknown() -> None:
    task = seedbed.Task("t", {"instruction_id_list": ["keywords:existence"], "kwargs": [{"keywords": [CATASTROPHE]}]})
    assert "took longer" in followed("a" * 60 + "b", task).unknown


def done(output: str) -> Any:
    from seedbed.testing.metric import a_run

    return a_run(output)


# Files


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_DOCUMENT", 1_000_000)


@pytest.mark.usefixtures("small")
def test_a_small_parquet_file_of_many_long_texts_is_refused(tmp_path: Path) -> None:
    places = pyarrow.array([0] * 4_096, pyarrow.int32())
    texts = pyarrow.DictionaryArray.from_arrays(places, pyarrow.array(["x" * 4_096]))
    rows = pyarrow.array(map(str, range(4_096)))
    path = tmp_path / "bomb.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"q": texts, "id": rows}), path, compression="zstd")
    assert path.stat().st_size < 40_000
    with pytest.raises(DatasetError, match="a larger document; expected at most 1,000,000 bytes"):
        seedbed.Dataset.load(path)


@pytest.mark.usefixtures("small")
def test_a_small_arrow_file_of_many_long_texts_is_refused(tmp_path: Path) -> None:
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 4_096, pyarrow.int32()), ["x" * 4_096])
    table = pyarrow.table({"q": texts, "id": pyarrow.array(map(str, range(4_096)))})
    path = tmp_path / "bomb.arrow"
    with pyarrow.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DatasetError, match="a larger document"):
        seedbed.Dataset.load(path)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["bomb.jsonl.gz", "bomb.json.gz", "bomb.csv.gz"])
def test_a_small_packed_file_of_much_text_is_refused(name: str, tmp_path: Path) -> None:
    row = json.dumps({"inputs": {"q": "x" * 1_000}})
    text = {
        "jsonl": "\n".join([row] * 2_000),
        "json": f"[{','.join([row] * 2_000)}]",
        "csv": "q\n" + f"{chr(120) * 1_000}\n" * 2_000,
    }
    path = tmp_path / name
    path.write_bytes(gzip.compress(text[name.split(".")[1]].encode()))
    assert path.stat().st_size < 30_000
    with pytest.raises(DatasetError, match="a larger document"):
        seedbed.Dataset.load(path, once=True)


# Runs


def workspace(url: str, **limits: Any) -> Workspace:
    models = {"one": {"use": "openai", "args": {"model": "m", "base_url": url}}}
    return Workspace(Settings.model_validate({"models": models, "limits": limits}), MemoryStore())


PLAN = Playbook.from_document(
    {"inputs": ["q"], "roles": {"a": {"model": "one"}}, "steps": [{"name": "s", "role": "a", "prompt": "{q}"}]}
)


async def test_a_run_that_takes_too_long_fails_and_can_be_resumed() -> None:
    with serving(Answer("late", delay=30.0)) as server:
        space = workspace(server.url, run_time="0.2 seconds")
        with pytest.raises(RunError, match=r"still under way after 0\.2 s, limits\.run_time"):
            await space.run(PLAN, q="why?")
        server.stopping.set()
        (run,) = space.runs.recent(1)
        assert run.status == "failed"
        assert (await space.runs.resume(run.id)).output == "why?"


async def test_no_more_runs_are_under_way_than_the_workspace_allows() -> None:
    under_way, most = 0, 0

    def answer(request: dict[str, Any]) -> Answer:
        return Answer("yes", delay=0.01)

    with serving(script=answer) as server:
        space = workspace(server.url, concurrent_runs=2)
        perform = space.resources.runner._staged

        def staged(*args: Any, **more: Any) -> Any:
            return watched(perform(*args, **more))

        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def watched(stage: Any) -> Any:
            nonlocal under_way, most
            async with stage as inner:
                under_way += 1
                most = max(most, under_way)
                try:
                    yield inner
                finally:
                    under_way -= 1

        space.resources.runner._staged = staged  # type: ignore[method-assign]
        await asyncio.gather(*(space.run(PLAN, q=str(n)) for n in range(8)))
    assert most == 2


async def test_a_run_within_a_run_needs_no_place_of_its_own() -> None:
    with serving() as server:
        space = workspace(server.url, concurrent_runs=1)

        async def ask_again(q: str) -> str:
            return str((await space.run(PLAN, q=q)).output)

        space.tools = [ask_again]
        async with asyncio.timeout(20), space.resources.runner._admission:
            assert await ask_again("inner") == "inner"
