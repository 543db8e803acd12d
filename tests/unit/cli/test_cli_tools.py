"""A model's calls of tools at the terminal: printed with their results, as they happen, and in `runs show`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import Seedbed, write

SHOP = """
from seedbed import tool

@tool(effect="reads")
def search(query: str) -> str:
    return f"o-17 is a {query}"

@tool(effect="changes")
def refund(order: str) -> str:
    return f"refunded {order}"
"""

FILE = """
store: sqlite:///seedbed.db
by: ann
tools: [cli_shop:search, cli_shop:refund]
models:
  fast:
    use: scripted
    args:
      replies:
        "refunded": "It is done."
        "o-17": {calls: [{tool: refund, arguments: {order: o-17}}], text: "I pay."}
        "mug": {calls: [{tool: search, arguments: {query: mug}}]}
"""

DESK = """
roles: {clerk: {model: fast, tools: [TOOLS]}}
steps: [{name: solve, role: clerk, prompt: "{question}"}]
rules: {allow: [refund]}
"""

CALLS = ['tool search {"query": "mug"} → o-17 is a mug', 'tool refund {"order": "o-17"} → refunded o-17']


@pytest.fixture
def shop(space: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(space)
    monkeypatch.delitem(sys.modules, "cli_shop", raising=False)
    desk = DESK.replace("TOOLS", "search, refund")
    write(space, cli_shop__py=SHOP, seedbed__yaml=FILE, desk__yaml=desk, wrong__yaml=DESK.replace("TOOLS", "serch"))
    return space


def test_a_run_prints_each_call_with_its_result_before_the_answer(shop: Path, seedbed: Seedbed) -> None:
    assert seedbed("run", "desk.yaml", "question=mug").out.splitlines()[:3] == [*CALLS, "It is done."]
    document = seedbed("run", "desk.yaml", "question=mug", "--json").json
    assert [call["tool"] for turn in document["turns"] for call in turn["calls"]] == ["search", "refund"]


def test_a_stream_prints_each_call_when_it_is_done(shop: Path, seedbed: Seedbed) -> None:
    lines = seedbed("run", "desk.yaml", "question=mug", "--stream").out.splitlines()
    assert lines[:4] == [CALLS[0], "solve: I pay.", CALLS[1], "solve: It is done."]


def test_a_run_is_shown_with_what_its_model_asked_for(shop: Path, seedbed: Seedbed) -> None:
    run = seedbed("run", "desk.yaml", "question=mug", "--json").json["run"]
    shown = seedbed("runs", "show", run).out
    for part in ('calls search {"query": "mug"}', "I pay.", 'calls refund {"order": "o-17"}', "tool: refunded o-17"):
        assert part in shown
    assert all(call in shown for call in CALLS)
    assert 'refund {"order":"o-17"}' in seedbed("runs", "export", run, "--format", "html").out.replace("&#34;", '"')


def test_a_tool_that_no_workspace_has_is_a_warning_of_check_and_an_error_of_run(shop: Path, seedbed: Seedbed) -> None:
    checked = seedbed("playbook", "check", "wrong.yaml")
    assert 'found "serch"; expected one of the tools: refund, search. Did you mean search?' in " ".join(
        (checked.out + checked.err).split()
    )
    assert seedbed("playbook", "check", "wrong.yaml", "--strict").code != 0
    failed = seedbed("run", "wrong.yaml", "question=mug")
    assert failed.code == 1
    assert "roles.clerk.tools" in failed.err
    assert seedbed("runs", "list", "--json").json["runs"] == []
