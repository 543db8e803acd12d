"""seedbed runs: what happened."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from command_line import BETTER, WORKSPACE, Seedbed, keeps_promise, promised, write

from seedbed.storage.store import short


def test_the_newest_runs_come_first(space: Path, seedbed: Seedbed) -> None:
    ids = [seedbed("run", "sorter.yaml", f"text=number {each}", "--json").json["run"] for each in range(3)]
    found = seedbed("runs", "list", "--limit", "2", "--json")
    assert [each["run"] for each in found.json["runs"]] == ids[:0:-1]
    assert keeps_promise(found.json, "runs", "list")
    assert len(promised("runs", "list")["runs"]) == 12
    out = seedbed("runs", "list").out
    assert "number 2" in out
    assert "unsure [bold]ä[/bold]" in out


def test_runs_of_one_playbook_can_be_asked_for(kept: str, seedbed: Seedbed) -> None:
    seedbed("run", kept, "text=a")
    other = seedbed("run", kept, "text=b", "--set", f"steps.label.prompt={BETTER}", "--json").json
    found = seedbed("runs", "list", "--playbook", other["playbook"], "--json").json["runs"]
    assert [each["run"] for each in found] == [other["run"]]
    assert seedbed("runs", "list", "--playbook", "sorter.yaml", "--json").json["runs"][0]["inputs"] == {"text": "a"}


def test_without_runs_it_says_so(space: Path, seedbed: Seedbed) -> None:
    assert seedbed("runs", "list").out == "No runs yet.\n"


def test_a_run_is_shown_turn_by_turn_by_the_beginning_of_its_id(space: Path, seedbed: Seedbed) -> None:
    run = seedbed("run", "sorter.yaml", "text=hello there", "--json").json["run"]
    done = seedbed("runs", "show", run[:6], "--json")
    assert keeps_promise(done.json, "runs", "show")
    out = seedbed("runs", "show", run[:6]).out
    for told in (
        "label · local",
        "Sort [red]mail[/red].",
        "Message: hello there",
        "→ unsure [bold]ä[/bold] 🙂",
        "1 turn",
    ):
        assert told in out


AGENT = """\
async def handle(task, stage):
    if stage.depth:
        return (await stage.ask("sorter", task["text"])).text
    await stage.ask("sorter", "first?")
    await stage.decide("label", "open it", because="it is long")
    child = await stage.open({"text": "within", "inherited": "all that was known"})
    await stage.log("that was all")
    await stage.ask("sorter", "last?")
    return child.output
