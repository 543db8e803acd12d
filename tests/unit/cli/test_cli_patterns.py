"""seedbed runs patterns: found in what was evaluated, told in words, and the next comparison written down."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from command_line import Seedbed, held, keeps_promise, write

WORKSPACE = """\
store: sqlite:///seedbed.db
by: ann
models:
  local:
    use: scripted
    args: {replies: {"^Careful": paid, "invoice .*[0-7]$": unknown, "parcel .*77": "", ".": paid}}
"""
READER = """\
roles:
  reader: {model: local, system: Sort mail.}
steps:
  - {name: answer, role: reader, prompt: "{text}"}
"""
CAREFUL = """\
extends: reader
overrides: {steps.answer.prompt: "Careful: {text}"}
"""


def mail(count: int) -> str:
    """Letters, parcels and invoices; the reader knows most of the answers, but few about invoices."""
    kinds = ("invoice", "letter", "parcel")
    rows = [{"id": f"m{n}", "inputs": {"text": f"One {kinds[n % 3]} number {n // 3}"}} for n in range(count)]
    return "".join(f"{json.dumps({**row, 'expected': 'paid'})}\n" for row in rows)


@pytest.fixture
def read(tmp_path: Path, seedbed: Seedbed) -> Path:
    """A workspace in which the reader was evaluated."""
    files = {"seedbed__yaml": WORKSPACE, "reader__yaml": READER, "candidate__yaml": CAREFUL}
    write(tmp_path, mail__jsonl=mail(90), few__jsonl=mail(9), **files)
    assert seedbed("evaluate", "reader.yaml", "mail.jsonl").code == 0
    return tmp_path


def test_a_pattern_is_told_in_words_with_runs_to_look_at(read: Path, seedbed: Seedbed) -> None:
    before = held()
    done = seedbed("runs", "patterns", "reader.yaml", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "runs", "patterns")
    (finding,) = done.json["findings"]
    assert finding["condition"].startswith("whose input mentions")
    assert "invoice" in finding["condition"]
    shown = seedbed("runs", "show", finding["runs"][0], "--json").json
    assert "invoice" in shown["inputs"]["text"]
    assert shown["output"] == "unknown"
    told = seedbed("runs", "patterns", "reader.yaml").out
    assert finding["text"] in told
    assert finding["runs"][0][:10] in told
    assert done.json["promise"] in told
    assert held() == before


def test_the_suggestion_is_an_experiment_that_compare_runs(read: Path, seedbed: Seedbed) -> None:
    done = seedbed("runs", "patterns", "reader.yaml", "--suggest", "next.yaml", "--json").json
    assert done["suggestion"]["command"] in (read / "next.yaml").read_text()
    program, *words = shlex.split(done["suggestion"]["command"])
    assert program == "seedbed"
    assert seedbed(*words, "--plan").code == 0
    known = {run["run"] for run in seedbed("runs", "list", "--json", "--limit", "1000").json["runs"]}
    verdict = seedbed(*words, "--json")
    runs = seedbed("runs", "list", "--json", "--limit", "1000").json["runs"]
    new = [run["inputs"]["text"] for run in runs if run["run"] not in known]
    assert len(new) == 2 * len(set(new)) > 0  # the bad luck of the control is not used again
    assert verdict.json["control_mean"] < verdict.json["candidate_mean"] == 1.0
    assert (verdict.code, verdict.json["finding"]) == (0, "superior")
    again = seedbed("runs", "patterns", "reader.yaml", "--suggest", "next.yaml")
    assert again.code == 1
    assert "a file that exists" in again.err


def test_finding_nothing_is_not_decided_and_writes_nothing(read: Path, seedbed: Seedbed) -> None:
    seedbed("evaluate", "candidate.yaml", "mail.jsonl")
    done = seedbed("runs", "patterns", "candidate.yaml", "--suggest", "next.yaml")
    assert done.code == 2
    assert "no answer: found the same score, 1, for all runs" in done.out
    assert not (read / "next.yaml").exists()


def test_few_tasks_are_told(read: Path, seedbed: Seedbed) -> None:
    done = seedbed("runs", "patterns", "reader.yaml", "--on", "few.jsonl")
    assert done.code == 2
    assert "found 9 tasks with scored runs; expected at least 20" in done.out


def test_without_a_playbook_the_runs_of_all_are_looked_at(read: Path, seedbed: Seedbed) -> None:
    seedbed("evaluate", "candidate.yaml", "mail.jsonl")
    assert seedbed("runs", "patterns", "--json").json["runs"] == 180


def test_without_outcomes_of_users_it_says_so(read: Path, seedbed: Seedbed) -> None:
    done = seedbed("runs", "patterns", "--metric", "outcome")
    assert done.code == 2
    assert "found 0 tasks" in done.out


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--alpha", "0.7"], "expected above 0 and below 0.5"),
        (["--metric", "exactmatch"], "exact_match"),
        (["--finding", "7", "--suggest", "next.yaml"], "expected at most 1, the number of findings"),
    ],
)
def test_a_wrong_call_is_told(read: Path, seedbed: Seedbed, wrong: list[str], told: str) -> None:
    done = seedbed("runs", "patterns", "reader.yaml", *wrong)
    assert done.code == 64
    assert told in done.err
    assert not (read / "next.yaml").exists()
