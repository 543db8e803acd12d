"""seedbed evaluate --front, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import BETTER, SORTER, Seedbed, keeps_promise, tasks, write

FRONT = ("evaluate", "sorter.yaml", "better.yaml", "--on", "tasks.jsonl", "--front")


@pytest.fixture(autouse=True)
def two(space: Path) -> Path:
    write(space, tasks__jsonl=tasks(20), better__yaml=SORTER.replace("Message: {text}", BETTER))
    return space


def test_the_front_is_told_by_all_measures(seedbed: Seedbed) -> None:
    done = seedbed(*FRONT, "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "evaluate", form="JSON with --front")
    found = done.json["front"]
    assert list(found["measures"]) == ["exact_match", "cost_usd", "latency_seconds"]
    assert "better.yaml" in found["front"]
    assert {each["name"]: each["measures"]["exact_match"]["mean"] for each in found["playbooks"]} == {
        "sorter.yaml": 0.0,
        "better.yaml": 1.0,
    }


def test_people_see_a_table_with_arrows(seedbed: Seedbed) -> None:
    out = seedbed(*FRONT).out
    for told in ("on the front", "exact_match ↑", "cost_usd ↓", "stands", "Where intervals overlap"):
        assert told in out
    assert "on the front" not in seedbed(*FRONT[:-1]).out


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("report.md", "## Front\n\n| playbook | stands |"),
        ("report.html", "<h2>Front</h2>"),
        ("report.json", '"front": {'),
    ],
)
def test_a_report_has_the_scores_and_the_front(name: str, told: str, space: Path, seedbed: Seedbed) -> None:
    assert seedbed(*FRONT, "-o", name).code == 0
    text = (space / name).read_text(encoding="utf-8")
    assert told in text
    assert "Scorecard" in text or len(json.loads(text)["cards"]) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("evaluate", "sorter.yaml", "tasks.jsonl", "--front"), "at least two"),
        (("evaluate", "sorter.yaml", "sorter.yaml", "tasks.jsonl", "--front"), "at least two"),
        ((*FRONT, "-o", "report.csv"), "CSV"),
        (("evaluate", "--suite", "mood", "--front"), "--suite"),
    ],
    ids=["one", "one twice", "CSV", "suite"],
)
def test_what_has_no_front_is_refused_before_anything_is_paid(
    arguments: tuple[str, ...], told: str, space: Path, seedbed: Seedbed
) -> None:
    done = seedbed(*arguments)
    assert (done.code, done.out) == (64, "")
    assert told in done.err
    assert not (space / "seedbed.db").exists()


def test_a_file_in_no_folder_is_refused_before_anything_is_paid(space: Path, seedbed: Seedbed) -> None:
    done = seedbed(*FRONT, "-o", "absent/report.md")
    assert done.code == 1
    assert "no folder absent" in done.err
    assert not (space / "seedbed.db").exists()
