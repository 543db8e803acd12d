"""seedbed judge, as it is typed; and judges wherever a metric is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import BETTER, SORTER, WORKSPACE, Seedbed, keeps_promise, write

JUDGES = """\
metrics:
  same: {judge: reference, model: strict}
  helpful: {judge: rubric, model: strict, rubric: Does it help?}
"""
STRICT = """\
  strict:
    use: scripted
    args:
      replies:
        '<expected \\w+>\\n(\\w+)\\n</expected \\w+>\\s+<answer \\w+>\\n\\1\\n': equivalent
        equivalent: different
        '': '4'
    usd_per_million: [1000, 2000]
"""
TALL = WORKSPACE.replace("channels:", STRICT + JUDGES + "channels:")


def labels(right: int, wrong: int, mistaken: int = 0) -> str:
    """Answers that the judge and people call right or wrong, and some that only people call right."""
    kinds = [("good", 1, right), ("bad", 0, wrong), ("fine", 1, mistaken)]
    rows = [
        {"inputs": {"text": f"mail {number}"}, "expected": "good", "output": said, "label": label}
        for said, label, many in kinds
        for number in range(many)
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture
def court(space: Path) -> Path:
    write(space, seedbed__yaml=TALL, labels__jsonl=labels(20, 20))
    return space


def runs(seedbed: Seedbed) -> int:
    return len(seedbed("runs", "list", "--limit", "1000", "--json").json["runs"])


def test_a_judge_that_agrees_with_people_is_trusted(court: Path, seedbed: Seedbed) -> None:
    done = seedbed("judge", "check", "same", "labels.jsonl", "--json")
    assert done.code == 0, done.err
    assert keeps_promise(done.json, "judge", "check")
    assert (done.json["kappa"], done.json["n"], done.json["trusted"]) == (1.0, 40, True)
    assert (done.json["values"], done.json["table"]) == ([0, 1], [[20, 0], [0, 20]])
    assert (done.json["disagreements"], done.json["because"]) == ([], None)
    shown = seedbed("judge", "check", "same", "labels.jsonl")
    assert shown.code == 0
    assert "kappa 1.00 (95% " in shown.out
    assert "✓ trusted" in shown.out


def test_checking_again_pays_nothing(court: Path, seedbed: Seedbed) -> None:
    first = seedbed("judge", "check", "same", "labels.jsonl", "--json").json
    before = runs(seedbed)
    assert seedbed("judge", "check", "same", "labels.jsonl", "--json").json == first
    assert runs(seedbed) == before == 40


def test_one_that_does_not_is_refused_with_the_answers_they_differ_about(court: Path, seedbed: Seedbed) -> None:
    write(court, labels__jsonl=labels(8, 8, mistaken=6))
    done = seedbed("judge", "check", "same", "labels.jsonl", "--json")
    assert done.code == 1
    assert (done.json["trusted"], done.json["table"]) == (False, [[8, 0], [6, 8]])
    differing = done.json["disagreements"]
    assert [each["place"] for each in differing] == [f"line {n}" for n in range(17, 23)]
    assert {(each["label"], each["score"]) for each in differing} == {(1, 0)}
    shown = seedbed("judge", "check", "same", "labels.jsonl")
    assert shown.code == 1
    assert "fine" in shown.out
    assert "✗ not trusted" in shown.out


def test_what_it_has_to_reach_can_be_said(court: Path, seedbed: Seedbed) -> None:
    done = seedbed("judge", "check", "same", "labels.jsonl", "--at-least", "0.99", "--json")
    assert (done.code, done.json["at_least"], done.json["trusted"]) == (1, 0.99, False)


def test_leaving_out_the_labels_it_fails_at_does_not_help(court: Path, seedbed: Seedbed) -> None:
    write(court, labels__jsonl=labels(20, 20, mistaken=10), some__jsonl=labels(20, 20))
    assert seedbed("judge", "check", "same", "labels.jsonl").code == 1
    again = seedbed("judge", "check", "same", "some.jsonl")
    assert again.code == 1
    assert "the check with the most labels" in again.out


def test_bad_labels_are_told_before_anybody_is_asked(court: Path, seedbed: Seedbed) -> None:
    write(court, labels__jsonl=labels(2, 0) + '{"inputs": {"text": "x"}, "label": 2}\n')
    done = seedbed("judge", "check", "same", "labels.jsonl", "--json")
    assert done.code == 1
    assert [each["path"] for each in json.loads(done.err)["problems"]] == ["line 3.output", "line 3.label"]
    assert runs(seedbed) == 0


@pytest.mark.parametrize("name", ["f1", "nobody"])
def test_what_is_no_judge_is_called_wrongly(name: str, court: Path, seedbed: Seedbed) -> None:
    done = seedbed("judge", "check", name, "labels.jsonl")
    assert done.code == 64
    assert "one of: same, helpful" in done.err


def test_a_workspace_without_judges_says_how_to_get_one(space: Path, seedbed: Seedbed) -> None:
    write(space, labels__jsonl=labels(1, 1))
    done = seedbed("judge", "check", "same", "labels.jsonl")
    assert done.code == 64
    assert "under metrics in the workspace file" in done.err
    assert "under metrics in the workspace file" in seedbed("judge", "list").out


def test_judges_are_listed_with_their_standing(court: Path, seedbed: Seedbed) -> None:
    seedbed("judge", "check", "same", "labels.jsonl")
    done = seedbed("judge", "list", "--json")
    assert keeps_promise(done.json, "judge", "list")
    assert [(each["name"], each["n"], each["trusted"]) for each in done.json["judges"]] == [
        ("same", 40, True),
        ("helpful", None, False),
    ]
    assert "✓ trusted" in seedbed("judge", "list").out


def test_all_that_a_judge_is_told_is_shown(court: Path, seedbed: Seedbed) -> None:
    done = seedbed("judge", "show", "helpful", "--json")
    assert keeps_promise(done.json, "judge", "show")
    assert (done.json["kind"], done.json["agreements"], done.json["trusted"]) == ("rubric", [], False)
    shown = seedbed("judge", "show", "helpful")
    assert (shown.code, "Does it help?" in shown.out) == (0, True)
    assert "seedbed judge check helpful LABELS" in shown.out


def test_a_change_of_its_words_makes_a_judge_unchecked(court: Path, seedbed: Seedbed) -> None:
    seedbed("judge", "check", "same", "labels.jsonl")
    write(court, seedbed__yaml=TALL.replace("{judge: reference,", "{judge: reference, cut_at: 100,"))
    assert seedbed("judge", "show", "same", "--json").json["trusted"] is False


# As metrics


def test_a_judge_scores_like_any_metric(court: Path, seedbed: Seedbed) -> None:
    done = seedbed("evaluate", "sorter.yaml", "tasks.jsonl", "--metric", "exact_match", "--metric", "helpful", "--json")
    assert done.code == 0, done.err
    assert {name: each["mean"] for name, each in done.json["metrics"].items()} == {"exact_match": 0.0, "helpful": 0.75}
    before = runs(seedbed)
    again = seedbed("evaluate", "sorter.yaml", "tasks.jsonl", "--metric", "helpful", "--json")
    assert again.json["mean"] == 0.75
    assert runs(seedbed) == before


@pytest.mark.parametrize("where", ["loop", "1"])
def test_a_judge_of_replays_is_live_and_paid_out_of_the_limit(where: str, court: Path, seedbed: Seedbed) -> None:
    assert seedbed("evaluate", "sorter.yaml", "tasks.jsonl").code == 0
    write(court, same__yaml=SORTER.replace("value: 0.5, low", "value: 0.6, low"))
    judged = ("compare", "sorter.yaml", "same.yaml", "--on", "tasks.jsonl", "--replay", "12", "--metric", "helpful")
    short = seedbed(*judged, "--json", "--parallel", where, "--max-cost", "0.001")
    assert (short.code, json.loads(short.err)["error"]) == (2, "BudgetSpent")
    done = seedbed(*judged, "--json", "--parallel", where, "--max-cost", "100")
    assert (done.code, done.json["verdict"]["finding"]) == (2, "inconclusive"), done.err
    assert done.json["verdict"]["control_mean"] == done.json["verdict"]["candidate_mean"] == 0.75


def test_no_release_rests_on_a_judge_that_nobody_checked(court: Path, seedbed: Seedbed) -> None:
    write(court, better__yaml=SORTER.replace("Message: {text}", BETTER))
    assert seedbed("release", "sorter.yaml", "--to", "production").code == 0
    compared = seedbed("compare", "sorter.yaml", "better.yaml", "--on", "tasks.jsonl", "--metric", "same", "--json")
    assert compared.json["finding"] == "superior", compared.err
    refused = seedbed("release", "better.yaml", "--to", "production")
    assert refused.code == 1
    assert "seedbed judge check same LABELS" in refused.err
    assert seedbed("judge", "check", "same", "labels.jsonl").code == 0
    assert seedbed("release", "better.yaml", "--to", "production").code == 0


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "sorter.yaml", "tasks.jsonl"),
        ("compare", "sorter.yaml", "other.yaml", "--on", "tasks.jsonl"),
        ("evolve", "sorter.yaml", "tasks.jsonl", "--bank", "bank.txt"),
    ],
)
def test_what_is_wrong_with_a_judge_is_told_before_anything_is_paid(
    command: Any, court: Path, seedbed: Seedbed
) -> None:
    write(court, seedbed__yaml=TALL.replace("rubric: Does it help?", "rubrik: x"), other__yaml=SORTER)
    done = seedbed(*command, "--metric", "helpful", "--json")
    assert done.code == 1
    (problem,) = json.loads(done.err)["problems"]
    assert problem["path"].startswith("metrics.helpful.rubrik (line ")
    assert "rubric" in problem["remedy"]
    write(court, seedbed__yaml=TALL)
    assert runs(seedbed) == 0
