"""release and rollback, as they are typed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import SORTER, Seedbed, held, keeps_promise, write


def test_release_keeps_its_promise(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("release", "sorter.yaml", "--to", "production", "--because", "first [b]one[/b]", "--json")
    assert (done.code, done.json["because"], done.json["by"]) == (0, "first [b]one[/b]", "ann")
    assert keeps_promise(done.json, "release")
    assert seedbed("run", "production", "text=x").code == 0


def test_a_release_without_evidence_gets_every_refusal(evolved: Path, seedbed: Seedbed) -> None:
    write(evolved, careless__yaml=SORTER.replace("never: [delete_message]", "never: []"))
    before = held()[2]
    done = seedbed("release", "careless.yaml", "--to", "production", "--json")
    assert (done.code, done.out) == (1, "")
    error = json.loads(done.err)
    assert error["error"] == "ReleaseRefused"
    assert [problem["path"] for problem in error["problems"]] == ["better", "held_out", "rules_kept"]
    assert "✗ release refused, 3 reasons" in seedbed("release", "careless.yaml", "--to", "production").err
    assert held()[2] == before


def test_the_newest_verdict_about_both_is_the_evidence(evolved: Path, seedbed: Seedbed) -> None:
    assert seedbed("release", "better", "--to", "production").code == 1
    verdict = seedbed("compare", "sorter.yaml", "better", "--on", "test.jsonl", "--json").json
    # A newer one, against a playbook that is not served, is no evidence.
    other = seedbed("playbook", "derive", "sorter.yaml", "--set", "parameters.caution=0.1", "--because", "x", "--json")
    assert seedbed("compare", other.json["playbook"], "better", "--on", "test.jsonl").code == 0
    done = seedbed("release", "better", "--to", "production", "--json")
    assert done.code == 0
    (newest, _) = seedbed("channel", "log", "production", "--json").json["moves"]
    assert newest["to"]["verdict"] == verdict["experiment"]
    assert "superior" in done.json["because"]


def test_a_newer_verdict_about_replays_does_not_hide_the_one_about_live_runs(evolved: Path, seedbed: Seedbed) -> None:
    verdict = seedbed("compare", "sorter.yaml", "better", "--on", "test.jsonl", "--json").json
    since = datetime.now(UTC).isoformat()
    words = ("one", "two", "three")
    for word in words:
        assert seedbed("run", "sorter.yaml", f"text={word}").code == 0
    write(evolved, words__jsonl="".join(f'{{"inputs": {{"text": "{word}"}}, "expected": "bad"}}\n' for word in words))
    replay = ("--on", "words.jsonl", "--replay", "3", "--mode", "fork:1", "--since", since)
    told = seedbed("compare", "sorter.yaml", "better", *replay, "--json").json["verdict"]
    named = told["experiment"].removeprefix("b2:")[:10]
    refused = seedbed("release", "better", "--to", "production", "--because", named)
    assert refused.code == 1
    assert "a verdict about replays" in refused.err
    assert seedbed("release", "better", "--to", "production").code == 0
    (newest, _) = seedbed("channel", "log", "production", "--json").json["moves"]
    assert newest["to"]["verdict"] == verdict["experiment"]


def test_evidence_can_be_named_by_its_digest(evolved: Path, seedbed: Seedbed) -> None:
    verdict = seedbed("compare", "sorter.yaml", "better", "--on", "test.jsonl", "--json").json
    short = verdict["experiment"].removeprefix("b2:")[:10]
    assert seedbed("release", "better", "--to", "production", "--because", short).code == 0


def test_evidence_that_is_not_there_is_told(evolved: Path, seedbed: Seedbed) -> None:
    done = seedbed("release", "better", "--to", "production", "--because", "0123456789")
    assert done.code == 1
    assert "is no experiment with a verdict in this store" in done.err


def test_tasks_that_were_evolved_on_are_no_evidence(evolved: Path, seedbed: Seedbed) -> None:
    before = held()
    done = seedbed("compare", "sorter.yaml", "better", "--on", "train.jsonl")
    assert done.code == 1
    assert "30 of 40 that the candidate was evolved on" in " ".join(done.err.split())
    assert held() == before


def test_a_release_can_be_rehearsed(evolved: Path, seedbed: Seedbed) -> None:
    seedbed("compare", "sorter.yaml", "better", "--on", "test.jsonl")
    before = held()
    done = seedbed("release", "better", "--to", "production", "--dry-run", "--json")
    assert (done.code, done.json["dry_run"], done.json["version"]) == (0, True, 2)
    assert "dry run: production now serves" in seedbed("release", "better", "--to", "production", "--dry-run").out
    assert held() == before


def test_rollback_returns_to_what_was_served(evolved: Path, seedbed: Seedbed) -> None:
    first = seedbed("channel", "show", "production", "--json").json["playbook"]
    seedbed("compare", "sorter.yaml", "better", "--on", "test.jsonl")
    assert seedbed("release", "better", "--to", "production").code == 0
    before = held()
    rehearsed = seedbed("rollback", "production", "--because", "try", "--dry-run", "--json")
    assert (rehearsed.code, rehearsed.json["playbook"], held()) == (0, first, before)
    done = seedbed("rollback", "production", "--because", "complaints", "--json")
    assert (done.code, done.json["playbook"], done.json["because"]) == (0, first, "complaints")
    assert keeps_promise(done.json, "rollback")


@pytest.mark.parametrize(
    ("channel", "told"), [("production", "an earlier one to return to"), ("absent", "no channel with a release")]
)
def test_a_rollback_to_nothing_is_refused(channel: str, told: str, evolved: Path, seedbed: Seedbed) -> None:
    done = seedbed("rollback", channel, "--because", "x")
    assert done.code == 1
    assert told in done.err
