"""A model that answers from a record."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import ModelUnavailable, SettingsError
from seedbed.models.cards import Model, Registry
from seedbed.models.chat import Message, Reply, ask
from seedbed.models.providers.recorded import RecordedChat
from seedbed.models.usage import Usage

CSV = """prompt,model,reply,prompt_tokens,completion_tokens,cost_usd,latency_seconds,quality
"What is
2 + 2?",small,five,9,1,0.001,0.25,0
"What is
2 + 2?",large,four,9,1,0.01,1.5,1
Who?,small,,,,,,0
"""
ROWS = [{"prompt": "a", "model": "m", "reply": "b"}, {"prompt": "a", "model": "m", "reply": "c"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "answers.csv").write_text(CSV)
    return tmp_path


def table(folder: Path, **args: Any) -> Model:
    return Registry({"old": {"use": "table", "args": args}}, str(folder / "seedbed.yaml"))["old"]


async def said(model: Model, text: str) -> Reply:
    return await ask(model, [Message("system", "be brief"), Message("user", text)])


def refusal(folder: Path, **args: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        _ = table(folder, **args).chat
    return str(caught.value)


async def test_a_reply_is_what_the_model_answered_and_what_that_took(folder: Path) -> None:
    reply = await said(table(folder, path="answers.csv", model="large"), "What is\n2 + 2?")
    assert (reply.text, reply.usage, reply.finish_reason) == ("four", Usage(9, 1), "stop")
    assert (reply.cost_usd, reply.cost_known, reply.latency_seconds) == (0.01, True, 1.5)
    assert (await said(table(folder, path="answers.csv", model="small"), "What is\n2 + 2?")).text == "five"


async def test_what_was_not_recorded_is_not_made_up(folder: Path) -> None:
    reply = await said(table(folder, path="answers.csv", model="small"), "Who?")
    assert (reply.text, reply.usage, reply.cost_usd) == ("", Usage(), 0.0)


async def test_json_on_each_line_and_rows_in_the_settings_say_the_same(folder: Path) -> None:
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, ROWS)) + "\n\n")
    for args in ({"path": "answers.jsonl"}, {"rows": ROWS}):
        assert (await said(table(folder, **args), "a")).text == "b"


async def test_an_unknown_prompt_is_quoted(folder: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r'no reply of large: found the prompt "What\?".*one of the 1') as caught:
        await said(table(folder, path="answers.csv", model="large"), "What?")
    assert caught.value.why == "ours"


async def test_a_file_that_changed_is_read_again(folder: Path) -> None:
    path = folder / "answers.csv"
    assert (await said(table(folder, path=str(path), model="large"), "What is\n2 + 2?")).text == "four"
    path.write_text(CSV.replace("four", "4"))
    os.utime(path, ns=(1, 1))
    assert (await said(table(folder, path=str(path), model="large"), "What is\n2 + 2?")).text == "4"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "found neither or both of path and rows"),
        ({"path": "answers.csv", "rows": ROWS}, "found neither or both"),
        ({"path": "nowhere.csv"}, "found nowhere.csv: No such file"),
        ({"path": "answers.csv"}, 'model: found ""; expected one of those recorded: small, large'),
        ({"path": "answers.csv", "model": "huge"}, 'found "huge"; expected one of those recorded: small, large'),
        ({"rows": [{"prompt": "a"}]}, "args.rows[0].reply: found nothing; expected a value"),
        ({"rows": ROWS, "modle": "m"}, "args.modle: found an unknown key"),
    ],
)
def test_wrong_arguments_are_told(folder: Path, args: dict[str, Any], told: str) -> None:
    assert told in refusal(folder, **args)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("t.csv", "prompt,model,reply\na,m,b\nc,m\n", "t.csv, row 2: reply: Field required"),
        (
            "t.csv",
            "prompt,model,reply,cost_usd\na,m,b,much\n",
            "t.csv, row 1: cost_usd: Input should be a valid",
        ),
        ("t.csv", "prompt,model,reply,cost_usd\na,m,b,-1\n", "t.csv, row 1: cost_usd: Input should be greater"),
        ("t.csv", "question,answer\na,b\n", "t.csv, row 1: prompt: Field required; model: Field required"),
        ("t.jsonl", '{"prompt": "a", "model": "m", "reply": "b"}\nnonsense\n', "t.jsonl, row 2: Expecting value"),
        ("t.jsonl", "[1]\n", "t.jsonl, row 1: : Input should be a valid dictionary"),
        ("t.csv", "", "expected one of those recorded: none"),
    ],
)
def test_a_wrong_file_is_told_with_its_row(folder: Path, name: str, text: str, told: str) -> None:
    (folder / name).write_text(text)
    assert told in refusal(folder, path=name)


def test_a_file_that_is_no_text_is_told(folder: Path) -> None:
    (folder / "t.csv").write_bytes(b"prompt,model,reply\n\xff\xfe,m,b\n")
    assert "t.csv, row 1: 'utf-8' codec" in refusal(folder, path="t.csv")


def test_it_answers_langchain_without_an_event_loop() -> None:
    assert RecordedChat(rows=ROWS).invoke("a").text == "b"
