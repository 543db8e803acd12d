"""A run as something to read and to pass on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from page_reader import Reader, assert_asks_nothing, headings

from seedbed.reports import run as report
from seedbed.reports.run import RunView, costs, routings
from seedbed.runs.run import Call, Child, Decision, Failure, Run, Turn
from seedbed.storage import open_store
from seedbed.storage.store import Fact, Json

TURN = Turn(
    step="answer",
    role="writer",
    model="fast",
    messages=(("system", "Be brief."), ("user", "Why | <b>?</b>")),
    text="Because ✓ <script>alert(1)</script>",
    prompt_tokens=1000,
    completion_tokens=200,
    cost_usd=0.25,
    latency_seconds=0.5,
    finish_reason="stop",
    seed=7,
    waited_seconds=1.5,
    notices=("strong did not answer, so fast did",),
)
RUN = Run(
    id="0123456789abcdef",
    playbook="b2:" + "1" * 64,
    inputs={"question": "Why?"},
    seed=7,
    started=datetime(2026, 1, 2, 3, 4, 0, 500, tzinfo=UTC),
    status="completed",
    output={"label": "ü"},
    error="",
    turns=(TURN, replace(TURN, model="strong", cost_usd=2.0), replace(TURN, step="", text="")),
    tokens=3600,
    cost_usd=2.5,
    latency_seconds=2.0,
    models={},
    calls=(Call(tool="look", arguments={"at": "it|"}, result=3, error="", changes=False, latency_seconds=0.1),),
    decisions=(Decision(point="label", action="ham", because="no links", propensity=None, confidence=None),),
)
CHILD = Child(
    run="fedcba9876543210", step="topics", status="failed", output=None, error="gone", tokens=50, cost_usd=1.0
)
CONSIDERED = {"rejected": "", "expected": 0.5, "score": 0.5, "cost_usd": 0.1, "chance": 0.25}
ROUTING = [
    {
        "step": "answer",
        "model": "fast",
        "propensity": 0.75,
        "because": "it is | the cheapest <b>",
        "considered": [
            {**CONSIDERED, "model": "fast", "chance": 0.75},
            {**CONSIDERED, "model": "strong"},
            {**CONSIDERED, "model": "tiny", "rejected": "it cannot do reasoning", "expected": None, "chance": 0.0},
        ],
    }
]


def written(name: str, run: Run, routing: Sequence[Json] = ()) -> str:
    text: str = getattr(report, f"to_{name}")(RunView(run, routing))
    return text


@pytest.mark.parametrize("name", ["json", "markdown", "html"])
def test_every_format_holds_what_was_said_and_what_came_of_it(name: str) -> None:
    text = written(name, RUN)
    for part in ("0123456789", "Because ✓", "ü", "strong did not answer, so fast did", "Why?"):
        assert part in text, part
    assert written(name, replace(RUN, turns=(), calls=(), decisions=(), output=None, error="gone"))


@pytest.mark.parametrize("name", ["json", "markdown", "html"])
def test_every_format_says_how_models_were_chosen(name: str) -> None:
    text = written(name, RUN, ROUTING)
    for part in ("the cheapest", "strong", "tiny", "it cannot do reasoning"):
        assert part in text, part
    assert "Routing" not in written(name, RUN)


def test_a_choice_is_told_with_its_chance_and_with_what_became_of_the_others() -> None:
    (row,) = [line for line in written("markdown", RUN, ROUTING).splitlines() if line.startswith("| answer")]
    others = "strong: expected 0.50, chance 25%; tiny: it cannot do reasoning"
    assert row == f"| answer | fast | 75% | it is \\| the cheapest &lt;b&gt; | {others} |"
    alone = {**ROUTING[0], "considered": ROUTING[0]["considered"][:1]}
    assert "| no other |" in written("markdown", RUN, [alone])


def test_runs_that_were_opened_are_named_and_counted_in() -> None:
    run = replace(RUN, children=(CHILD,))
    assert "| fedcba9876 | topics | failed | 50 | 1.0000 | gone |" in written("markdown", run)
    assert "fedcba9876" in written("html", run)
    assert costs(run)[-2:] == [
        ("runs it opened", "–", "50", "1.0000", "–", "–"),
        ("all", "3", "3,650", "3.5000", "1.50", "4.50"),
    ]


def test_the_choices_of_a_run_are_read_from_its_record_in_order() -> None:
    with closing(open_store("memory:")) as store:
        at = datetime(2026, 1, 2, tzinfo=UTC)
        for number, run in enumerate("aba"):
            store.append(
                [Fact(kind="routing", key=f"{number}", subject=run, at=at, by="t", body={"step": str(number)})]
            )
        assert [each["step"] for each in routings(store, "a")] == ["0", "2"]


def test_json_is_whole() -> None:
    document = json.loads(written("json", RUN))
    assert document["turns"][0] == json.loads(json.dumps(TURN.body()))
    assert document["started"] == "2026-01-02T03:04:00.000500+00:00"


def test_a_page_runs_nothing_and_asks_nothing_of_anybody() -> None:
    page = written("html", RUN, ROUTING)
    assert_asks_nothing(page)
    assert "b" not in Reader(page).names
    assert headings(page)[2:5] == ["answer · writer · fast", "answer · writer · strong", "writer · writer · fast"]


def test_tables_survive_what_is_in_them() -> None:
    lines = [line for line in written("markdown", RUN).splitlines() if line.startswith("| look")]
    assert lines == ['| look | {"at":"it\\|"} | 3 |']


def test_costs_are_told_by_model_the_dearest_first_and_all_together() -> None:
    assert costs(RUN) == [
        ("strong", "1", "1,200", "2.0000", "0.50", "1.50"),
        ("fast", "2", "2,400", "0.5000", "1.00", "3.00"),
        ("all", "3", "3,600", "2.5000", "1.50", "4.50"),
    ]


def test_what_was_paid_for_no_answer_is_part_of_the_costs() -> None:
    failure = Failure(step="answer", role="writer", error="too slow", cost_usd=0.75, tokens=1200)
    rows = costs(replace(RUN, failures=(failure,), cost_usd=3.25))
    assert rows[-2] == ("not answered", "–", "1,200", "0.7500", "–", "–")
    assert rows[-1][3] == "3.2500"
