"""The report of a comparison: an answer anybody understands, figures that add up, hostile texts that stay texts."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import Any

import pytest
from loop_samples import CONFIRMING, agent, bench, numbers

from seedbed.errors import Problem
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch, Metric, Score
from seedbed.experiments.compare import abort, compare, run_experiment
from seedbed.experiments.experiment import Design, Experiment
from seedbed.experiments.options import Comparing
from seedbed.experiments.proof.certificate import Certificate, certificate
from seedbed.experiments.slices import SliceTerms
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.experiment.report import to_markdown
from seedbed.reports.experiment.view import ExperimentView
from seedbed.reports.numbers import plus
from seedbed.runs.run import Run
from seedbed.stats.effects import cohen_g, odds_ratio
from seedbed.stats.scores import difference_interval
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import now, short

pytestmark = pytest.mark.usefixtures("sighted")

HOSTILE = '|<script>alert("x")</script>\n# Heading **bold** [link](http://x) `code`'
OLD, NEW = agent(".*[02468]|.*1"), agent(".*[0-7]")
NAMES = ("old", "new")


class Graded(ExactMatch):
    """Scores between 0 and 1, of which the candidate has the higher ones."""

    binary = False
    better = "higher"

    async def __call__(self, run: Run, task: Task) -> Score:
        middle = 0.8 if run.playbook == NEW.digest else 0.3
        return Score(middle + random.Random(f"{run.playbook} {task.id}").uniform(-0.2, 0.2))


class Errors(Graded):
    """The same, but less is better."""

    better = "lower"


def tasks(size: int = 200, text: str = "") -> Dataset:
    tags = ("even", "odd")
    return Dataset(
        tuple(
            Task(task.id, {**task.inputs, "text": text}, task.expected, (tags[n % 2],))
            for n, task in enumerate(numbers(size))
        )
    )


_USUAL: list[Certificate] = []
"""The certificate of the comparison that most tests read."""


async def proven(
    on: Dataset | None = None, metric: Metric | None = None, *, old: Playbook = OLD, new: Playbook = NEW, **how: Any
) -> Certificate:
    """The certificate of a comparison that was really made. The usual one is made once."""
    usual = (on, metric, old, new, how) == (None, None, OLD, NEW, {})
    if usual and _USUAL:
        return _USUAL[0]
    store = MemoryStore()
    known = {"oracle": how.pop("oracle")} if "oracle" in how else {}
    verdict = await run_experiment(
        old, new, on or tasks(), metric or ExactMatch(), bench(store, **known), Comparing(**how)
    )
    made = certificate(store, verdict.experiment)
    if usual:
        _USUAL.append(made)
    return made


async def stopped() -> Certificate:
    """The certificate of an experiment that somebody stopped before anything was read."""
    store, on = MemoryStore(), tasks()
    models: dict[str, Any] = {"control": {}, "candidate": {}}
    plan = Experiment.plan(OLD.digest, NEW.digest, on, ExactMatch(), models=models, design=Design())
    store.put("dataset", on.content())
    key = store.put("experiment", plan.content())
    abort(store, key, because="looked <b>bad</b>", by="ada", clock=now)
    return certificate(store, key)


async def test_the_answer_comes_first_in_words_that_need_no_statistics() -> None:
    proof = await proven()
    verdict = proof.verdict
    account = ExperimentView.of(proof, tasks(), NAMES)
    assert account.sentence == (
        f"Yes: new is better than old. The candidate did better on {verdict.wins}, worse on {verdict.losses} and as "
        f"well on {verdict.ties} of {verdict.tasks} tasks. It is better by at least {verdict.at_least:.3f}. A "
        "candidate that is not better would be called better in at most 5 of 100 such comparisons."
    )
    lines = to_markdown(ExperimentView.of(proof, tasks(), NAMES)).splitlines()
    assert lines[0] == "# new against old"
    assert lines[2].startswith("exact\\_match on dataset ")
    assert f"new: {short(NEW.digest)}, old: {short(OLD.digest)}" in lines[2]
    assert lines[4] == f"**{account.sentence}**"


async def test_a_candidate_that_is_worse_is_called_so() -> None:
    proof = await proven(old=NEW, new=OLD)
    assert ExperimentView.of(proof, tasks(), NAMES).sentence.startswith("No: new is worse than old.")


async def test_tasks_that_do_not_tell_are_no_proof_of_anything() -> None:
    sentence = ExperimentView.of(await proven(tasks(6)), tasks(6), NAMES).sentence
    assert sentence.startswith("Undecided: 6 tasks do not show whether new is better than old. That does not prove")
    assert "of 100" not in sentence


async def test_a_rule_that_guarantees_nothing_says_so() -> None:
    proof = await proven(rule={"rule": "gsprt", "effect": 0.1})
    assert proof.verdict.finding == "superior"
    assert "By design, but without a guarantee" in ExperimentView.of(proof, tasks(), NAMES).sentence


async def test_a_futile_candidate_fell_short_of_what_was_hoped_for() -> None:
    proof = await proven(new=OLD, rule={"effect": 0.1}, first_replicate=(0, 1))
    sentence = ExperimentView.of(proof, tasks(), NAMES).sentence
    assert "No: new is not better than old by 0.1, as was hoped for." in sentence
    assert "given up in at most 10 of 100" in sentence


@pytest.mark.parametrize(
    ("goal", "told"),
    [
        ("non-inferior", "new is not worse than old by more than 0.3, which was to be shown."),
        ("equivalent", "new and old differ by less than 0.3."),
    ],
)
async def test_other_goals_are_told_with_their_margin(goal: str, told: str) -> None:
    rule = {"rule": "betting", "goal": goal, "margin": 0.3}
    proof = await proven(new=OLD, rule=rule, first_replicate=(0, 1))
    assert proof.verdict.finding == goal
    assert ExperimentView.of(proof, tasks(), NAMES).sentence.startswith(told)


async def test_what_was_stopped_by_hand_says_nothing_but_why() -> None:
    text = to_markdown(ExperimentView.of(await stopped(), tasks(), NAMES))
    assert "**Nothing can be said: stopped by hand: looked &lt;b&gt;bad&lt;/b&gt;.**" in text
    assert "difference" not in text
    assert "| ✗ no | Something other than the registered rule ended it. |" in text


async def test_one_line_tells_evidence_bounds_tasks_and_difference() -> None:
    proof = await proven()
    last, verdict = proof.path[-1], proof.verdict
    assert last.low is not None
    assert last.high is not None
    low, high = 100 * (verdict.low or 0), 100 * (verdict.high or 0)
    assert ExperimentView.of(proof, tasks()).status == (
        f"lead {last.evidence:.2f} ({last.low:.2f},{last.high:.2f}) | tasks {verdict.tasks}/200 | "
        f"W {verdict.wins} T {verdict.ties} L {verdict.losses} | "
        f"delta {100 * verdict.difference:+.1f} [{low:+.1f},{high:+.1f}]"
    )
    likely = ExperimentView.of(await proven(rule={"rule": "gsprt", "effect": 0.1}), tasks()).status
    assert likely.startswith("LLR ")
    assert " [0.00,0.10] | tasks " in likely


async def test_figures_are_those_of_the_verdict() -> None:
    proof = await proven()
    verdict = proof.verdict
    rows = {name: value for name, value, _ in ExperimentView.of(proof, tasks(), NAMES).figures}
    assert rows["tasks read"] == f"{verdict.tasks} of at most 200"
    assert (rows["exact_match of old"], rows["exact_match of new"]) == (
        f"{verdict.control_mean:.3f}",
        f"{verdict.candidate_mean:.3f}",
    )
    assert rows["difference as seen"] == f"+{verdict.difference:.3f}"
    adjusted = f"+{verdict.estimate:.3f} ({plus(verdict.low)} to {plus(verdict.high)})"
    assert (rows["difference, stop-adjusted"], rows["at least"]) == (adjusted, plus(verdict.at_least))
    assert rows["better, same, worse"] == f"{verdict.wins}, {verdict.ties}, {verdict.losses}"
    ratio, share = odds_ratio(verdict.wins, verdict.losses), cohen_g(verdict.wins, verdict.losses)
    assert rows["matched odds ratio"] == ("∞" if not verdict.losses else f"{ratio.mean:.3f}")
    assert rows["Cohen's g"] == f"+{share.mean:.3f}"  # its interval would be that of a test that cannot stop early
    assert rows["p"] == f"{verdict.p:.2g}"
    assert "e" not in rows
    assert rows["cost"] == f"${2 * verdict.tasks}.0000"


async def test_graded_scores_have_other_figures() -> None:
    proof = await proven(metric=Graded())
    rows = {name: value for name, value, _ in ExperimentView.of(proof, tasks(), NAMES).figures}
    assert rows["e"] == f"{proof.verdict.e:.3g}"
    assert "Cohen's d_z" in rows
    assert "matched odds ratio" not in rows


async def test_where_less_is_better_both_differences_are_below_zero() -> None:
    proof = await proven(metric=Errors(), old=NEW, new=OLD)
    account = ExperimentView.of(proof, tasks(), NAMES)
    assert proof.verdict.finding == "superior"
    assert account.adjusted is not None
    assert account.adjusted.mean == pytest.approx(account.plain.mean)
    assert account.adjusted.low < account.plain.mean < account.adjusted.high
    assert proof.verdict.difference < 0
    assert account.flips["Got worse"] == []
    assert len(account.flips["Got better"]) == proof.verdict.wins


async def test_flips_of_both_directions_have_their_place_inputs_and_both_scores() -> None:
    on = tasks(text="a long question " * 100)
    proof = await proven(on)
    account, verdict = ExperimentView.of(proof, on, NAMES), proof.verdict
    assert len(account.flips["Got worse"]) == verdict.losses
    assert len(account.flips["Got better"]) == verdict.wins
    for flips, sign, scores in (
        (account.flips["Got worse"], "-", ("1.000", "0.000")),
        (account.flips["Got better"], "+", ("0.000", "1.000")),
    ):
        for place, task, inputs, before, after in flips:
            assert verdict.outcomes[int(place) - 1] == sign
            assert proof.experiment.order[int(place) - 1] == task
            assert (before, after) == scores
            assert len(inputs) <= 160
            assert f"n: {task[1:]}" in inputs


async def test_the_largest_changes_come_first() -> None:
    proof = await proven(metric=Graded())
    better = ExperimentView.of(proof, tasks(), NAMES).flips["Got better"]
    sizes = [float(after) - float(before) for *_, before, after in better]
    assert sizes == sorted(sizes, reverse=True)


async def test_every_tag_has_the_paired_difference_of_its_tasks() -> None:
    proof = await proven()
    account = ExperimentView.of(proof, tasks(), NAMES)
    by_id = {task.id: task for task in tasks()}
    for tag, interval in account.strata:
        read = zip(proof.experiment.order, proof.verdict.outcomes, strict=False)
        signs = [sign for name, sign in read if tag in by_id[name].tags]
        assert interval == difference_interval([{"+": 1.0, "=": 0.0, "-": -1.0}[sign] for sign in signs])
    assert [tag for tag, _ in account.strata] == ["even", "odd"]


async def test_tags_that_were_looked_at_have_what_was_found_and_the_worst_comes_first() -> None:
    store = MemoryStore()
    options = replace(CONFIRMING, slices=(SliceTerms(),))
    verdict = await compare(OLD, NEW, tasks(), ExactMatch(), bench(store), options)
    assert verdict.slices
    view = ExperimentView.of(certificate(store, verdict.experiment), tasks(), NAMES)
    assert [tag for tag, _ in view.strata] == [each.tag for each in verdict.slices.tags]
    assert [each.n for _, each in view.strata] == [each.tasks for each in verdict.slices.tags]
    text = str(verdict.export("md", store=store))
    worst = verdict.slices.tags[0]
    assert re.search(rf"\| {worst.tag} \|.*\| {worst.tasks} \| {worst.finding} \|", text)
    assert json.loads(str(verdict.export("json", store=store)))["slices"]["tags"][0]["tag"] == worst.tag


async def test_tasks_of_one_source_count_once() -> None:
    on = Dataset(tuple(replace(task, source=f"doc {n // 4}") for n, task in enumerate(tasks())))
    proof = await proven(on, Graded())
    account = ExperimentView.of(proof, on, NAMES)
    assert f"of {proof.verdict.tasks} sources." in account.sentence
    assert account.flips["Got better"][0][1].endswith("(4 tasks)")
    assert f"in none of {8 * proof.verdict.tasks} runs." in account.failures


async def test_failures_are_counted_and_what_they_counted_as_is_said() -> None:
    patchy = {"use": "scripted", "args": {"replies": {"[0-3]$": "hm"}}}
    proof = await proven(tasks(20), old=agent("x"), new=agent(".*"), oracle=patchy)
    account = ExperimentView.of(proof, tasks(20), NAMES)
    assert (
        f"counts as 0. That happened in {len(proof.verdict.failed)} of {2 * proof.verdict.tasks} runs."
        in account.failures
    )
    assert ("✗ no", "Some runs failed, and counted as failures.") in account.flags


async def test_a_verdict_that_does_not_follow_is_not_to_be_relied_on() -> None:
    proof = await proven()
    forged = replace(proof, problems=(Problem("wins", "3", "9"),), flags={**proof.flags, "registered_order": False})
    text = to_markdown(ExperimentView.of(forged, tasks(), NAMES))
    assert text.index("Do not rely on this") < text.index("Yes: new is better")
    assert "- wins: found 3; expected 9" in text
    assert "Do not rely on this" not in to_markdown(ExperimentView.of(proof, tasks(), NAMES))


async def test_judges_are_told_with_how_far_they_agree_with_people() -> None:
    proof = await proven()
    judged = replace(proof.verdict, judges={"b2:" + "a" * 64: None, "b2:" + "b" * 64: {"kappa": 0.71, "low": 0.6}})
    flags = ExperimentView.of(replace(proof, verdict=judged), tasks()).flags
    assert ("✗ no", "Judge aaaaaaaaaa: never checked against people") in flags
    assert ("✓ yes", "Judge bbbbbbbbbb: kappa 0.71 with people") in flags


async def test_without_names_playbooks_are_called_by_their_part_and_their_digests() -> None:
    proof = await proven()
    assert ExperimentView.of(proof, tasks()).names == (f"control {short(OLD.digest)}", f"candidate {short(NEW.digest)}")


async def test_hostile_names_and_inputs_do_not_leave_their_cells() -> None:
    on = tasks(text=HOSTILE)
    text = to_markdown(ExperimentView.of(await proven(on), on, (HOSTILE, f"2{HOSTILE}")))
    assert "<script>" not in text
    for line in text.splitlines():
        assert not line.startswith("# Heading")
        if line.startswith("|"):
            assert line.count("|") - line.count("\\|") in (3, 4, 5, 6), line


async def test_files_are_called_by_their_stems_unless_those_are_the_same() -> None:
    proof = await proven()
    assert ExperimentView.of(proof, tasks(), ("old/sorter.yaml", "better.yaml")).names == ("sorter", "better")
    same = ("old/sorter.yaml", "new/sorter.yaml")
    assert ExperimentView.of(proof, tasks(), same).names == same


async def test_a_verdict_without_its_store_tells_what_it_says_itself() -> None:
    proof = await proven()
    text = to_markdown(ExperimentView(proof.verdict, called=NAMES))
    assert text.startswith("# new against old\n")
    assert "Yes: new is better than old." in text
    assert "## Figures" in text
    assert "Got worse" not in text
