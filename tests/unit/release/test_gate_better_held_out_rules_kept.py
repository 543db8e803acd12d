from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from judge_samples import Court
from loop_samples import CONFIRMING, agent, bench, numbers, searched

from seedbed.errors import ReleaseRefused
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.judges.agreement import calibrate
from seedbed.evaluation.judges.labels import LabelledAnswer
from seedbed.evaluation.judges.rubrics import Reference
from seedbed.evaluation.metrics.metric import ExactMatch, Metric
from seedbed.evaluation.metrics.weighted import Weighted
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.channels import release
from seedbed.release.gates.better import BetterGate
from seedbed.release.gates.gate import Gate, Refusal, ReleaseRequest
from seedbed.release.gates.held_out import held_out
from seedbed.release.gates.rules_kept import rules_kept
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, now, short

RULES = {"never": ["delete_*"], "confirm": ["refund"], "prefer_confirm": ["bulk_*"], "confirm_below": 0.7}
OLD, NEW, POOR = (agent(known, rules=RULES) for known in ("[0-4]", ".*", "x"))
TRAIN, TEST = numbers(30), numbers(30, first=30)


@pytest.fixture
def library() -> Library:
    library = Library(MemoryStore(), "ada")
    for playbook in (OLD, NEW, POOR):
        library.keep(playbook, because="written")
    return library


async def compared(library: Library, control: Playbook, candidate: Playbook, tasks: Dataset = TEST) -> Verdict:
    return await run_experiment(control, candidate, tasks, ExactMatch(), bench(library.store), CONFIRMING)


async def evolved(library: Library, start: Playbook, *candidates: Playbook, on: Dataset = TRAIN) -> None:
    await searched(start, on, BestOf(candidates), bench(library.store))


def change(library: Library, verdict: Verdict | None, **given: Any) -> ReleaseRequest:
    about: dict[str, Any] = {"candidate": NEW.digest, "incumbent": OLD.digest, **given}
    return ReleaseRequest("production", verdict=verdict, library=library, **about)


# better

EXPECTED = f"a verdict that {short(NEW.digest)} is better than {short(OLD.digest)}"
REMEDY = f"Run: seedbed compare {short(OLD.digest)} {short(NEW.digest)} --on DATASET"


async def test_a_verdict_that_it_is_better_lets_a_candidate_pass(library: Library) -> None:
    assert await BetterGate()(change(library, await compared(library, OLD, NEW))) is None


async def test_a_candidate_without_a_verdict_is_refused(library: Library) -> None:
    assert await BetterGate()(change(library, None)) == Refusal("better", "no verdict", EXPECTED, REMEDY)


@pytest.mark.parametrize(
    ("control", "candidate"), [(POOR, NEW), (OLD, POOR), (NEW, OLD)], ids=["another incumbent", "another", "reversed"]
)
async def test_a_verdict_about_other_playbooks_is_refused(
    control: Playbook, candidate: Playbook, library: Library
) -> None:
    verdict = await compared(library, control, candidate)
    found = f"a verdict about {short(candidate.digest)} against {short(control.digest)}"
    assert await BetterGate()(change(library, verdict)) == Refusal("better", found, EXPECTED, REMEDY)


@pytest.mark.parametrize(("candidate", "finding"), [(POOR, "inferior"), (agent("[0-4]|3."), "inconclusive")])
async def test_a_verdict_that_it_is_not_better_is_refused(candidate: Playbook, finding: str, library: Library) -> None:
    incumbent = agent("3[0-9]")
    tasks = TEST if finding == "inferior" else numbers(9, first=30)
    verdict = await compared(library, incumbent, candidate, tasks)
    asked = change(library, verdict, candidate=candidate.digest, incumbent=incumbent.digest)
    assert await BetterGate()(asked) == Refusal(
        "better", f"the finding {finding}", "superior", "Look for a better candidate."
    )


async def test_a_verdict_that_nobody_recorded_is_refused(library: Library) -> None:
    elsewhere = Library(MemoryStore(), "eve")
    verdict = await compared(elsewhere, OLD, NEW)
    refusal = Refusal("better", "a verdict that this store does not hold", EXPECTED, REMEDY)
    assert await BetterGate()(change(library, verdict)) == refusal


async def test_a_verdict_that_was_touched_up_is_refused(library: Library) -> None:
    poor = await compared(library, NEW, OLD)
    touched_up = replace(poor, finding="superior")
    asked = change(library, touched_up, candidate=OLD.digest, incumbent=NEW.digest)
    refusal = await BetterGate()(asked)
    assert refusal is not None
    assert refusal.found == "a verdict that this store does not hold"


# better, by a judge

SAME = r"<expected \w+>\n(\d+)\n</expected \w+>\s+<answer \w+>\n\1\n"


