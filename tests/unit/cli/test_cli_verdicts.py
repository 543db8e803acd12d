"""Verdicts as people see them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from seedbed.cli import output
from seedbed.cli.views import verdict as verdicts
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.replay.coverage import ReplayedRuns
from seedbed.experiments.replay.estimate import Estimate
from seedbed.experiments.replay.fidelity import Fidelity, ReplayAgreement
from seedbed.experiments.replay.replay import ReplayableTasks
from seedbed.experiments.slices import Slice, Slices, SliceTerms
from seedbed.experiments.verdict import Finding, RankedCandidate, Ranking, Verdict
from seedbed.runs.drift import AnswerDrift
from seedbed.stats.estimates import Interval, exact_rate
from seedbed.stats.sequential.exact import ExactMcNemar

OLD, NEW = f"b2:{'a' * 64}", f"b2:{'b' * 64}"
VERDICT = Verdict(
    experiment=f"b2:{'c' * 64}",
    control=OLD,
    candidate=NEW,
    dataset=f"b2:{'d' * 64}",
    metric="exact_match",
    finding="superior",
    tasks=4,
    at_most=10,
    wins=2,
    ties=1,
    losses=1,
    control_mean=0.25,
    candidate_mean=0.5,
    difference=0.25,
    low=-0.125,
    high=0.625,
    p=0.031,
    alpha=0.05,
    outcomes="+=-+",
    rule=ExactMcNemar.name,
    guarantee=ExactMcNemar.guarantee,
    estimate=0.2,
    estimate_low=-0.2,
    estimate_high=0.6,
)
RULE: dict[str, Any] = {"effect": 0.1, "margin": 0.05}


def shown(*parts: RenderableType) -> str:
    console = Console(width=160, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(*parts)
    return captured.get()


@pytest.mark.parametrize(
    ("finding", "told"),
    [
        ("superior", "new is better than old"),
        ("non-inferior", "new is not worse than old by more than 0.05"),
        ("equivalent", "new and old differ by less than 0.05"),
        ("inferior", "new is worse than old"),
        ("futile", "new is not better than old by 0.1, as was hoped for"),
        ("inconclusive", "4 tasks do not show whether new is better than old"),
        ("invalid", "too many runs got no score"),
    ],
)
def test_every_finding_is_told_in_words(finding: Finding, told: str) -> None:
    verdict = replace(VERDICT, finding=finding, because="too many runs got no score")
    first = shown(verdicts.verdict_view(verdict, RULE, ("old", "new"))).splitlines()[0]
    assert first.rstrip() == f"{finding}: {told}"


def test_without_names_playbooks_are_called_by_their_digests() -> None:
    assert "bbbbbbbbbb is better than aaaaaaaaaa" in shown(verdicts.verdict_view(VERDICT, RULE))


def test_the_figures_are_those_of_the_verdict() -> None:
    text = " ".join(shown(verdicts.verdict_view(VERDICT, RULE)).split())
    for told in (
        "exact_match 0.250 → 0.500",
        "difference +0.250 stop-adjusted +0.200 [-0.200, +0.600]",
        "tasks 4 of 10: better 2, equal 1, worse 1",
        "in order +=-+",
        "p 0.031 (error rate 0.05",
    ):
        assert told in text


def test_an_adjusted_estimate_is_told_only_after_an_early_stop() -> None:
    text = shown(verdicts.verdict_view(replace(VERDICT, at_most=4), RULE))
    assert "stop-adjusted" not in text
    assert "+0.250 [-0.125, +0.625]" in text


def test_where_less_is_better_the_adjusted_difference_is_turned_too() -> None:
    text = shown(verdicts.verdict_view(replace(VERDICT, better="lower", difference=-0.25), RULE))
    assert "-0.200 [-0.600, +0.200]" in text


def test_how_much_better_a_superior_is_at_least_is_told_with_what_the_interval_means() -> None:
    superior = replace(VERDICT, at_least=0.012, low=-0.01, warning="too few sources: 4")
    text = " ".join(shown(verdicts.verdict_view(superior, RULE)).split())
    assert "at least +0.012 better (error rate 0.05; the interval includes 0 because it covers both sides)" in text
    assert "warning too few sources: 4" in text
    assert "at least" not in shown(verdicts.verdict_view(VERDICT, RULE))
    assert "holds 0" not in shown(verdicts.verdict_view(replace(superior, low=0.01), RULE))


def test_names_cannot_command_the_terminal() -> None:
    text = shown(verdicts.verdict_view(VERDICT, RULE, ("\x1b[2Jold", "[red]new[/red]")))
    assert "\x1b" not in text
    assert "[red]new[/red] is better than ␛[2Jold" in text


@pytest.mark.parametrize(("control", "promise"), [("holm", "the chance that any"), ("e-bh", "the expected share")])
def test_a_ranking_says_what_its_error_rate_is_of(control: Any, promise: str) -> None:
    other = replace(VERDICT, candidate=OLD, finding="inconclusive")
    ranking = Ranking(control, 0.05, (RankedCandidate(VERDICT, 0.01, True), RankedCandidate(other, 0.4, False)))
    lines = shown(verdicts.ranking_view(ranking, {NEW: "new.yaml", OLD: "old.yaml"})).splitlines()
    first, second = (next(line for line in lines if name in line) for name in ("new.yaml", "old.yaml"))
    assert "✓ better" in first
    assert "inconclusive" in second
    assert promise in lines[-1]


def replays(fidelity: Fidelity, tasks: ReplayableTasks) -> ReplayedRuns:
    context: Any = None
    return ReplayedRuns(context, fidelity, tasks, {})


def test_a_replay_says_how_far_it_can_be_trusted_and_what_is_missing() -> None:
    agreement = ReplayAgreement(agreed=3, missed=0, rate=exact_rate(3, 4))
    fidelity = Fidelity(mode="lenient", steps={}, agreement=agreement, strata={}, population=agreement.rate)
    drift = AnswerDrift(kind="call", name="look", compared=10, differ=3, path="result.price", now="7", recorded="2")
    fidelity = replace(fidelity, drift=[drift])
    found = ReplayableTasks(Dataset(()), {"replay of x": "not replayable: no such turn"}, {"substituted": 2})
    text = shown(verdicts.replay_view(VERDICT, replays(fidelity, found), RULE, ("old", "new")))
    for told in (
        "75%",
        "2 substituted",
        "1 run that",
        "not replayable: no such turn",
        "--mode fork:1",
        "3 of 10",
        "result.price",
    ):
        assert told in text
    document = verdicts.replay_document(VERDICT, replays(fidelity, found))
    assert (document["missed"], document["steps"]) == (
        {"replay of x": "not replayable: no such turn"},
        {"substituted": 2},
    )


def test_an_estimate_whose_replays_do_not_count_says_why() -> None:
    unknown = Interval(0.25, -math.inf, math.inf, 0.95, 4)
    estimate = Estimate(
        control=OLD,
        candidate=NEW,
        metric="exact_match",
        better="higher",
        difference=unknown,
        replays_alone=Interval(0.5, 0.25, 0.75, 0.95, 40),
        live_alone=unknown,
        replayed=40,
        live=4,
        weight=0.0,
        worth=math.nan,
        failed=1,
        spent_usd=2.0,
    )
    agreement = ReplayAgreement(agreed=3, missed=0, rate=exact_rate(3, 4))
    fidelity = Fidelity(mode="lenient", steps={}, agreement=agreement, strata={}, population=agreement.rate)
    text = shown(
        verdicts.estimate_view(estimate, replays(fidelity, ReplayableTasks(Dataset(()), {}, {})), ("old", "new"))
    )
    for told in ("too few live runs", "not known", "[+0.250, +0.750]", "at least 20 live runs", "1 run", "75%"):
        assert told in text


def slice_of(tag: str, finding: Any, difference: float, **more: Any) -> Slice:
    figures: dict[str, Any] = {"tasks": 120, "at_most": 240, "wins": 1, "ties": 2, "losses": 3, "p": 0.00012, **more}
    return Slice(
        tag=tag, finding=finding, difference=difference, low=difference - 0.1, high=difference + 0.1, **figures
    )


SLICES = Slices(
    experiment=VERDICT.experiment,
    terms=SliceTerms(),
    tags=(
        slice_of("salient_translation_error_detection", "worse", -0.15),
        slice_of("names", "inconclusive", -0.02, p=0.4),
        slice_of("dates", "not worse", 0.1, p=1.0),
    ),
    tasks=3_100,
    cost_usd=12.5,
)


def test_every_tag_has_a_line_that_fits_a_narrow_terminal_the_worst_first(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(width=80, highlight=False, color_system=None)
    monkeypatch.setattr(output, "console", lambda: console)
    with console.capture() as captured:
        console.print(verdicts.slices_view(SLICES))
    lines = captured.get().splitlines()
    assert lines[0].startswith("worse on 1 of 3 tags, after 3,100 tasks in all and $12.5")
    assert [line.split()[0].rstrip("…")[:10] for line in lines[3:]] == ["salient_tr", "names", "dates"]
    assert "95% each" in lines[1]
    assert "worse" in lines[3]
    assert "-0.150   [-0.250, -0.050]" in lines[3]
    assert "120/240" in lines[3]
    assert max(map(len, lines)) <= 80


def test_tags_that_a_budget_left_open_say_what_to_do() -> None:
    left = replace(SLICES, tags=(slice_of("names", "open", 0.0, p=None),))
    assert "1 of 1 tag undecided: compare again with a larger budget" in shown(verdicts.slices_view(left))
    fine = replace(SLICES, tags=SLICES.tags[1:])
    text = shown(verdicts.verdict_view(replace(VERDICT, slices=fine), RULE))
    assert "superior" in text
    assert "worse on none of 2 tags" in text