"""


@pytest.fixture
def opened(space: Path, seedbed: Seedbed) -> str:
    """A run that opened another."""
    (space / "showing_desk.py").write_text(AGENT)
    (space / "desk.yaml").write_text("roles: {sorter: {model: local}}\nprogram: showing_desk:handle\n")
    return str(seedbed("run", "desk.yaml", "text=whole", "--json").json["run"])


def test_a_run_shows_what_was_decided_and_opened_in_the_order_of_happening(opened: str, seedbed: Seedbed) -> None:
    done = seedbed("runs", "show", opened, "--json")
    assert keeps_promise(done.json, "runs", "show")
    (child,) = done.json["children"]
    assert [each["action"] for each in done.json["decisions"]] == ["open it"]
    out = seedbed("runs", "show", opened).out
    told = (
        "user: first?",
        "decided label: open it, because it is long",
        f"opened {short(child['run'])} by open, ",
        "remark that was all",
        "user: last?",
        "2 turns",
    )
    places = [out.index(each) for each in told]
    assert places == sorted(places)
    assert f"opened by {opened[:10]}" in seedbed("runs", "show", child["run"]).out


def test_a_timeline_shows_when_each_step_began_also_those_of_runs_it_opened(
    opened: str, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = seedbed("runs", "show", opened, "--timeline", "--json").json["timeline"]
    assert [(row["depth"], row["kind"]) for row in rows] == [
        (0, "turn"),
        (0, "decision"),
        (0, "child"),
        (1, "turn"),
        (0, "turn"),
    ]
    assert [row["started"] for row in rows] == sorted(row["started"] for row in rows)
    out = seedbed("runs", "show", opened, "--timeline").out
    assert "user: first?" not in out
    lines = out.splitlines()
    assert max(map(len, lines[-6:])) <= 80
    assert all(set("█─░") & set(line) for line in lines[-5:])
    places = [min(line.index(bar) for bar in "█─░" if bar in line) for line in lines[-5:]]
    assert places == sorted(places)


def test_runs_that_others_opened_are_listed_only_if_they_are_asked_for(opened: str, seedbed: Seedbed) -> None:
    (top,) = seedbed("runs", "list", "--limit", "1", "--json").json["runs"]
    assert (top["run"], top["parent"]) == (opened, "")
    found = seedbed("runs", "list", "--children", "--json").json["runs"]
    assert {(each["run"] == opened, each["parent"]) for each in found} == {(True, ""), (False, opened)}
    out = seedbed("runs", "list", "--children").out
    assert "within" in out
    assert "all that was known" not in out


def test_a_failed_run_shows_its_error(space: Path, seedbed: Seedbed) -> None:
    seedbed("run", "sorter.yaml", "words=x")
    (failed,) = seedbed("runs", "list", "--json").json["runs"]
    assert failed["error"].split(":")[0] in seedbed("runs", "list").out
    assert "✗" in seedbed("runs", "show", failed["run"]).out


def test_an_unknown_run_is_told(space: Path, seedbed: Seedbed) -> None:
    for name in ("0123", "nonsense", "[bold]"):
        done = seedbed("runs", "show", name)
        assert done.code == 1
        assert f'no run "{name}" is recorded here' in done.err


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
def test_a_run_is_exported_to_a_new_file_and_never_over_another(space: Path, seedbed: Seedbed, form: str) -> None:
    run = seedbed("run", "sorter.yaml", "text=hello", "--json").json["run"]
    told = seedbed("runs", "export", run[:8], "--format", form, "-o", "run.out", "--json").json
    assert keeps_promise(told, "runs", "export")
    assert (space / "run.out").read_text() == told["text"]
    assert run[:10] in told["text"]
    again = seedbed("runs", "export", run, "-o", "run.out")
    assert again.code == 1
    assert "a file that exists" in again.err
    assert seedbed("runs", "export", run, "--format", "paper").code == 64


def test_a_run_is_exported_as_pdf_and_what_cannot_be_printed_is_told(space: Path, seedbed: Seedbed) -> None:
    run = seedbed("run", "sorter.yaml", "text=hello \U00012000", "--json").json["run"]
    told = seedbed("runs", "export", run[:8], "--format", "pdf", "-o", "run.pdf", "--json").json
    assert keeps_promise(told, "runs", "export")
    assert "\U00012000" in told["unprintable"]
    assert (space / "run.pdf").read_bytes().startswith(b"%PDF")
    said = seedbed("runs", "export", run, "--format", "pdf", "-o", "again.pdf").out
    assert "wrote again.pdf" in said
    assert "no glyph in the fonts" in said
    again = seedbed("runs", "export", run, "--format", "pdf", "-o", "run.pdf")
    assert again.code == 1
    assert "a file that exists" in again.err
    nowhere = seedbed("runs", "export", run, "--format", "pdf")
    assert nowhere.code == 64
    assert "expected a file" in nowhere.err


@pytest.mark.parametrize(("name", "begin"), [("r.pdf", b"%PDF"), ("r.html", b"<!"), ("r.json", b"{"), ("r.md", b"# ")])
def test_a_run_is_exported_as_the_file_ends_and_for_its_owner_alone(
    space: Path, seedbed: Seedbed, name: str, begin: bytes
) -> None:
    run = seedbed("run", "sorter.yaml", "text=hello", "--json").json["run"]
    assert seedbed("runs", "export", run, "-o", name).code == 0
    assert (space / name).read_bytes().startswith(begin)
    assert [(space / each).stat().st_mode & 0o777 for each in (name, "seedbed.db")] == [0o600, 0o600]


def test_what_is_exported_says_how_a_model_was_chosen_that_nobody_named(space: Path, seedbed: Seedbed) -> None:
    (space / "open.yaml").write_text((space / "sorter.yaml").read_text().replace("model: local", "needs: [sorting]"))
    run = seedbed("run", "open.yaml", "text=hello", "--json").json["run"]
    (row,) = seedbed("runs", "export", run).out.partition("## Routing")[2].strip().splitlines()[2:]
    assert row.startswith("| label | local | 100% | ")
    assert seedbed("runs", "export", run, "--format", "pdf", "-o", "run.pdf").code == 0


def test_a_pdf_without_its_extra_says_what_to_install(
    space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = seedbed("run", "sorter.yaml", "text=hello", "--json").json["run"]
    monkeypatch.setitem(sys.modules, "typst", None)
    done = seedbed("runs", "export", run, "--format", "pdf", "-o", "run.pdf")
    assert done.code == 1
    assert "pip install 'seedbed[pdf]'" in done.err
    assert not (space / "run.pdf").exists()


def test_a_run_that_was_interrupted_goes_on(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("run", "sorter.yaml", "text=hello", "--json").json
    with closing(sqlite3.connect(space / "seedbed.db")) as db, db:
        db.execute("DELETE FROM facts WHERE kind = 'run'")
        db.execute("UPDATE facts SET body = json_set(body, '$.worker', '') WHERE kind = 'start'")  # who is gone
    assert [run["status"] for run in seedbed("runs", "list", "--json").json["runs"]] == ["running"]
    assert "(unfinished)" in seedbed("runs", "list").out
    again = seedbed("run", "--resume", done["run"][:8], "--json").json
    assert (again["output"], again["run"], again["status"]) == (done["output"], done["run"], "completed")
    assert len(again["turns"]) == 1
    refused = seedbed("run", "--resume", done["run"])
    assert refused.code == 1
    assert "found it complete" in refused.err
    assert seedbed("run").code == 64
    assert seedbed("run", "sorter.yaml", "--resume", done["run"]).code == 64


# Calls in doubt


DESK = """
from pathlib import Path
from seedbed.stage.tools import tool