def judge(**more: Any) -> Reference:
    """One that is always right."""
    court = Court({SAME: "equivalent", "": "different"})
    return Reference(perform=court.perform, identify=court.space.resources.runner.model_identities, name="same", **more)


async def checked(library: Library, judge: Reference, right: int = 20, mistaken: int = 0) -> None:
    """Hold it against as many right and wrong answers, and some wrong ones that people called right."""
    said = [("right", 1)] * right + [("wrong", 0)] * right + [("wrong", 1)] * mistaken
    tasks = [Task(f"t{n}", {"n": n}, str(n)) for n in range(len(said))]
    labels = [
        LabelledAnswer.answer(task.expected if kind == "right" else "hm", task, label)
        for task, (kind, label) in zip(tasks, said, strict=True)
    ]
    (await calibrate(judge, labels)).record(library.store, "ada")


async def by(metric: Metric, library: Library) -> ReleaseRequest:
    return change(library, await run_experiment(OLD, NEW, TEST, metric, bench(library.store), CONFIRMING))


async def test_a_verdict_by_a_judge_that_agrees_with_people_passes(library: Library) -> None:
    await checked(library, judge())
    assert await BetterGate()(await by(judge(), library)) is None


async def test_a_verdict_by_a_judge_that_nobody_checked_is_refused(library: Library) -> None:
    refusal = await BetterGate()(await by(judge(), library))
    assert refusal == Refusal(
        "better",
        "a verdict by the judge same, with no agreement with people",
        "a judge whose kappa with people is at least 0.6, at the lower end of its interval",
        "Label some answers, and run: seedbed judge check same LABELS",
    )


async def test_a_check_after_the_comparison_counts_too(library: Library) -> None:
    compared = await by(judge(), library)
    await checked(library, judge())
    assert await BetterGate()(compared) is None


@pytest.mark.parametrize(("right", "mistaken"), [(2, 0), (20, 12)], ids=["too few labels", "too many mistakes"])
async def test_a_verdict_by_a_judge_below_the_stated_agreement_is_refused(
    right: int, mistaken: int, library: Library
) -> None:
    await checked(library, judge(), right, mistaken)
    refusal = await BetterGate()(await by(judge(), library))
    assert refusal is not None
    assert "kappa" in refusal.found
    assert "seedbed judge check same LABELS" in refusal.remedy


async def test_a_channel_may_ask_for_more_agreement(library: Library) -> None:
    await checked(library, judge())
    refusal = await BetterGate(agreement=0.99)(await by(judge(), library))
    assert refusal is not None
    assert "at least 0.99" in refusal.expected


async def test_the_check_of_another_judge_says_nothing_of_this_one(library: Library) -> None:
    await checked(library, judge(cut_at=100))
    other = Court({SAME: "equivalent", "": "different", "never": "different"})  # another model of the same name
    await checked(
        library, Reference(perform=other.perform, identify=other.space.resources.runner.model_identities, name="same")
    )
    refusal = await BetterGate()(await by(judge(), library))
    assert refusal is not None
    assert refusal.found.endswith("no agreement with people")


async def test_a_judge_within_a_reward_has_to_be_trusted_too(library: Library) -> None:
    compared = await by(Weighted({judge(): 1.0}), library)
    refusal = await BetterGate()(compared)
    assert refusal is not None
    assert "no agreement with people" in refusal.found
    await checked(library, judge())
    assert await BetterGate()(compared) is None


# held_out

UNSEEN = "tasks that were not evolved on"


async def test_tasks_that_nothing_was_evolved_on_pass(library: Library) -> None:
    await evolved(library, OLD, agent("[0-9]", rules=RULES))
    assert await held_out(change(library, await compared(library, OLD, NEW))) is None


async def test_a_candidate_without_a_verdict_has_no_held_out_tasks(library: Library) -> None:
    refusal = Refusal("held_out", "no verdict", f"one on {UNSEEN}", "Compare on held-out tasks.")
    assert await held_out(change(library, None)) == refusal


async def test_the_tasks_a_candidate_was_evolved_on_are_refused(library: Library) -> None:
    await evolved(library, OLD, NEW)
    verdict = await compared(library, OLD, NEW, TRAIN)
    refusal = Refusal("held_out", "30 of 30 tasks that were evolved on", UNSEEN, "Compare on held-out tasks.")
    assert await held_out(change(library, verdict)) == refusal


async def test_one_task_in_common_is_too_many(library: Library) -> None:
    await evolved(library, OLD, NEW)
    mixed = Dataset((*TEST.tasks, TRAIN.tasks[3]))
    refusal = await held_out(change(library, await compared(library, OLD, NEW, mixed)))
    assert refusal is not None
    assert refusal.found == "1 of 31 tasks that were evolved on"


