"""seedbed compare --live: what came of those who were served."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from command_line import WORKSPACE, Seedbed, held, keeps_promise, write

from seedbed.playbooks.library import Library
from seedbed.release.assignment import feedback
from seedbed.storage import open_store
from seedbed.storage.store import Query

NAMES = ("production", "production/short")


@pytest.fixture
def tried(kept: str, space: Path, seedbed: Seedbed) -> list[str]:
    """A channel with a canary at a half, and another that serves the same; digests of what is stable and tried."""
    free = "production: {require: []}\n  production/short: {require: []}"
    write(space, seedbed__yaml=WORKSPACE.replace("production: {require: [better, held_out, rules_kept]}", free))
    child = ("derive", kept, "--set", "parameters.caution=0.9", "--because", "x")
    other = seedbed("playbook", *child, "--json").json["playbook"]
    assert seedbed("release", kept, "--to", "production", "--because", "first").code == 0
    assert seedbed("release", other, "--to", "production/short", "--because", "first").code == 0
    assert seedbed("release", other, "--to", "production", "--share", "50%", "--because", "try it").code == 0
    return [kept, other]


def rate(good: dict[str, float], users: int = 60, *channels: str) -> None:
    """So many people are served, and say how it was."""
    import asyncio

    from seedbed.release.assignment import Reader, choose, choose_among

    with closing(open_store("sqlite:///seedbed.db")) as store:
        library = Library(store, "ann")
        readers = [Reader(library, name) for name in channels or ("production",)]

        async def serve() -> None:
            for number in range(users):
                key = f"user {number}"
                choice = await (choose_among(readers, key) if channels else choose(readers[0], key))
                feedback(library, choice.exposure, good[choice.arm])

        asyncio.run(serve())


def test_live_says_how_it_stands_until_it_is_decided_and_then_the_verdict(tried: list[str], seedbed: Seedbed) -> None:
    done = seedbed("compare", "--live", "production", "--json")
    assert keeps_promise(done.json, "compare", form="JSON with --live")
    assert (done.code, done.json["finding"], done.json["verdict"]) == (2, "inconclusive", None)
    assert done.json["canary"]["playbook"] == tried[1]
    assert "not decided yet: after 0 pairs of outcomes, W 0 T 0 L 0" in seedbed("compare", "--live", "production").out
    rate({"canary": 1.0, "control": 0.0})
    shown = seedbed("compare", "--live", "production")
    assert shown.code == 0
    assert shown.out.startswith("superior: the canary is better than the control\n")
    for word in ("difference", "stop-adjusted", "betting", "in order", "holds however often you look", "outcomes"):
        assert word in shown.out
    before = held()
    again = seedbed("compare", "--live", "production", "--json")
    assert keeps_promise(again.json, "compare", form="JSON with --live")
    assert keeps_promise(again.json["verdict"], "compare")
    assert again.json["verdict"]["finding"] == "superior"
    assert held() == before
    with closing(open_store("sqlite:///seedbed.db")) as store:
        assert len(list(store.facts(Query(kind="verdict")))) == 1


def test_a_live_experiment_is_listed_shown_verified_and_reported(
    tried: list[str], space: Path, seedbed: Seedbed
) -> None:
    seedbed("compare", "--live", "production")
    (running,) = seedbed("experiment", "list", "--json").json
    assert (running["status"], running["at_most"]) == ("running", None)
    name = running["experiment"][3:13]
    assert "control and canary of channels/production since" in " ".join(
        seedbed("experiment", "show", name).out.split()
    )
    rate({"canary": 0.0, "control": 1.0})
    assert seedbed("compare", "--live", "production").code == 1
    (ended,) = seedbed("experiment", "list", "--json").json
    assert (ended["status"], ended["finding"]) == ("completed", "inferior")
    assert "is worse than" in seedbed("experiment", "show", name).out
    assert seedbed("evidence", "verify").code == 0
    certificate = seedbed("evidence", "show", name)
    assert certificate.code == 0
    assert "outcomes came after that" in certificate.out
    for file in ("live.md", "live.html"):
        assert seedbed("experiment", "report", name, "-o", file).code == 0
        assert "pairs of outcomes" in (space / file).read_text(encoding="utf-8")


def test_conclude_gives_the_verdict_now_also_when_the_canary_is_gone(tried: list[str], seedbed: Seedbed) -> None:
    rate({"canary": 1.0, "control": 1.0}, 20)
    assert seedbed("compare", "--live", "production", "--json").json["verdict"] is None
    seedbed("rollback", "production", "--because", "enough")
    done = seedbed("compare", "--live", "production", "--conclude", "--json")
    assert (done.code, done.json["verdict"]["finding"]) == (2, "inconclusive")
    assert "do not show whether the canary is better" in seedbed("compare", "--live", "production").out


def test_several_channels_are_set_beside_the_first(tried: list[str], seedbed: Seedbed) -> None:
    rate({"production": 0.0, "production/short": 1.0}, 60, *NAMES)
    asked = ("compare", "--live", NAMES[0], "--live", NAMES[1])
    shown = seedbed(*asked)
    assert shown.code == 0
    assert "superior: production/short is better than production" in shown.out
    done = seedbed(*asked, "--json")
    assert keeps_promise(done.json, "compare", form="JSON with --live twice")
    (arm,) = done.json["arms"]
    assert (arm["channel"], arm["verdict"]["control"], arm["verdict"]["candidate"]) == (NAMES[1], *tried)


def test_which_feedback_counts_and_how_often_luck_may_win_can_be_said(tried: list[str], seedbed: Seedbed) -> None:
    rate({"canary": 1.0, "control": 0.0})
    done = seedbed("compare", "--live", "production", "--metric", "sold", "--alpha", "0.01", "--json")
    assert (done.json["metric"], done.json["alpha"], done.json["pairs"]) == ("sold", 0.01, 0)


def test_without_a_canary_live_says_so(kept: str, seedbed: Seedbed) -> None:
    done = seedbed("compare", "--live", "production")
    assert done.code == 1
    assert 'no canary on channel "production"' in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("a", "b", "--live", "production"), "expected none with live traffic"),
        (("--live", "production", "--on", "tasks.jsonl"), '--on: found "tasks.jsonl"; expected none with live traffic'),
        (("--live", "production", "--plan"), "--plan: found True; expected none with live traffic"),
        (("--live", "production", "--set", "parameters.caution=0.5"), "--set: found"),
        (("--live", "production", "--replicates", "2"), "--replicates: found 2; expected none with live traffic"),
        (("--live", "production", "--goal", "non-inferior", "--margin", "0.1"), "goal: found"),
        (("--live", "production", "--effect", "0.1"), "--effect: found 0.1; expected none with live traffic"),
        (("--live", "production", "--for", "production"), '--for: found "production"; expected none with live'),
        (("--live", "production", "--max-cost", "1"), "--max-cost: found 1.0; expected none with live traffic"),
        (("--live", "production", "--seed", "3"), "--seed: found 3; expected none with live traffic"),
        (("--live", "production", "--parallel", "2"), '--parallel: found "2"; expected none with live traffic'),
        (("--live", "production", "--real-tools"), "--real-tools: found True; expected none with live traffic"),
        (("--live", "production", "--rule", "exact"), "expected betting, the only rule for live traffic"),
        (("--live", "a", "--live", "b", "-o", "live.md"), "expected none with several channels"),
        (("--live", "production", "--alpha", "0.7"), "expected above 0 and below 0.5"),
        (("a", "b", "--on", "tasks.jsonl", "--conclude"), "expected none with a dataset"),
        (("a", "--on", "tasks.jsonl"), "expected two playbooks, or --live CHANNEL"),
        ((), "expected two playbooks, or --live CHANNEL"),
    ],
)
def test_options_that_would_do_nothing_are_refused_with_live(
    wrong: tuple[str, ...], told: str, space: Path, seedbed: Seedbed
) -> None:
    done = seedbed("compare", *wrong)
    assert done.code == 64
    assert told in " ".join(done.err.replace("│", " ").split())


def test_an_exploratory_look_is_no_attempt_and_leaves_room_for_one(tried: list[str], seedbed: Seedbed) -> None:
    asked = ("compare", "--live", "production", "--json")
    explored = seedbed(*asked, "--exploratory").json
    assert seedbed("evidence", "attempts", "--json").json["attempts"] == []
    assert seedbed(*asked, "--exploratory").json["experiment"] == explored["experiment"]
    confirmed = seedbed(*asked, "--rule", "betting").json
    assert confirmed["experiment"] != explored["experiment"]
    assert len(seedbed("evidence", "attempts", "--json").json["attempts"]) == 1
    with closing(open_store("sqlite:///seedbed.db")) as store:
        assert [store.get(each["experiment"])["mode"] for each in (explored, confirmed)] == [
            "exploratory",
            "confirmatory",
        ]


def test_an_exploratory_look_at_feedback_leaves_no_room_for_an_attempt(tried: list[str], seedbed: Seedbed) -> None:
    rate({"canary": 1.0, "control": 1.0}, 8)
    explored = seedbed("compare", "--live", "production", "--json", "--exploratory").json
    assert seedbed("compare", "--live", "production", "--json").json["experiment"] == explored["experiment"]


def test_a_report_of_live_traffic_can_be_written_before_and_after_the_verdict(
    tried: list[str], space: Path, seedbed: Seedbed
) -> None:
    assert seedbed("compare", "--live", "production", "-o", "early.md").code == 2
    rate({"canary": 1.0, "control": 0.0})
    done = seedbed("compare", "--live", "production", "-o", "live.html")
    assert (done.code, "wrote live.html" in done.out) == (0, True)
    assert "the canary" in (space / "early.md").read_text(encoding="utf-8")
    assert "the canary is better than the control" in (space / "live.html").read_text(encoding="utf-8")
