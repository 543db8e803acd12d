"""seedbed evidence, as it is typed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import BETTER, SORTER, WORKSPACE, Seedbed, held, keeps_promise, tasks, write

COMPARE = ("compare", "sorter.yaml", "better.yaml", "--on", "tasks.jsonl", "--json")


@pytest.fixture
def verdict(space: Path, seedbed: Seedbed) -> Any:
    write(space, tasks__jsonl=tasks(40), better__yaml=SORTER.replace("Message: {text}", BETTER))
    return seedbed(*COMPARE).json


def forge(statement: str) -> None:
    with closing(sqlite3.connect("seedbed.db")) as db, db:
        assert db.execute(statement).rowcount


def test_a_certificate_has_all_that_a_verdict_rests_on(verdict: Any, seedbed: Seedbed) -> None:
    done = seedbed("evidence", "show", verdict["experiment"][:12], "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "evidence", "show")
    assert (done.json["verdict"], done.json["problems"]) == (verdict, [])
    assert len(done.json["path"]) == verdict["tasks"]
    told = seedbed("evidence", "show", verdict["experiment"]).out
    assert "registered first" in told
    assert "✗" not in told


def test_a_verdict_that_follows_is_verified(verdict: Any, seedbed: Seedbed) -> None:
    for names in ((), (verdict["experiment"][:10],)):
        done = seedbed("evidence", "verify", *names, "--json")
        assert (done.code, done.json) == (0, [{"experiment": verdict["experiment"], "problems": []}])
    assert "follows from its raw facts" in seedbed("evidence", "verify").out


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE facts SET body = json_set(body, '$.wins', 3) WHERE kind = 'verdict'",
        "UPDATE facts SET value = 0.5 WHERE number = (SELECT min(number) FROM facts WHERE kind = 'cell')",
        "UPDATE facts SET by = 'eve' WHERE kind = 'verdict'",
    ],
    ids=["a number", "a score", "a name"],
)
def test_what_was_forged_is_found(statement: str, verdict: Any, seedbed: Seedbed) -> None:
    forge(statement)
    done = seedbed("evidence", "verify", "--json")
    assert done.code == 1
    (found,) = done.json
    assert found["problems"]
    assert set(found["problems"][0]) == {"path", "found", "expected", "remedy"}
    assert "differs from its raw facts" in seedbed("evidence", "verify").out


def test_one_that_cannot_be_computed_again_does_not_hide_the_others(verdict: Any, seedbed: Seedbed) -> None:
    newer = seedbed(*COMPARE, "--seed", "1").json["experiment"]
    forge(f"UPDATE facts SET body = json_remove(body, '$.wins') WHERE kind = 'verdict' AND key = '{newer}'")
    done = seedbed("evidence", "verify", "--json")
    assert done.code == 1
    assert {each["experiment"] for each in done.json} == {verdict["experiment"], newer}


def test_an_export_overwrites_no_file(verdict: Any, seedbed: Seedbed) -> None:
    Path("mine.json").write_text("kept", encoding="utf-8")
    done = seedbed("evidence", "export", verdict["experiment"], "-o", "mine.json")
    assert (done.code, Path("mine.json").read_text(encoding="utf-8")) == (1, "kept")
    assert "a file that exists" in done.err


def test_a_file_is_verified_with_the_keys_of_the_people_whom_it_names(
    verdict: Any, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = seedbed("evidence", "key", "-o", "ann.key", "--json").json["public"]
    write(Path(), signers__yaml=f"signers: {{ann: '{public}'}}", keys__yaml="{ann: nothing}")
    verify = ("evidence", "verify", "it.evidence", "--signers")
    seedbed("evidence", "export", verdict["experiment"], "-o", "it.evidence")
    assert "found no signature expected one by ann" in " ".join(seedbed(*verify, "signers.yaml").out.split())
    monkeypatch.setenv("SEEDBED_SIGNING_KEY", Path("ann.key").read_text())
    Path("it.evidence").unlink()
    seedbed("evidence", "sign")
    seedbed("evidence", "export", verdict["experiment"], "-o", "it.evidence")
    assert seedbed(*verify, "signers.yaml").code == 0
    assert "signers: {NAME: ed25519:" in seedbed(*verify, "keys.yaml").err
    assert seedbed("evidence", "verify", "--signers", "signers.yaml").code == 64


def test_a_forged_certificate_ends_with_1(verdict: Any, seedbed: Seedbed) -> None:
    forge("UPDATE facts SET body = json_set(body, '$.wins', 3) WHERE kind = 'verdict'")
    done = seedbed("evidence", "show", verdict["experiment"])
    assert done.code == 1
    assert "wins" in done.out


def test_where_there_is_no_verdict_nothing_is_wrong(space: Path, seedbed: Seedbed) -> None:
    assert seedbed("evidence", "verify", "--json").json == []
    assert "No verdicts yet" in seedbed("evidence", "verify").out


@pytest.mark.parametrize("command", ["show", "verify"])
def test_an_experiment_that_nobody_knows_is_told(command: str, verdict: Any, seedbed: Seedbed) -> None:
    done = seedbed("evidence", command, "0123456789")
    assert (done.code, done.out) == (1, "")
    assert "is not an experiment in this store" in done.err


# The error budget


def test_every_candidate_for_a_channel_is_paid_from_its_budget(verdict: Any, seedbed: Seedbed) -> None:
    fresh = seedbed("evidence", "budget", "production", "--json").json
    assert keeps_promise(fresh, "evidence", "budget")
    assert (fresh["tested"], fresh["discoveries"]) == (0, 0)
    paid = seedbed(*COMPARE, "--for", "production").json
    assert paid["alpha"] == fresh["next_alpha"]
    after = seedbed("evidence", "budget", "production", "--json").json
    assert (after["tested"], after["discoveries"], after["waiting"]) == (1, 1, 0)
    assert "1 (1 called better)" in seedbed("evidence", "budget", "production").out


def test_the_rate_of_a_budget_and_what_keeps_it_are_settings_of_the_channel(verdict: Any, seedbed: Seedbed) -> None:
    terms = "error_budget: {rate: 0.2, control: e-lond}"
    write(Path(), seedbed__yaml=WORKSPACE.replace("production: {", f"production: {{{terms}, "))
    fresh = seedbed("evidence", "budget", "production", "--json").json
    assert (fresh["budget"], fresh["alpha"]) == ("e-lond", 0.2)
    planned = seedbed(*COMPARE, "--for", "production", "--plan").json
    done = seedbed(*COMPARE, "--for", "production").json
    assert (done["rule"], done["finding"]) == ("betting", "superior")
    assert (planned["rule"], planned["alpha"]) == (done["rule"], done["alpha"])
    assert done["alpha"] == fresh["next_alpha"]
    after = seedbed("evidence", "budget", "production", "--json").json
    assert (after["discoveries"], after["tested"]) == (1, 1)
    assert "however the e-values depend on each other" in seedbed("evidence", "budget", "production").out
    assert seedbed("evidence", "verify").code == 0
    assert seedbed("store", "verify").code == 0


@pytest.mark.parametrize("command", [("evidence", "budget", "production"), (*COMPARE, "--for", "production")])
def test_a_budget_that_cannot_be_is_told_and_nothing_is_paid(
    command: tuple[str, ...], verdict: Any, seedbed: Seedbed
) -> None:
    write(Path(), seedbed__yaml=WORKSPACE.replace("production: {", "production: {error_budget: 5, "))
    before = held()
    done = seedbed(*command)
    assert (done.code, done.out) == (1, "")
    assert "channels.production.error_budget.rate" in done.err
    assert held() == before


def test_a_channel_that_is_misspelt_has_no_budget(verdict: Any, seedbed: Seedbed) -> None:
    done = seedbed("evidence", "budget", "prodution")
    assert (done.code, done.out) == (1, "")
    assert "production" in done.err


# The sentinel


def test_games_against_itself_are_counted(verdict: Any, seedbed: Seedbed) -> None:
    assert "no A/A comparisons yet" in seedbed("evidence", "sentinel").out
    done = seedbed("evidence", "sentinel", "better.yaml", "tasks.jsonl", "--times", "2", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "evidence", "sentinel")
    assert (done.json["games"], done.json["rate"], done.json["alarmed"]) == (2, 0.0, False)
    assert seedbed("evidence", "sentinel", "--json").json == done.json
    assert "as promised" in seedbed("evidence", "sentinel").out


def test_false_winners_beyond_chance_are_an_alarm(verdict: Any, seedbed: Seedbed) -> None:
    seedbed("evidence", "sentinel", "better.yaml", "tasks.jsonl", "--times", "3")
    games = "key IN (SELECT key FROM facts WHERE kind = 'sentinel')"
    forge(f"UPDATE facts SET body = json_set(body, '$.finding', 'superior') WHERE kind = 'verdict' AND {games}")
    done = seedbed("evidence", "sentinel", "--json")
    assert (done.code, done.json["rate"], done.json["alarmed"]) == (1, 1.0, True)
    assert "more often than promised" in seedbed("evidence", "sentinel").out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("sentinel", "better.yaml"), 64, "a playbook and a dataset, or neither"),
        (("sentinel", "better.yaml", "tasks.jsonl", "--metric", "nonsense"), 64, "--metric"),
        (("sentinel", "better.yaml", "absent.jsonl"), 1, "absent.jsonl"),
        (("sentinel", "absent.yaml", "tasks.jsonl"), 1, "absent.yaml"),
        (("sentinel", "--alpha", "0.7"), 64, "--alpha"),
        (("sentinel", "--times", "0"), 64, "--times"),
        (("budget", "production", "--alpha", "0.1"), 64, "--alpha"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_wrong_is_told_and_nothing_is_played(
    arguments: tuple[str, ...], code: int, told: str, verdict: Any, seedbed: Seedbed
) -> None:
    before = held()
    done = seedbed("evidence", *arguments)
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert "unexpected" not in done.err
    assert held() == before
