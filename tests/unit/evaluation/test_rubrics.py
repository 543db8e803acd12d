from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from judge_samples import TASK, Court, answered, says

from seedbed.errors import BudgetSpent, DatasetError, SeedbedError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.agreement import JudgeAgreement, agreements, calibrate, deciding, distrust
from seedbed.evaluation.judges.labels import LabelledAnswer
from seedbed.evaluation.judges.rubrics import DebateQuality, Reference, Rubric
from seedbed.evaluation.metrics.metric import Score
from seedbed.runs.run import Run
from seedbed.storage.files import FilesStore
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json
from seedbed.storage.upkeep import verify

# Rubric


async def test_a_rubric_scores_the_mean_of_its_criteria_and_tells_why() -> None:
    court = Court([says(5, 2, reason="it says Paris")])
    score = await Rubric(["Is it right?", "Is it polite?"], perform=court.perform)(answered("Paris."), TASK)
    assert score.value == pytest.approx((1 + 0.25) / 2)
    assert score.reason == "Is it right?: 5, as it says Paris\nIs it polite?: 2, as it says Paris"
    assert score.answer == "Paris."


@pytest.mark.parametrize(("scale", "mark", "value"), [((0, 1), 1, 1.0), ((0, 10), 3, 0.3), ((-2, 2), 0, 0.5)])
async def test_a_scale_may_be_any_whole_numbers(scale: tuple[int, int], mark: int, value: float) -> None:
    judge = Rubric(["Is it right?"], scale, perform=Court([says(mark)]).perform)
    assert (await judge(answered("Paris"), TASK)).value == pytest.approx(value)


async def test_the_expected_answer_is_not_shown_by_a_rubric() -> None:
    court = Court([says(5)])
    await Rubric(["Is it right?"], perform=court.perform)(answered("Lyon"), TASK)
    assert "What is the capital of France?" in court.prompts[0]
    assert "Paris" not in court.prompts[0]


@pytest.mark.parametrize("output", ["", None, {"city": "Paris"}, ["Paris"], 4, "🙂 {name} {{x}}", "x" * 1_000_000])
async def test_any_output_can_be_judged(output: Any) -> None:
    court = Court([says(3)])
    score = await Rubric(["Is {it} right, as in {{this}}?"], perform=court.perform)(answered(output), TASK)
    assert score.value == 0.5
    assert len(score.answer) <= 300
    assert "Is {it} right, as in {{this}}?" in court.prompts[0]
    assert len(court.prompts[0]) < 15_000


@pytest.mark.parametrize(
    ("criteria", "scale"), [([], (1, 5)), ([" "], (1, 5)), ("Is it?", (1, 5)), (["Is it?"], (5, 1)), (["It"], (0, 999))]
)
def test_a_rubric_without_criteria_or_scale_is_refused(criteria: Any, scale: tuple[int, int]) -> None:
    with pytest.raises(SeedbedError, match="expected"):
        Rubric(criteria, scale, perform=Court([]).perform)


# Reference


@pytest.mark.parametrize(("mark", "value"), [("equivalent", 1.0), ("different", 0.0)])
async def test_a_reference_judge_compares_with_the_expected_answer(mark: str, value: float) -> None:
    court = Court([says(mark)])
    assert (await Reference(perform=court.perform)(answered("The city of Paris"), TASK)).value == value
    assert "<expected " in court.prompts[0]
    assert "\nParis\n" in court.prompts[0]


async def test_without_an_expected_answer_nobody_is_asked() -> None:
    court = Court([])
    score = await Reference(perform=court.perform)(answered("Paris"), Task("t", {"q": 1}))
    assert (score.value, score.reason) == (None, "the task has no expected answer")
    assert not court.runs


# Debate quality


async def test_a_debate_is_judged_by_its_turns_without_the_names_of_models() -> None:
    court = Court([says(4, 2, 3)])
    run = answered("Paris, then.", "It is Lyon.", "No: the government sits in Paris.", "Paris, then.")
    score = await DebateQuality(perform=court.perform)(run, TASK)
    assert score.value == pytest.approx((1 + 0.5 + 0.75) / 3)
    assert score.reason.splitlines()[0] == "conflict_found: 4, as so it is"
    (prompt,) = court.prompts
    assert "secret-model" not in prompt
    places = [prompt.index(text) for text in ("It is Lyon.", "Said by: critic.", "No: the government", "<conclusion ")]
    assert places == sorted(places)


async def test_where_nothing_conflicts_only_the_synthesis_counts() -> None:
    run = answered("Paris.", "Paris.", "I agree.")
    assert (await DebateQuality(perform=Court([says("none", "none", 1)]).perform)(run, TASK)).value == 0.25
    for part in ("conflict_found", "conflict_resolved"):
        judge = DebateQuality(part, perform=Court([says("none", "none", 1)]).perform)
        assert (await judge(run, TASK)).value is None


