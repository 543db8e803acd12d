"""seedbed channel watch: how what is new does, live, and what was done about it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from command_line import WORKSPACE, Seedbed, keeps_promise, write

from seedbed.cli import output
from seedbed.errors import StoreError
from seedbed.release import channels
from seedbed.storage import open_store
from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import Fact, Query, now

SEEDBED = [sys.executable, "-c", "from seedbed.cli.main import run; run()"]


def configured(space: Path, canary: str) -> None:
    given = f"{{require: [], canary: {{{canary}}}}}"
    write(space, seedbed__yaml=WORKSPACE.replace("{require: [better, held_out, rules_kept]}", given))


@pytest.fixture
def canary(kept: str, space: Path, seedbed: Seedbed) -> tuple[str, str]:
    """A channel whose canary half of all meet; the digests of what is stable and of the canary."""
    configured(space, "shares: [50%, 75%, 100%], roll_back_if: {rating: -0.05}, hold_if: {cost_usd: {by: 1, most: 9}}")
    child = ("playbook", "derive", kept, "--set", "parameters.caution=0.9", "--because", "x", "--json")
    digest = seedbed(*child).json["playbook"]
    for each in (kept, digest):
        assert seedbed("release", each, "--to", "production", "--because", "try").code == 0
    return kept, digest


def rate(playbooks: tuple[str, str], rates: tuple[float, float], units: int) -> None:
    """So many meet each of them, and say how it was."""
    chance, facts = random.Random(1), []
    for number in range(units):
        for playbook, good in zip(playbooks, rates, strict=True):
            name = f"{playbook[3:9]}/{number}/{random.getrandbits(60)}"
            body: dict[str, Any] = {"unit": name, "arm": "x", "playbook": playbook, "share": 0.5, "propensity": 0.5}
            body |= {"version": 2, "compared": True}
            shared: dict[str, Any] = {"at": now(), "by": "ann"}
            subject = "channels/production"
            facts.append(
                Fact(kind="exposure", key=name, subject=subject, body=body, tags=(playbook,), **shared),
            )
            told: dict[str, Any] = {"metric": "rating", "comment": ""}
            value = float(chance.random() < good)
            facts.append(
                Fact(kind="feedback", key=name, subject=name, body=told, value=value, tags=("rating",), **shared)
            )
    with closing(open_store("sqlite:///seedbed.db")) as store:
        store.append(facts)


def test_all_is_well(canary: tuple[str, str], seedbed: Seedbed) -> None:
    rate(canary, (0.9, 0.9), 40)
    done = seedbed("channel", "watch", "production", "--once", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "channel", "watch")
    told = done.json
    assert (told["phase"], told["newer"], told["older"], told["share"]) == ("canary", canary[1], canary[0], 0.5)
    assert (told["units"], told["alarms"], told["reaction"], told["moved"]) == (
        {"newer": 40, "older": 40},
        [],
        None,
        None,
    )
    rating, cost = told["guards"]
    assert (rating["metric"], rating["limit"], rating["pairs"], rating["breached"]) == ("rating", -0.05, 40, False)
    assert (cost["metric"], cost["action"], cost["pairs"], cost["low"]) == ("cost_usd", "hold", 0, None)
    for moment in (told["at"], told["since"]):  # as in all other commands
        assert "T" in moment
        assert datetime.fromisoformat(moment).tzinfo


def test_people_see_one_row_for_each_guard(canary: tuple[str, str], seedbed: Seedbed) -> None:
    rate(canary, (1.0, 1.0), 40)
    done = seedbed("channel", "watch", "production", "--once")
    assert done.code == 0
    title, *rest = done.out.splitlines()
    assert title.startswith(f"production  canary {canary[1][3:13]} at 50 % against {canary[0][3:13]}, 40 and 40 units")
    (rating,) = [line for line in rest if line.startswith("rating ")]
    assert rating.split()[1:6] == ["roll", "back", "1", "1", "+0"]
    assert "-0.05" in rating
    assert any(line.split()[:2] == ["cost_usd", "hold"] for line in rest)
    (split,) = [line for line in rest if line.startswith("split of the units")]
    assert split.startswith(
        "split of the units as planned: p = 1 for a split this uneven by chance; e = 1, where 100 is"
    )
    assert rest[-1] == "no alarms"


def test_a_guard_is_one_row_of_whole_numbers_at_80_columns(
    canary: tuple[str, str], seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate(canary, (1.0, 1.0), 40)
    monkeypatch.setenv("COLUMNS", "80")
    output.console.cache_clear()
    done = seedbed("channel", "watch", "production", "--once")
    (rating,) = [line for line in done.out.splitlines() if "-0.05" in line]
    assert len(rating) <= 80
    assert "…" not in rating
    assert rating.split()[:4] == ["rating", "1", "1", "+0"]


def test_what_each_guard_needs_is_planned_for_the_share_of_the_canary_or_another(
    canary: tuple[str, str], seedbed: Seedbed
) -> None:
    done = seedbed("channel", "plan", "production", "--base", "10%", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "channel", "plan")
    assert (done.json["share"], done.json["controls"], done.json["chance"]) == (0.5, 1, 0.9)
    rating, cost = done.json["guards"]
    assert (rating["metric"], rating["limit"], rating["base"], rating["change"]) == ("rating", -0.05, 0.9, -0.075)
    assert (cost["action"], cost["base"], cost["change"]) == ("hold", 0.9, 1.5)
    small = seedbed("channel", "plan", "production", "--base", "10%", "--share", "5%")
    title, heads, _, *rows = small.out.splitlines()
    assert title == "production  canary at 5 %: each outcome is compared with 9 outcomes of its control"
    assert heads.split() == ["guard", "limit", "stable", "at", "canary", "outcomes", "needed"]
    needed = int(rows[0].split()[-1].replace(",", ""))
    assert rows[0].split()[:-1] == ["rating", "roll", "back", "-0.05", "0.9", "-0.075"]
    assert needed < 0.8 * rating["outcomes"]


def test_a_plan_that_cannot_be_is_refused_and_one_without_guards_says_so(space: Path, seedbed: Seedbed) -> None:
    configured(space, "shares: [50%, 100%]")
    refused = seedbed("channel", "plan", "production", "--worse", "1")
    assert (refused.code, "worse: found 1.0; expected more than 1 times what a guard allows" in refused.err) == (
        64,
        True,
    )
    assert "no guards" in seedbed("channel", "plan", "production").out
    assert seedbed("channel", "plan", "production", "--json").json["guards"] == []


def test_what_does_worse_is_taken_back_with_exit_code_1(canary: tuple[str, str], seedbed: Seedbed) -> None:
    rate(canary, (1.0, 0.2), 40)
    done = seedbed("channel", "watch", "production", "--once", "--json")
    assert done.code == 1
    assert keeps_promise(done.json, "channel", "watch")
    told = done.json
    assert (told["reaction"], told["alarms"][0]["kind"], told["moved"]["version"]) == ("roll back", "worse", 3)
    assert [alert["kind"] for alert in told["alerts"]] == ["rolled back"]
    assert seedbed("channel", "show", "production", "--json").json["playbook"] == canary[0]
    log = seedbed("channel", "log", "production", "--markdown").out
    (rolled_back,) = [line for line in log.splitlines() if line.endswith("| monitor |")]
    assert "| rollback |" in rolled_back
    assert "the limit is -0.05 |" in rolled_back
    assert seedbed("alerts", "list", "--json").json["alerts"][0]["kind"] == "rolled back"
    assert seedbed("store", "verify").code == 0
    done = seedbed("channel", "watch", "production", "--once")
    assert (done.code, "no alarms" in done.out) == (0, True)


def test_a_dry_run_says_what_would_happen_and_nobody_hears_of_it(
    canary: tuple[str, str], space: Path, seedbed: Seedbed
) -> None:
    write(space, seedbed__yaml=(space / "seedbed.yaml").read_text() + "alerts: [{log: alerts.jsonl}]\n")
    rate(canary, (1.0, 0.2), 40)
    done = seedbed("channel", "watch", "production", "--once", "--dry-run", "--promote", "--json")
    assert (done.code, done.json["reaction"], done.json["dry_run"]) == (1, "roll back", True)
    assert done.json["moved"]["because"].startswith("rating of ")
    assert shares() == [None, 0.5]
    assert seedbed("alerts", "list", "--json").json["alerts"] == []
    assert not (space / "alerts.jsonl").exists()


def test_people_are_told_that_it_was_taken_back(canary: tuple[str, str], seedbed: Seedbed) -> None:
    rate(canary, (1.0, 0.2), 40)
    out = seedbed("channel", "watch", "production", "--once").out
    assert f"roll back: rating of {canary[1][3:13]} differs by " in out
    assert "rolled back; production serves " in out


def test_what_holds_it_has_exit_code_2_and_no_promotion_passes(
    canary: tuple[str, str], space: Path, seedbed: Seedbed
) -> None:
    configured(space, "shares: [50%, 100%], hold_if: {rating: -0.05}")
    rate(canary, (1.0, 0.2), 40)
    done = seedbed("channel", "watch", "production", "--once", "--promote", "--json")
    assert (done.code, done.json["reaction"], done.json["moved"]) == (2, "hold", None)
    done = seedbed("channel", "promote", "production", "--because", "I like it")
    assert done.code == 1
    assert "watch" in done.err
    assert f"rating of {canary[1][3:13]} differs by" in done.err


def test_a_channel_that_nothing_was_released_to_is_told(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("channel", "watch", "production", "--once")
    assert (done.code, done.out) == (1, "")
    assert 'channel "production": found nothing released' in done.err


def test_without_guards_it_says_how_to_have_some(kept: str, space: Path, seedbed: Seedbed) -> None:
    configured(space, "")
    seedbed("release", kept, "--to", "production", "--because", "first")
    done = seedbed("channel", "watch", "production", "--once")
    assert done.code == 0
    assert "no guards: set roll_back_if under canary in the workspace file" in done.out


def test_a_wrong_guard_is_told_with_its_place(kept: str, space: Path, seedbed: Seedbed) -> None:
    configured(space, "roll_back_if: {rating: 5}")
    done = seedbed("channel", "watch", "production", "--once")
    assert done.code == 1
    assert "channels.production.canary.roll_back_if.rating" in done.err


# Promoting


def shares() -> list[float | None]:
    """The share of the canary after each move of the channel."""
    with closing(open_store("sqlite:///seedbed.db")) as store:
        targets = [move.body["to"] for move in channels.moves(store, "production")]
    return [target["canary"]["share"] if "canary" in target else None for target in targets]


def test_every_step_of_the_ramp_is_taken_while_nothing_speaks_against_it(
    canary: tuple[str, str], seedbed: Seedbed
) -> None:
    rate(canary, (1.0, 1.0), 10)
    moved = [seedbed("channel", "watch", "production", "--once", "--promote", "--json").json["moved"] for _ in range(3)]
    assert shares() == [None, 0.5, 0.75, None]
    assert [each and each["because"] for each in moved] == ["the monitor saw no alarm"] * 2 + [None]
    assert seedbed("channel", "show", "production", "--json").json["playbook"] == canary[1]


def test_a_step_that_is_not_due_yet_is_not_taken(canary: tuple[str, str], space: Path, seedbed: Seedbed) -> None:
    configured(space, "shares: [50%, 100%], hold: 20 runs")
    for units, then in ((10, [None, 0.5]), (10, [None, 0.5, None])):
        rate(canary, (1.0, 1.0), units)
        assert seedbed("channel", "watch", "production", "--once", "--promote").code == 0
        assert shares() == then


@pytest.mark.parametrize("by", ["ann", "bob"])
def test_an_approval_is_for_a_person_whoever_watches(
    by: str, canary: tuple[str, str], space: Path, seedbed: Seedbed
) -> None:
    configured(space, "shares: [50%, 75%, 100%], approval: true")
    write(space, seedbed__yaml=(space / "seedbed.yaml").read_text().replace("by: ann", f"by: {by}"))
    for _ in range(3):
        assert seedbed("channel", "watch", "production", "--once", "--promote").code == 0
    assert shares() == [None, 0.5, 0.75]


def test_without_a_ramp_there_is_no_step_to_take(canary: tuple[str, str], space: Path, seedbed: Seedbed) -> None:
    configured(space, "")
    assert seedbed("channel", "watch", "production", "--once", "--promote").code == 0
    assert shares() == [None, 0.5]


# For as long as one likes


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_it_goes_on_until_ctrl_c(options: tuple[str, ...], canary: tuple[str, str], seedbed: Seedbed) -> None:
    """Where nobody looks at a terminal each look is printed."""
    command = [*SEEDBED, "channel", "watch", "production", "--every", "0.1", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None

        def look() -> bool:
            """Whether the next look shows that it was taken back."""
            assert process.stdout is not None
            said = process.stdout.readline()
            if options:
                return bool(json.loads(said)["moved"])
            while said and not said.startswith(("no alarms", "rolled back; ")):
                said = process.stdout.readline()
            return said.startswith("rolled back; ")

        assert not look()
        rate(canary, (1.0, 0.2), 40)
        while not look():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert shares() == [None, 0.5, None]


def test_a_store_that_is_gone_for_a_while_does_not_end_it(
    canary: tuple[str, str], seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, gone, facts = count(1), False, SqlStore.facts

    def broken(store: SqlStore, query: Query) -> Iterator[Fact]:
        if gone:
            raise StoreError("the database went away")
        return facts(store, query)

    def pause(_: float) -> None:
        nonlocal gone
        look = next(looks)
        gone = look == 1
        if look == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(SqlStore, "facts", broken)
    monkeypatch.setattr("seedbed.cli.nouns.channel.watch.time.sleep", pause)
    done = seedbed("channel", "watch", "production", "--json")
    assert done.code == 0
    assert len(done.out.splitlines()) == 2
    assert "trying again: the database went away" in done.err