@tool(changes=True)
async def refund(order: str) -> str:
    with Path("refunds.txt").open("a") as file:
        file.write(f"{order}\\n")
    if not Path("answers").exists():
        raise TimeoutError
    return f"refunded {order}"

async def handle(task, stage):
    return await stage.call("refund", order=task["order"])
"""


@pytest.fixture
def in_doubt(space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a run that does not know whether its refund has happened."""
    monkeypatch.syspath_prepend(space)
    monkeypatch.delitem(sys.modules, "doubt_desk", raising=False)
    write(space, doubt_desk__py=DESK, desk__yaml="program: doubt_desk:handle\nrules: {allow: [refund]}\n")
    (space / "seedbed.yaml").write_text(f"{WORKSPACE}tools: [doubt_desk:refund]\n")
    assert "No call is in doubt" in seedbed("runs", "doubt").out
    failed = seedbed("run", "desk.yaml", "order=7")
    assert failed.code == 1
    assert "seedbed runs settle" in failed.err
    return str(seedbed("runs", "list", "--json").json["runs"][0]["run"])


def test_a_call_in_doubt_is_listed_and_settled_and_the_run_goes_on(in_doubt: str, seedbed: Seedbed) -> None:
    (doubt,) = seedbed("runs", "doubt", "--json").json["doubts"]
    assert (doubt["run"], doubt["tool"], doubt["arguments"]) == (in_doubt, "refund", {"order": "7"})
    assert doubt["call"][:10] in seedbed("runs", "doubt").out
    assert seedbed("run", "--resume", in_doubt).code == 1
    settle = ("runs", "settle", in_doubt[:8], doubt["call"][:6])
    told = seedbed(
        *settle, "done", "--because", "the bank shows it", "--result", '"booked"', "--dry-run", "--json"
    ).json
    assert (told["answer"], told["result"], told["dry_run"]) == ("done", "booked", True)
    seedbed(*settle, "done", "--because", "the bank shows it", "--result", '"booked"')
    assert seedbed("runs", "doubt", "--json").json == {"doubts": []}
    assert seedbed("run", "--resume", in_doubt, "--json").json["output"] == "booked"
    assert Path("refunds.txt").read_text() == "7\n"


def test_a_call_that_is_not_done_is_made_when_the_run_goes_on(in_doubt: str, seedbed: Seedbed) -> None:
    Path("refunds.txt").unlink()
    Path("answers").touch()
    seedbed("runs", "settle", in_doubt, "refund", "not-done", "--because", "the bank shows nothing")
    assert seedbed("run", "--resume", in_doubt, "--json").json["output"] == "refunded 7"
    assert Path("refunds.txt").read_text() == "7\n"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (["done", "--because", "x", "--result", "booked"], "expected JSON"),
        (["not-done", "--because", "x", "--result", "1"], "not done"),
        (["perhaps", "--because", "x"], "perhaps"),
        (["done", "--because", " "], "reason"),
        (["done"], "--because"),
    ],
)
def test_what_does_not_settle_a_call_is_refused(in_doubt: str, seedbed: Seedbed, answer: list[str], words: str) -> None:
    refused = seedbed("runs", "settle", in_doubt, "refund", *answer)
    assert refused.code
    assert words in refused.err
    assert len(seedbed("runs", "doubt", "--json").json["doubts"]) == 1