async def test_a_candidate_that_was_tried_and_not_chosen_has_seen_the_tasks_too(library: Library) -> None:
    """Whoever picks the second best of a search by hand picks it by the same scores."""
    second = agent("[0-9]|1.", rules=RULES)
    await evolved(library, OLD, second, NEW)
    verdict = await compared(library, OLD, second, TRAIN)
    refusal = await held_out(change(library, verdict, candidate=second.digest))
    assert refusal is not None
    assert refusal.found == "30 of 30 tasks that were evolved on"


async def test_the_tasks_of_everything_it_grew_from_are_refused(library: Library) -> None:
    first, second = agent("[0-9]|1.", rules=RULES), agent("[0-9]|[12].", rules=RULES)
    await evolved(library, OLD, first, on=TRAIN)
    await evolved(library, first, second, on=numbers(10, first=60))
    by_hand = library.keep(agent("[0-9]|[1-3].", rules=RULES), because="edited", parents=[second.digest], how="edited")
    verdict = await compared(library, OLD, library.get(by_hand), TRAIN)
    refusal = await held_out(change(library, verdict, candidate=by_hand))
    assert refusal is not None
    assert refusal.found == "30 of 30 tasks that were evolved on"
    unseen = await compared(library, OLD, library.get(by_hand), TEST)
    assert await held_out(change(library, unseen, candidate=by_hand)) is None


async def test_a_verdict_on_tasks_that_are_not_here_is_refused_and_not_an_error(library: Library) -> None:
    verdict = await compared(library, OLD, NEW)
    elsewhere = Library(MemoryStore(), "eve")
    for playbook in (OLD, NEW):
        elsewhere.keep(playbook, because="copied")
    refusal = await held_out(change(elsewhere, verdict))
    assert refusal is not None
    assert (refusal.path, refusal.found) == ("held_out", f"no dataset {short(TEST.digest)} in this store")
    assert refusal.remedy


# rules_kept


def with_rules(**rules: Any) -> Playbook:
    return agent(".*", rules={**RULES, **rules})


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"never": ["delete_*", "pay"]},
        {"never": ["delete_*", "refund"], "confirm": []},
        {"never": ["*"], "confirm": [], "prefer_confirm": []},
        {"confirm_below": 0.9},
    ],
)
async def test_rules_that_are_kept_or_tightened_pass(rules: dict[str, Any], library: Library) -> None:
    edited = with_rules(**rules)
    candidate, verdict = library.keep(edited, because="edited"), await compared(library, OLD, edited)
    assert await rules_kept(change(library, verdict, candidate=candidate)) is None


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ({"never": []}, "rules.never: delete_* dropped or weakened"),
        ({"never": ["delete_message"]}, "rules.never: delete_* dropped or weakened"),
        ({"never": [], "confirm": ["refund", "delete_*"]}, "rules.never: delete_* dropped or weakened"),
        ({"confirm": []}, "rules.confirm: refund dropped or weakened"),
        ({"confirm_below": 0.6}, "rules.confirm_below: 0.7 → 0.6"),
        (
            {"confirm": [], "prefer_confirm": []},
            "rules.confirm: refund dropped or weakened; rules.prefer_confirm: bulk_* dropped or weakened",
        ),
    ],
)
async def test_every_rule_that_is_dropped_or_loosened_is_named(
    rules: dict[str, Any], found: str, library: Library
) -> None:
    edited = with_rules(**rules)
    candidate, verdict = library.keep(edited, because="edited"), await compared(library, OLD, edited)
    refusal = Refusal("rules_kept", found, "every rule of the incumbent", "Put the rules back.")
    assert await rules_kept(change(library, verdict, candidate=candidate)) == refusal


# All of them


@pytest.mark.parametrize("gate", [BetterGate(), held_out, rules_kept])
async def test_a_first_release_has_nothing_to_be_better_than(gate: Gate, library: Library) -> None:
    assert await gate(change(library, None, incumbent=None)) is None


async def test_all_refusals_are_told_at_once(library: Library) -> None:
    lax = library.keep(agent("x|y"), because="rules were in the way")
    gates = [BetterGate(), held_out, rules_kept]
    await release(library, "production", OLD.digest, gates, verdict=None, because="first")
    with pytest.raises(ReleaseRefused) as refused:
        await release(library, "production", lax, gates, verdict=None, because="looks fine")
    assert [refusal.path for refusal in refused.value.refusals] == ["better", "held_out", "rules_kept"]
    for refusal in refused.value.refusals:
        assert refusal.found
        assert refusal.expected
        assert refusal.remedy
        assert str(refusal) in str(refused.value)


# What would be found by asking often enough


