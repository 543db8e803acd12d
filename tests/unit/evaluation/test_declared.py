"""Judges that the workspace file declares."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from judge_samples import TASK, answered, says

from seedbed.errors import SettingsError
from seedbed.evaluation.judges.rubrics import DebateQuality, Reference, Rubric
from seedbed.evaluation.metrics.metric import Metric
from seedbed.evaluation.metrics.weighted import Weighted
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace
from seedbed.workspace.execution import Execution

STRONG = {"use": "scripted", "args": {"replies": {"": says(4)}}, "usd_per_million": [0, 1_000_000]}
HELPFUL = {"judge": "rubric", "model": "strong", "rubric": "Does it help?"}


def space(**metrics: Any) -> Workspace:
    return Workspace(Settings(by="ada", models={"strong": STRONG}, metrics=metrics), MemoryStore())


def runs(here: Workspace) -> int:
    return sum(1 for _ in here.store.facts(Query(kind="run")))


async def test_a_declared_judge_is_a_metric_by_its_name() -> None:
    here = space(helpful=HELPFUL)
    judge = here.judges["helpful"]
    score = await judge(answered("Paris."), TASK)
    assert (judge.name, score.value) == ("helpful", 0.75)
    assert score.cost_usd > 0


def test_all_that_a_judge_can_be_told_can_be_declared() -> None:
    here = space(
        marks={**HELPFUL, "rubric": ["Is it right?", "Is it kind?"], "scale": [0, 10], "cut_at": 500, "max_tokens": 80},
        same={"judge": "reference", "model": "strong"},
        led={"judge": "debate_quality", "model": "strong", "part": "synthesis"},
    )
    marks, same, led = (here.judges[name] for name in ("marks", "same", "led"))
    assert isinstance(marks, Rubric)
    assert (marks.criteria, marks.scale) == (("Is it right?", "Is it kind?"), (0, 10))
    assert (marks.model, marks.cut_at, marks.max_tokens) == ("strong", 500, 80)
    assert isinstance(same, Reference)
    assert isinstance(led, DebateQuality)
    assert led.part == "synthesis"


def test_its_identity_changes_with_its_words_and_with_the_model_behind_the_name() -> None:
    def identity(card: Any = STRONG, **more: Any) -> Any:
        settings = Settings(by="ada", models={"strong": card}, metrics={"helpful": {**HELPFUL, **more}})
        return metric_of(Workspace(settings, MemoryStore()), "helpful").identity

    other = {**STRONG, "args": {"replies": {"": says(1)}}}
    assert identity() == identity()
    assert identity() != identity(rubric="Does it help much?")
    assert identity() != identity(card=other)


async def test_the_same_judgement_is_paid_once_whoever_asks() -> None:
    here = space(helpful=HELPFUL, other={**HELPFUL})
    first = await here.judges["helpful"](answered("Paris."), TASK)
    again = await here.judges["other"](answered("Paris."), TASK)
    assert again == first
    assert runs(here) == 1
    await here.judges["helpful"](answered("Lyon."), TASK)
    assert runs(here) == 2


async def test_what_a_judge_was_told_can_be_looked_up() -> None:
    here = space(helpful=HELPFUL)
    await here.judges["helpful"](answered("Paris."), TASK)
    (run,) = here.store.facts(Query(kind="run"))
    assert "Does it help?" in here.resources.library.get(run.subject).to_yaml()


async def test_a_reward_may_have_a_judge_in_it() -> None:
    here = space(helpful=HELPFUL)
    reward = Weighted({"exact_match": 1.0, here.judges["helpful"]: 2.0})
    score = await reward(answered("Paris"), TASK)
    assert score.value == 1.0 + 2 * 0.75
    assert score.cost_usd > 0


def metric_of(here: Workspace, written: str) -> Metric:
    return Execution(here.resources).metric(written)


def test_other_metrics_keep_their_names() -> None:
    assert metric_of(space(helpful=HELPFUL), "numeric(tolerance=0.01)").name == "numeric(tolerance=0.01)"


def test_an_unknown_name_is_told_with_those_of_the_workspace() -> None:
    with pytest.raises(SettingsError, match="Did you mean helpful"):
        metric_of(space(helpful=HELPFUL), "helpfull")


def test_options_of_a_judge_are_for_the_workspace_file() -> None:
    with pytest.raises(SettingsError, match="it has no options"):
        metric_of(space(helpful=HELPFUL), "helpful(scale=3)")


@pytest.mark.parametrize(
    ("about", "path", "found"),
    [
        ({}, "metrics.m.judge", "nothing"),
        ({"judge": "jury"}, "metrics.m.judge", '"jury"'),
        ({"judge": ["rubric"]}, "metrics.m.judge", "['rubric']"),
        ({"judge": "rubric", "model": "strong"}, "metrics.m.rubric", "nothing"),
        ({**HELPFUL, "rubric": " "}, "metrics.m.rubric", '" "'),
        ({**HELPFUL, "rubric": []}, "metrics.m.rubric", "[]"),
        ({**HELPFUL, "rubric": ["a", 1]}, "metrics.m.rubric", "['a', 1]"),
        ({**HELPFUL, "scale": [5]}, "metrics.m.scale", "[5]"),
        ({**HELPFUL, "scale": [5, 1]}, "metrics.m.scale", "[5, 1]"),
        ({**HELPFUL, "part": "synthesis"}, "metrics.m.part", "an unknown key"),
        ({**HELPFUL, "max_tokens": True}, "metrics.m.max_tokens", "True"),
        ({**HELPFUL, "model": "weak"}, "metrics.m.model", 'no model named "weak"'),
        ({"judge": "debate_quality", "model": "strong", "part": "noise"}, "metrics.m.part", '"noise"'),
    ],
)
def test_what_is_wrong_with_a_declaration_is_told_by_its_place(about: Any, path: str, found: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        metric_of(space(m=about), "exact_match")
    (problem,) = wrong.value.problems
    assert problem.path == path
    assert problem.found.startswith(found)


def test_all_problems_of_all_judges_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as wrong:
        space(a={"judge": "jury"}, b={**HELPFUL, "scale": 3, "cut_at": 0})
    paths = [problem.path for problem in wrong.value.problems]
    assert paths == ["metrics.a.judge", "metrics.b.cut_at", "metrics.b.scale"]


def test_a_judge_has_a_name_of_its_own_and_a_model_that_there_is() -> None:
    with pytest.raises(SettingsError) as wrong:
        metric_of(space(f1=HELPFUL, a={**HELPFUL, "model": "stong"}), "helpful")
    assert [problem.path for problem in wrong.value.problems] == ["metrics.f1", "metrics.a.model"]
    assert "Did you mean strong?" in str(wrong.value)


@pytest.mark.parametrize("within", [False, True], ids=["alone", "in a reward"])
def test_a_judge_that_is_sent_elsewhere_stays_the_same_judge(within: bool) -> None:
    judge = metric_of(space(helpful=HELPFUL), "helpful")
    metric: Metric = Weighted({judge: 1.0}) if within else judge
    assert pickle.loads(pickle.dumps(metric)).identity == metric.identity


async def test_a_judge_that_was_sent_away_asks_nobody_outside_a_workspace_like_its_own() -> None:
    sent = pickle.loads(pickle.dumps(metric_of(space(helpful=HELPFUL), "helpful")))
    with pytest.raises(SettingsError, match="expected a judge of the same workspace"):
        await sent(answered("Paris."), TASK)
