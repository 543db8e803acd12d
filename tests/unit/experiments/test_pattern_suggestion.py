"""The next hypothesis as a file: what it says, and that nothing is overwritten."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from pattern_samples import scored

from seedbed import documents
from seedbed.errors import SettingsError
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.patterns.patterns import PatternFinding, find_patterns
from seedbed.experiments.patterns.suggestion import suggest

CONTROL = "b2:" + "c" * 64


@pytest.fixture
def finding() -> PatternFinding:
    runs = scored(1, 200, chance=lambda task, _: 0.1 if "word3 " in task.inputs["text"] else 0.9)
    return find_patterns(runs, "exact_match").findings[0]


def test_the_file_says_what_to_compare_on_which_tasks_by_which_rule(finding: PatternFinding, tmp_path: Path) -> None:
    file = tmp_path / "next.yaml"
    made = suggest(finding, file, control=CONTROL, metric="contains(text='a b')", binary=True, alpha=0.01)
    read = documents.read(file, SettingsError).value
    assert read["because"] == str(finding)
    assert 'runs whose input mentions "word3" is better there than cccccccccc' in read["hypothesis"]
    assert (read["rule"], read["alpha"], read["candidate"]) == ("exact", 0.01, "candidate.yaml")
    assert f"#      {made.command}\n" in file.read_text()
    words = shlex.split(made.command)
    assert words[:4] == ["seedbed", "compare", "cccccccccc", "candidate.yaml"]
    assert words[words.index("--first-replicate") + 1] == "1"
    assert words[words.index("--metric") + 1] == "contains(text='a b')"
    tasks = Dataset.load(tmp_path / "next.tasks.jsonl")
    assert tasks.only(split="tested").tasks == finding.weak_tested
    assert tasks.only(split="found").tasks == finding.weak_found


def test_tasks_that_share_a_source_are_not_tested_exactly(finding: PatternFinding, tmp_path: Path) -> None:
    shared = replace(finding, weak_tested=tuple(replace(task, source="s") for task in finding.weak_tested))
    made = suggest(shared, tmp_path / "next.yaml", control=CONTROL, metric="exact_match", binary=True)
    assert made.rule == "betting"


def test_tasks_of_two_datasets_may_have_the_same_id(finding: PatternFinding, tmp_path: Path) -> None:
    same = replace(finding, weak_tested=tuple(replace(task, id="t") for task in finding.weak_tested))
    suggest(same, tmp_path / "next.yaml", control=CONTROL, metric="exact_match")
    tasks = Dataset.load(tmp_path / "next.tasks.jsonl").only(split="tested")
    assert [task.inputs for task in tasks] == [task.inputs for task in finding.weak_tested]


@pytest.mark.parametrize("there", ["next.yaml", "next.tasks.jsonl"])
def test_nothing_is_overwritten_and_nothing_half_written(finding: PatternFinding, tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(SettingsError, match=there):
        suggest(finding, tmp_path / "next.yaml", control=CONTROL, metric="exact_match")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(there, "mine")]