async def test_a_laxer_error_rate_than_the_channel_allows_is_refused(library: Library) -> None:
    lax = await run_experiment(OLD, NEW, TEST, ExactMatch(), bench(library.store), replace(CONFIRMING, alpha=0.4))
    assert lax.finding == "superior"
    refusal = await BetterGate()(change(library, lax))
    assert refusal
    assert (refusal.found, refusal.expected) == ("a verdict with an error rate of 0.4", "at most 0.05")
    assert await BetterGate(0.4)(change(library, lax)) is None


async def test_an_exploratory_verdict_is_refused(library: Library) -> None:
    verdict = await run_experiment(OLD, NEW, TEST, ExactMatch(), bench(library.store))
    refusal = await BetterGate()(change(library, verdict))
    assert refusal
    assert refusal.found == "an exploratory verdict: no channel serves the control"


async def test_a_second_comparison_on_the_same_tasks_is_exploratory(library: Library) -> None:
    first = await compared(library, OLD, NEW)
    again = await run_experiment(OLD, NEW, TEST, ExactMatch(), bench(library.store), replace(CONFIRMING, seed=7))
    assert first.experiment != again.experiment
    assert await BetterGate()(change(library, first)) is None
    refusal = await BetterGate()(change(library, again))
    assert refusal
    assert refusal.found.startswith("an exploratory verdict: results of the candidate were known at")
    elsewhere = await compared(library, OLD, NEW, numbers(30, first=60))
    assert (elsewhere.attempt, await BetterGate()(change(library, elsewhere))) == (2, None)


async def test_a_comparison_that_was_begun_and_left_keeps_its_attempt(library: Library) -> None:
    async def killed(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_experiment(OLD, NEW, TEST, ExactMatch(), bench(library.store, killed), CONFIRMING)
    other = await run_experiment(OLD, NEW, TEST, ExactMatch(), bench(library.store), replace(CONFIRMING, seed=7))
    gone_on = await compared(library, OLD, NEW)
    assert (other.attempt, gone_on.attempt) == (2, 1)
    assert await BetterGate()(change(library, gone_on)) is None


async def test_a_comparison_with_another_control_is_no_attempt_against_this_one(library: Library) -> None:
    assert (await compared(library, POOR, NEW, numbers(30, first=60))).attempt == 1
    verdict = await compared(library, OLD, NEW)
    assert (verdict.attempt, await BetterGate()(change(library, verdict))) == (1, None)


async def test_a_verdict_about_replays_is_refused(library: Library) -> None:
    live = bench(library.store)
    past = replace(live, identity=lambda _: {"replay": {"mode": "fork:1", "models": {}, "tools": {}, "code": "1"}})
    refusal = await BetterGate()(change(library, await run_experiment(OLD, NEW, TEST, ExactMatch(), past, CONFIRMING)))
    assert refusal == Refusal("better", "a verdict about replays", "one about live runs", REMEDY)
    named = replace(live, identity=lambda _: {"replay": {"use": "local"}})  # a model of that name is live
    verdict = await run_experiment(OLD, NEW, numbers(30, first=60), ExactMatch(), named, CONFIRMING)
    assert await BetterGate()(change(library, verdict)) is None


async def test_the_same_tasks_under_other_names_are_the_same_tasks(library: Library) -> None:
    await evolved(library, OLD, NEW)
    renamed = Dataset(tuple(replace(task, id=f"other-{task.id}") for task in TRAIN))
    refusal = await held_out(change(library, await compared(library, OLD, NEW, renamed)))
    assert refusal
    assert refusal.found == "30 of 30 tasks that were evolved on"


async def test_a_task_that_the_candidate_is_shown_as_an_example_is_refused(library: Library) -> None:
    task = TEST.tasks[3]
    demos = [{"inputs": {name: str(value) for name, value in task.inputs.items()}, "output": str(task.expected)}]
    document = {**NEW.document(), "demos": {"agent": demos}}
    shown = Playbook.from_document(document)
    library.keep(shown, because="shown")
    refusal = await held_out(change(library, await compared(library, OLD, shown), candidate=shown.digest))
    assert refusal
    assert refusal.found == "1 of 30 tasks that were evolved on"


async def test_nothing_passes_while_playbooks_are_called_better_than_themselves_too_often(library: Library) -> None:
    verdict = await compared(library, OLD, NEW)
    store = library.store
    for game in range(20):
        won = replace(verdict, experiment=f"b2:game {game}", candidate=OLD.digest)
        told: dict[str, Any] = {"key": won.experiment, "subject": OLD.digest, "at": now(), "by": "ada"}
        store.append(
            [Fact(kind="verdict", body=won.body(), **told), Fact(kind="sentinel", body={"alpha": 0.05}, **told)]
        )
    refused = await BetterGate()(change(library, verdict))
    assert refused is not None
    assert "100.0% of 20 playbooks called better than themselves" in refused.found
