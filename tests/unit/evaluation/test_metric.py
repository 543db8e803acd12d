from __future__ import annotations

import asyncio
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import BudgetSpent, SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import ExactMatch, FunctionMetric, Metric, Score, better, metric
from seedbed.evaluation.metrics.registry import by_name, names, parse_metric
from seedbed.runs.run import Run
from seedbed.testing.metric import a_run

TASK = Task("t", {"q": 1}, "Paris")


async def score(output: Any, expected: Any) -> Score:
    return await ExactMatch()(a_run(output), Task("t", {"q": 1}, expected))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("positive", "positive"),
        ("  Positive.\n", "positive"),
        ('"POSITIVE"!', "positive"),
        ("**positive**", "positive"),
        ("“Straße”", "STRASSE"),
        (4, "4"),
        ("4", 4),
        (4.0, 4),
        ("4.", 4.0),
        (True, "true"),
        ({"b": 1, "a": [2]}, {"a": [2.0], "b": 1}),
        ("", ""),
        (".", "."),
    ],
)
async def test_the_expected_answer_scores_one_whatever_its_case_and_quotes(output: Any, expected: Any) -> None:
    assert (await score(output, expected)).value == 1.0


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("negative", "positive"),
        ("not positive", "positive"),
        ("positive negative", "positive"),
        ("5", "-5"),
        ("-5", 5),
        ("5", ".5"),
        ("5", "5%"),
        ("C", "C++"),
        ("C", "C#"),
        ("-", "+"),
        ("", "+"),
        ("!", "?"),
        ("", "positive"),
        (None, "positive"),
        ("1", True),
        ("posi tive", "positive"),
    ],
)
async def test_any_other_answer_scores_zero_and_says_what_was_expected(output: Any, expected: Any) -> None:
    told = await score(output, expected)
    assert told.value == 0.0
    assert told.reason.startswith("expected ")


@pytest.mark.parametrize("output", ["", None, "anything", 0])
async def test_a_task_without_an_expected_answer_is_unscored_and_not_a_zero(output: Any) -> None:
    told = await score(output, None)
    assert told.value is None
    assert "no expected answer" in told.reason


@pytest.mark.parametrize("expected", ["", 0, False])
async def test_an_expected_answer_that_happens_to_be_empty_is_scored(expected: Any) -> None:
    assert (await score("something", expected)).value == 0.0


async def test_a_score_tells_the_answer_it_took_for_one() -> None:
    assert (await score('"Positive".', "negative")).answer == "positive"


def test_what_people_call_a_metric_is_no_part_of_what_it_is() -> None:
    assert ExactMatch(name="accuracy").identity == ExactMatch().identity


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
async def test_a_value_that_is_no_finite_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Score(value)
    told = await metric(lambda run, task: value)(a_run(), TASK)
    assert told.value is None
    assert "finite" in told.reason


@metric
def short(run: Run, task: Task, *, limit: int = 80, strict: bool = False, words: Any = None) -> bool:
    return len(run.output) < limit


@metric(better="lower")
async def slow(run: Run, task: Task) -> float | None:
    await asyncio.sleep(0)
    return None if run.output == "?" else 3


async def test_a_function_is_a_metric_whether_plain_or_async_and_gives_numbers_truths_or_nothing() -> None:
    assert await short(a_run("Paris"), TASK) == Score(1.0)
    assert await short(a_run("x" * 80), TASK) == Score(0.0)
    assert await slow(a_run(), TASK) == Score(3.0)
    assert (await slow(a_run("?"), TASK)).value is None
    assert (await slow(a_run("?"), TASK)).reason == "slow gave no score"
    assert (short.name, better(short), better(slow), better(ExactMatch())) == ("short", "higher", "lower", "higher")


async def test_a_function_that_raises_leaves_the_item_unscored_and_says_why_but_a_spent_budget_ends_all() -> None:
    told = await short(a_run(None), TASK)
    assert told.value is None
    assert told.reason == "short failed: TypeError: object of type 'NoneType' has no len()"

    @metric
    async def judged(run: Run, task: Task) -> float:
        raise BudgetSpent("nothing left")

    with pytest.raises(BudgetSpent):
        await judged(a_run(), TASK)


async def test_a_long_output_is_scored_beside_the_loop_and_not_on_it() -> None:
    @metric(version=1)
    def where(run: Run, task: Task) -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await where(a_run("x" * 100), TASK)).value == 1.0
    assert (await where(a_run("x" * 1_000_000), TASK)).value == 0.0


def test_options_are_part_of_what_a_metric_is_called_and_is() -> None:
    brief = short.using(limit=10)
    assert brief.name == "short(limit=10)"
    assert brief.identity == {**short.identity, "options": {"limit": 10}}
    assert brief.using(strict=True).name == "short(limit=10, strict=True)"
    assert brief.using(limit=80) == short
    assert len(short.using(words=["many"] * 99).name) < 40
    assert short.using(words=["many"] * 99).name != short.using(words=["few"] * 99).name


def test_options_that_a_metric_cannot_have_are_named_all_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        short.using(limit="long", strict=1, size=3)
    assert [each.path for each in caught.value.problems] == ["short.limit", "short.strict", "short.size"]
    assert "one of: limit, strict, words" in str(caught.value)
    with pytest.raises(SettingsError, match="such as 80"):
        short.using(limit=float("inf"))

    @metric
    def needy(run: Run, task: Task, *, pattern: str) -> bool:
        return True

    with pytest.raises(SettingsError, match="no default"):
        needy.using()
    assert needy.using(pattern="x").name == "needy(pattern='x')"