@pytest.mark.parametrize(("part", "value"), [("conflict_found", 1.0), ("conflict_resolved", 0.5), ("synthesis", 0.75)])
async def test_each_quality_is_a_metric_of_its_own(part: Any, value: float) -> None:
    judge = DebateQuality(part, perform=Court([says(4, 2, 3)]).perform)
    assert (await judge(answered("c", "a", "b"), TASK)).value == value
    assert judge.identity != DebateQuality(perform=judge.perform).identity
    assert judge.playbook == DebateQuality(perform=judge.perform).playbook  # the same question, asked once


async def test_there_is_always_a_synthesis_to_judge() -> None:
    judge = DebateQuality(perform=Court([says(4, 2, "none")] * 2).perform)
    assert (await judge(answered("c", "a", "b"), TASK)).value is None


@pytest.mark.parametrize("turns", [(), ("alone",)])
async def test_one_speaker_is_no_debate(turns: tuple[str, ...]) -> None:
    score = await DebateQuality(perform=Court([]).perform)(answered("out", *turns), TASK)
    assert score.value is None
    assert "expected a dialogue" in score.reason


async def test_a_very_long_debate_is_shown_from_both_ends() -> None:
    court = Court([says(4, 4, 4)])
    turns = [f"turn number {number} " + "x" * 5_000 for number in range(500)]
    await DebateQuality(perform=court.perform)(answered("out", *turns), TASK)
    (prompt,) = court.prompts
    assert len(prompt) < 25_000
    assert "(460 turns are left out here.) Said by" in prompt
    assert "turn number 0 " in prompt
    assert "turn number 499 " in prompt
    assert "turn number 250 " not in prompt


# Agreement with people


class Known:
    """A metric that gives what it was told to."""

    name = "known"

    def __init__(self, values: list[float | None]) -> None:
        self.values = values

    @property
    def identity(self) -> Json:
        return {"metric": "known"}

    async def __call__(self, run: Run, task: Task) -> Score:
        return Score(self.values[int(task.id)], cost_usd=0.5)


def items(labels: list[Any]) -> list[LabelledAnswer]:
    return [LabelledAnswer.answer("out", Task(str(n), {"n": n}), label) for n, label in enumerate(labels)]


async def agreed(labels: list[Any], values: list[float | None]) -> JudgeAgreement:
    return await calibrate(Known(values), items(labels))


async def test_agreement_tells_kappa_bias_and_the_whole_table() -> None:
    labels, values = [1] * 20 + [0] * 20, [1.0] * 18 + [0.0] * 2 + [0.0] * 14 + [1.0] * 6
    told = await agreed(labels, values)
    assert told.kappa == pytest.approx(0.6)
    assert told.low < 0.6 < told.high
    assert (told.n, told.unscored, told.weights, told.cost_usd) == (40, 0, None, 20.0)
    assert told.raw == 0.8
    assert told.bias == pytest.approx(0.1)
    assert told.bias_low is not None
    assert told.bias_low < 0.1
    assert (told.values, told.table) == ((0.0, 1.0), ((14, 6), (2, 18)))
    assert "kappa 0.60 (95% " in str(told)


async def test_grades_in_between_count_by_their_distance() -> None:
    near = await agreed([0, 0.25, 0.5, 0.75, 1] * 4, [0.25, 0.25, 0.5, 0.75, 0.75] * 4)
    far = await agreed([0, 0.25, 0.5, 0.75, 1] * 4, [1.0, 0.25, 0.5, 0.75, 0.0] * 4)
    assert near.weights == "quadratic"
    assert near.raw == far.raw == pytest.approx(0.6)
    assert near.kappa is not None
    assert far.kappa is not None
    assert near.kappa > 0.8 > 0.0 > far.kappa


async def test_thirds_are_thirds_however_they_were_computed() -> None:
    assert (await agreed([0.333333333, 0.666666667, 0.1], [1 / 3, 1 - 1 / 3, 0.1])).raw == 1.0


async def test_answers_without_a_label_are_not_judged_and_unscored_ones_are_counted() -> None:
    told = await agreed([1, None, 0, 1], [1.0, 1.0, 0.0, None])
    assert (told.n, told.unscored, told.cost_usd) == (2, 1, 1.5)


async def test_labels_that_are_none_are_named_all_at_once() -> None:
    with pytest.raises(DatasetError) as wrong:
        await agreed([1, 5, "good", math.nan], [1.0] * 4)
    assert [problem.path for problem in wrong.value.problems] == ["label of 1", "label of 2", "label of 3"]


async def test_a_spent_budget_ends_a_check() -> None:
    class Poor(Known):
        async def __call__(self, run: Run, task: Task) -> Score:
            raise BudgetSpent("no money")

    with pytest.raises(BudgetSpent):
        await calibrate(Poor([]), items([1, 0]))


