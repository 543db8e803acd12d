"""Guardrails: a candidate must not be worse by them, and what is not known does not count as well."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop_samples import CONFIRMING, ORACLE, bench, numbers
from release_samples import NEW, OLD, POOR, TASKS, change, compared, kept, scored

from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch, metric
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.experiments.compare import compare, run_experiment
from seedbed.experiments.options import Comparing
from seedbed.experiments.slices import SliceTerms
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.release.gates.not_worse import NoSliceWorse, NotWorse
from seedbed.storage.store import short

COST = NotWorse({"cost_usd": 0.01})
LENGTH = parse_metric("length(unit='characters')")
TALKATIVE = {**ORACLE, "args": {"replies": {".": "none"}}}


@pytest.fixture
def library() -> Library:
    return kept()


async def test_one_that_costs_the_same_at_every_task_is_not_worse(library: Library) -> None:
    verdict = await compared(library)
    await scored(library, "cost_usd")
    assert await COST(change(library, verdict)) is None


async def test_scores_that_are_missing_are_a_refusal_with_the_command_to_run(library: Library) -> None:
    refusal = await NotWorse({"cost_usd": 0.01, "length": 5})(change(library, await compared(library)))
    assert refusal
    assert refusal.found == "cost_usd of both at 0 of 30 tasks; length of both at 0 of 30 tasks"
    arms = f"{short(OLD.digest)} {short(NEW.digest)} --on {TASKS.digest}"
    assert refusal.remedy == f"Run: seedbed evaluate {arms} --metric cost_usd --metric length"


async def test_scores_at_some_of_the_tasks_are_not_enough(library: Library) -> None:
    """Whoever could choose the tasks would choose those where it looks good."""
    verdict = await compared(library)
    await scored(library, "cost_usd", tasks=numbers(29, first=30))
    refusal = await COST(change(library, verdict))
    assert refusal
    assert refusal.found == "cost_usd of both at 29 of 30 tasks"


async def test_scores_of_another_candidate_say_nothing_of_this_one(library: Library) -> None:
    verdict = await compared(library)
    await scored(library, "cost_usd", playbooks=(OLD, POOR))
    refusal = await COST(change(library, verdict))
    assert refusal
    assert "at 0 of 30 tasks" in refusal.found


async def test_scores_with_other_models_are_stale(library: Library) -> None:
    verdict = await compared(library)
    for playbook in (OLD, NEW):
        await evaluate(playbook, TASKS, [parse_metric("cost_usd")], bench(library.store, identity="oracle 2"))
    refusal = await COST(change(library, verdict))
    assert refusal
    assert "at 0 of 30 tasks" in refusal.found


async def test_one_that_is_worse_is_refused_with_by_how_much(library: Library) -> None:
    verdict = await compared(library, NEW, OLD)
    await scored(library, "exact_match")
    turned = change(library, verdict, candidate=OLD.digest, incumbent=NEW.digest)
    refusal = await NotWorse({"exact_match": 0.1})(turned)
    assert refusal
    assert refusal.found.startswith("exact_match: +1 worse")
    assert refusal.expected == "exact_match worse by at most 0.1"


async def test_more_is_worse_where_less_is_better(library: Library) -> None:
    """The one that knows all says `30`, a letter less than `none`, which the other says."""
    verdict = await run_experiment(OLD, NEW, TASKS, ExactMatch(), bench(library.store, oracle=TALKATIVE))
    for playbook in (OLD, NEW):
        await evaluate(playbook, TASKS, [LENGTH], bench(library.store, oracle=TALKATIVE))
    gate = NotWorse({LENGTH.name: 0.5})
    assert await gate(change(library, verdict)) is None
    back = await run_experiment(NEW, OLD, TASKS, ExactMatch(), bench(library.store, oracle=TALKATIVE))
    refusal = await gate(change(library, back, candidate=OLD.digest, incumbent=NEW.digest))
    assert refusal
    assert "+2 worse" in refusal.found


async def test_that_nothing_bad_was_seen_at_few_tasks_is_no_proof(library: Library) -> None:
    """None of 30 went wrong: perhaps one of ten will."""
    verdict = await compared(library)
    await scored(library, "finished")
    refusal = await NotWorse({"finished": 0.01})(change(library, verdict))
    assert refusal
    assert "perhaps +0.09" in refusal.found
    assert await NotWorse({"finished": 0.1})(change(library, verdict)) is None


async def test_the_scores_of_an_older_version_of_a_metric_are_stale(library: Library) -> None:
    verdict = await compared(library)

    @metric(version=99, better="lower")
    def cost_usd(run: object, task: object) -> float:
        return 0.0

    for playbook in (OLD, NEW):
        await evaluate(playbook, TASKS, [cost_usd], bench(library.store))
    refusal = await COST(change(library, verdict))
    assert refusal
    assert "cost_usd of both at 0 of 30 tasks" in refusal.found


async def test_a_sibling_s_verdict_is_no_ground_to_stand_on(library: Library) -> None:
    await scored(library, "cost_usd")
    refusal = await COST(change(library, await compared(library, OLD, POOR)))
    assert refusal
    assert refusal.found.startswith("a verdict about")
    assert await COST(change(library))


async def test_a_task_set_is_called_by_its_name_where_it_has_one(library: Library) -> None:
    verdict = await run_experiment(OLD, NEW, TASKS, ExactMatch(), bench(library.store), Comparing(replicates=2))
    library.store.move("datasets/counting", TASKS.digest, expected=None, because="kept", by="ada")
    refusal = await COST(change(library, verdict))
    assert refusal
    assert refusal.remedy.endswith("--on counting --metric cost_usd --replicates 2")
    assert "at 0 of 60 tasks" in refusal.found


# Tags


def tagged(*tags: str) -> Dataset:
    return Dataset(tuple(replace(task, tags=tags) for task in numbers(40, first=30)))


async def looked_at(library: Library, tasks: Dataset, terms: SliceTerms) -> Verdict:
    options = replace(CONFIRMING, slices=(terms,))
    return await compare(OLD, NEW, tasks, ExactMatch(), bench(library.store), options)


async def test_one_that_is_worse_on_no_tag_passes_with_the_terms_that_were_used(library: Library) -> None:
    terms = SliceTerms(least=20)
    verdict = await looked_at(library, tagged("mail"), terms)
    assert await NoSliceWorse(terms)(change(library, verdict)) is None
    refusal = await NoSliceWorse(SliceTerms(margin=0.05))(change(library, verdict))
    assert refusal
    assert "has no results by tag on these terms" in refusal.found
    assert refusal.expected == "results for each tag with 30 tasks or more"


async def test_tags_that_nobody_has_looked_at_do_not_pass(library: Library) -> None:
    verdict = await compared(library, tasks=tagged("mail"))
    refusal = await NoSliceWorse()(change(library, verdict))
    assert refusal
    assert "has no results by tag" in refusal.found
    command = f"seedbed compare {short(OLD.digest)} {short(NEW.digest)} --on DATASET"
    assert refusal.remedy == f"Compare again, with the same tasks and options: {command}"


async def test_where_no_tag_has_enough_tasks_there_is_nothing_to_look_at(library: Library) -> None:
    assert await NoSliceWorse()(change(library, await compared(library))) is None
    assert await NoSliceWorse()(change(library, None, incumbent=None)) is None
    refusal = await NoSliceWorse()(change(library, None))
    assert refusal
    assert refusal.found == "no verdict"