def test_another_version_or_another_source_makes_another_metric() -> None:
    one = metric(version=1)(lambda run, task: 1.0)
    assert metric(version=1)(lambda run, task: 2.0).identity != one.identity
    assert metric(version=2)(lambda run, task: 1.0).identity != one.identity
    assert metric(lambda run, task: 1.0).identity != metric(lambda run, task: 2.0).identity


@pytest.mark.parametrize("written", ["short", "f1", "numeric(tolerance=0.01)", "exact_match", "calibration(of='f1')"])
async def test_a_metric_goes_to_another_process_and_stays_what_it_is(written: str) -> None:
    chosen: Metric = short.using(limit=3) if written == "short" else parse_metric(written)
    there = pickle.loads(pickle.dumps(chosen))
    assert (there.name, there.identity) == (chosen.name, chosen.identity)
    assert await there(a_run(), TASK) == await chosen(a_run(), TASK)


@pytest.mark.parametrize("name", names())
def test_every_name_gives_its_metric_and_a_metrics_name_gives_it_back(name: str) -> None:
    chosen = parse_metric("weighted(f1=1)") if name == "weighted" else by_name(name)
    assert chosen.name.partition("(")[0] == name
    if name != "weighted":
        assert parse_metric(chosen.name).identity == chosen.identity


@pytest.mark.parametrize(
    "written", ["numeric(tolerance=0.01)", " numeric ( tolerance = 1e-2 , ) ", "numeric(tolerance=0.01, relative=0.0)"]
)
def test_a_metric_is_written_with_its_options_in_brackets(written: str) -> None:
    assert parse_metric(written) == by_name("numeric", tolerance=0.01) == by_name({"numeric": {"tolerance": 0.01}})
    assert parse_metric(parse_metric(written).name) == parse_metric(written)


def test_truths_may_be_written_small() -> None:
    assert parse_metric("contains(case=true)") == parse_metric("contains(case=True)") == by_name("contains", case=True)
    assert parse_metric("contains(case=false)") == parse_metric("contains()") == by_name("contains")
    assert parse_metric("regex(pattern=null)") == by_name("regex")


@pytest.mark.parametrize(
    "written",
    [
        *["numeric(", "numeric(0.1)", "numeric(tolerance)", "numeric(tolerance=x)", "numeric(**{})", "f1)("],
        *["numeric(tolerance=__import__('os'))", "numeric(tolerance=1) or 1", "f1(a=1)(b=2)", "f1(a=\0)"],
        "f1(" + "(" * 1000,
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(SettingsError, match=r"expected|one of"):
        parse_metric(written)


def test_an_unknown_name_gives_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"one of: bleu, .*Did you mean rouge_l\?"):
        by_name("rougel")
    with pytest.raises(SettingsError, match="module:name"):
        by_name("")
    with pytest.raises(SettingsError, match="one name with its options"):
        by_name({"f1": {}, "bleu": {}})
    with pytest.raises(SettingsError, match="one name with its options"):
        by_name({"f1": 3})
    with pytest.raises(SettingsError, match="unexpected keyword argument"):
        by_name("calibration", off="f1")
    with pytest.raises(SettingsError, match="no options"):
        by_name("exact_match", case=True)
    assert by_name({"f1": None}) == by_name("f1")


def test_a_metric_whose_library_is_missing_says_what_to_install_before_anything_is_paid() -> None:
    lost = FunctionMetric(len, "lost", needs=("no_such_library[text]",))
    with pytest.raises(SettingsError, match=r"pip install 'seedbed\[text\]'"):
        lost.using()


MINE = """
from seedbed.evaluation.metrics.metric import Score, metric

@metric
def loud(run, task, *, marks=1):
    return run.output.count("!") >= marks

def plain(run, task, *, letter="a"):
    return run.output.count(letter)

class Fixed:
    name, identity = "fixed", {"metric": "fixed", "version": 1}
    async def __call__(self, run, task):
        return Score(0.5)

fixed = Fixed()
nothing = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    told = tmp_path / "mine-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[seedbed.metrics]\nloud = mine:loud\nhalf = mine:Fixed\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)


@pytest.mark.usefixtures("mine")
async def test_a_package_offers_metrics_by_entry_points() -> None:
    assert {"loud", "half", "f1"} <= set(names())
    assert (await parse_metric("loud(marks=2)")(a_run("Yes!!"), TASK)).value == 1.0
    assert (await by_name("half")(a_run(), TASK)).value == 0.5
    with pytest.raises(SettingsError, match="Did you mean loud"):
        by_name("lound")


@pytest.mark.usefixtures("mine")
async def test_ones_own_metric_is_named_by_its_module() -> None:
    assert (await parse_metric("mine:loud(marks=3)")(a_run("Yes!!"), TASK)).value == 0.0
    assert (await parse_metric("mine:plain(letter='s')")(a_run("Yes, sis"), TASK)).value == 3.0
    assert (await parse_metric("mine:fixed")(a_run(), TASK)).value == 0.5
    for wrong in ("mine:lost", "lost_module:loud", ":", "mine:"):
        with pytest.raises(SettingsError, match="a module and a metric in it"):
            by_name(wrong)
    with pytest.raises(SettingsError, match="an identity and an async call"):
        by_name("mine:nothing")