async def test_no_labels_say_nothing_and_can_be_kept_all_the_same() -> None:
    told = await agreed([], [])
    assert told.kappa is None
    assert told.record(MemoryStore(), "ada") == told


async def test_the_first_agreement_on_the_same_labels_is_the_one_that_counts() -> None:
    store = MemoryStore()
    poor, lucky = await agreed([1, 0] * 10, [1.0] * 20), await agreed([1, 0] * 10, [1.0, 0.0] * 10)
    assert poor.record(store, "ada") == poor
    assert lucky.record(store, "ada") == poor  # asked again until it fits
    more = await agreed([1, 0] * 20, [1.0, 0.0] * 20)
    assert more.record(store, "ada") == more
    assert agreements(store, Known([])) == [poor, more]
    assert agreements(store, Rubric(["Is it?"], perform=Court([]).perform)) == []


async def test_of_several_agreements_the_first_on_most_labels_counts() -> None:
    few, poor = await agreed([1, 0] * 5, [1.0, 0.0] * 5), await agreed([1, 0] * 20, [1.0] * 40)
    lucky = await agreed([0, 1] * 20, [0.0, 1.0] * 20)
    assert deciding([few, poor, lucky]) == poor
    assert deciding([few]) == few
    assert deciding([]) is None


async def test_the_order_of_the_labels_makes_no_other_labels() -> None:
    judge, labels = Known([1.0, 0.0]), items([1, 0])
    turned = await calibrate(Known([1.0, 0.0]), labels[::-1])
    assert (await calibrate(judge, labels)).labels == turned.labels


async def test_an_agreement_that_somebody_edited_is_found(tmp_path: Path) -> None:
    store = FilesStore(tmp_path / "store")
    (await agreed([1, 0] * 10, [1.0] * 20)).record(store, "ada")
    assert verify(store).problems == ()
    file = tmp_path / "store/facts/agreement.jsonl"
    better = file.read_text().replace('"n":20', '"n":90')
    assert better != file.read_text()
    file.write_text(better)
    assert [problem.path for problem in verify(FilesStore(tmp_path / "store")).problems]


async def test_whoever_watches_a_check_hears_each_score_in_order() -> None:
    heard: list[tuple[str, float | None]] = []
    labels = items([1, None, 0, 1])
    await calibrate(
        Known([1.0, 1.0, 0.0, None]), labels, watch=lambda item, score: heard.append((item.task.id, score.value))
    )
    assert heard == [("0", 1.0), ("2", 0.0), ("3", None)]


# Who may decide


async def test_a_judge_that_agrees_with_people_is_trusted() -> None:
    assert distrust(await agreed([1, 0] * 20, [1.0, 0.0] * 20)) is None


async def test_a_judge_that_nobody_checked_is_not() -> None:
    refusal = distrust(None)
    assert refusal is not None
    assert "no agreement with people" in str(refusal)
    assert "seedbed judge check" in refusal.remedy


async def test_a_judge_that_agrees_poorly_is_refused_with_the_figures() -> None:
    refusal = distrust(await agreed([1, 0] * 20, [1.0] * 20 + [0.0] * 20))
    assert refusal is not None
    assert "kappa 0.00 (95% -" in refusal.found
    assert "on 40 labels" in refusal.found
    assert "at least 0.6" in refusal.expected
    assert "another model" in refusal.remedy


async def test_a_few_labels_are_too_few_even_if_all_agree() -> None:
    refusal = distrust(await agreed([1, 0, 1], [1.0, 0.0, 1.0]))
    assert refusal is not None
    assert "kappa 1.00" in refusal.found
    assert "Label more" in refusal.remedy


async def test_labels_that_are_all_the_same_prove_nothing() -> None:
    refusal = distrust(await agreed([1] * 100, [1.0] * 100))
    assert refusal is not None
    assert "no kappa on 100 labels" in refusal.found


async def test_a_judge_that_leaves_the_hard_ones_out_is_refused() -> None:
    told = await agreed([1, 0] * 25, [*([1.0, 0.0] * 22), *([None] * 6)])
    assert told.kappa == 1.0
    refusal = distrust(told)
    assert refusal is not None
    assert refusal.found == "6 of 50 labelled answers unscored"


async def test_how_much_agreement_is_asked_for_is_stated() -> None:
    told = await agreed([1, 0] * 20, [1.0, 0.0] * 19 + [0.0, 1.0])
    assert told.kappa == pytest.approx(0.9)
    assert distrust(told, 0.6) is None
    assert distrust(told, 0.9) is not None


async def test_no_more_are_judged_at_once_than_may_be() -> None:
    inside, most = 0, 0

    class Busy(Known):
        async def __call__(self, run: Run, task: Task) -> Score:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            return Score(1.0)

    await calibrate(Busy([]), items([1, 0] * 10), at_once=3)
    assert most == 3
