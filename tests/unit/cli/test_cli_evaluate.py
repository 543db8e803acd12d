"""seedbed evaluate, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import BETTER, SORTER, WORKSPACE, Seedbed, keeps_promise, tasks, write

from seedbed.cli.verbs import evaluate


@pytest.fixture
def two(space: Path) -> Path:
    """A workspace with a second playbook that is right."""
    write(space, better__yaml=SORTER.replace("Message: {text}", BETTER))
    return space


EVALUATE = ("evaluate", "sorter.yaml", "tasks.jsonl")


def test_repeated_metrics_score_the_same_runs(two: Path, seedbed: Seedbed) -> None:
    done = seedbed("evaluate", "better.yaml", "tasks.jsonl", "--metric", "exact_match", "--metric", "f1", "--json")
    assert keeps_promise(done.json, "evaluate")
    assert {name: each["mean"] for name, each in done.json["metrics"].items()} == {"exact_match": 1.0, "f1": 1.0}
    assert (done.json["metric"], done.json["tasks"], len(done.json["cells"])) == ("exact_match", 12, 24)
    assert len({cell["run"] for cell in done.json["cells"]}) == 12
    assert len(seedbed("runs", "list", "--json").json["runs"]) == 12


def test_a_metric_of_ones_own_lies_beside_the_workspace_file(space: Path, seedbed: Seedbed) -> None:
    write(
        space,
        own_metrics__py="from seedbed.evaluation.metrics.metric import metric\n\n\n"
        "@metric(better='lower')\ndef vowels(run, task):\n    return sum(letter in 'aeiou' for letter in run.output)\n",
    )
    done = seedbed(*EVALUATE, "--metric", "own_metrics:vowels", "--json")
    assert (done.json["metric"], done.json["metrics"]["vowels"]["better"]) == ("vowels", "lower")


def test_several_playbooks_stand_side_by_side(two: Path, seedbed: Seedbed) -> None:
    done = seedbed("evaluate", "sorter.yaml", "better.yaml", "tasks.jsonl", "--json")
    assert keeps_promise(done.json, "evaluate", form="JSON with several playbooks")
    assert [(card["name"], card["mean"]) for card in done.json["cards"]] == [("sorter.yaml", 0.0), ("better.yaml", 1.0)]
    for card in done.json["cards"]:
        assert keeps_promise(card, "evaluate")
    shown = seedbed("evaluate", "sorter.yaml", "better.yaml", "--on", "tasks.jsonl")
    assert shown.code == 0
    assert "seedbed compare A B" in shown.out
    assert "24 cells reused" in shown.out


def test_the_dataset_may_be_named_by_an_option(two: Path, seedbed: Seedbed) -> None:
    assert seedbed("evaluate", "better.yaml", "--on", "tasks.jsonl", "--json").json["mean"] == 1.0


@pytest.mark.parametrize(
    "arguments", [(), ("sorter.yaml",), ("--on", "tasks.jsonl")], ids=["nothing", "one", "no playbook"]
)
def test_a_playbook_and_a_dataset_are_needed(arguments: tuple[str, ...], space: Path, seedbed: Seedbed) -> None:
    done = seedbed("evaluate", *arguments)
    assert done.code == 64
    assert "expected playbooks and a dataset" in done.err


def test_tags_are_told_apart(space: Path, seedbed: Seedbed) -> None:
    rows = [
        {"inputs": {"text": f"I love {n}"}, "expected": "good", "tags": ["odd" if n % 2 else "even"]} for n in range(4)
    ]
    write(space, tagged__jsonl="".join(f"{json.dumps(row)}\n" for row in rows))
    done = seedbed("evaluate", "sorter.yaml", "tagged.jsonl", "--json")
    counts = {name: part["exact_match"]["tasks"] for name, part in done.json["strata"]["tag"].items()}
    assert counts == {"even": 2, "odd": 2}
    assert "even" in seedbed("evaluate", "sorter.yaml", "tagged.jsonl").out


# Money, time, interruptions


def dear(folder: Path) -> None:
    """A model whose answers cost a dollar each, and can be foreseen."""
    write(
        folder,
        seedbed__yaml=WORKSPACE.replace("[1000, 2000]", "[0, 1000000]").replace(
            '.": "unsure [bold]ä[/bold] 🙂"', '.": hm'
        ),
        sorter__yaml=SORTER.replace("temperature: 0.5", "max_tokens: 1"),
    )


def test_money_that_does_not_last_leaves_a_part_and_says_so(space: Path, seedbed: Seedbed) -> None:
    dear(space)
    done = seedbed(*EVALUATE, "--max-cost", "5", "--json")
    assert (done.code, done.json["cost_usd"], done.json["tasks"], done.json["unscored"]) == (2, 5.0, 5, 7)
    assert "Budget exhausted: 7 results are missing" in done.err
    rest = seedbed(*EVALUATE, "--max-cost", "7", "--json")
    assert (rest.code, rest.json["cost_usd"], rest.json["reused"], rest.json["tasks"]) == (0, 7.0, 5, 12)


def test_several_playbooks_share_the_money(two: Path, seedbed: Seedbed) -> None:
    dear(two)
    write(two, other__yaml=SORTER.replace("temperature: 0.5", "max_tokens: 1").replace("Message", "Letter"))
    done = seedbed("evaluate", "sorter.yaml", "other.yaml", "tasks.jsonl", "--max-cost", "15", "--json")
    assert (done.code, [card["cost_usd"] for card in done.json["cards"]]) == (2, [12.0, 3.0])


# By the time it comes to the last tasks, what the first ones gave is kept: eight are under way at once.
AGENT = """\
import asyncio, os, signal
from pathlib import Path


async def handle(task, stage):
    if task["text"].endswith("item 5"):
        if Path("slow").exists():
            await asyncio.sleep(60)
        if not Path("calm").exists():
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
    return "good"
"""


def test_who_interrupts_is_told_how_to_go_on_and_pays_nothing_twice(space: Path, seedbed: Seedbed) -> None:
    write(space, interrupted_agent__py=AGENT, agent__yaml="program: interrupted_agent:handle\n")
    done = seedbed("evaluate", "agent.yaml", "tasks.jsonl")
    assert done.code == 130
    assert "To continue: seedbed evaluate agent.yaml tasks.jsonl" in done.err
    write(space, calm="")
    rest = seedbed("evaluate", "agent.yaml", "tasks.jsonl", "--json").json
    assert (rest["tasks"], rest["mean"]) == (12, 0.5)
    assert 0 < rest["reused"] < 12


def test_a_run_that_takes_too_long_is_given_up(space: Path, seedbed: Seedbed) -> None:
    write(space, slow_agent__py=AGENT, agent__yaml="program: slow_agent:handle\n", slow="", calm="")
    done = seedbed("evaluate", "agent.yaml", "tasks.jsonl", "--timeout", "0.2", "--json")
    assert (done.code, done.json["tasks"], done.json["unscored"]) == (0, 10, 2)
    assert list(done.json["metrics"]["exact_match"]["reasons"]) == ["it took longer than 0.2 s"]


def test_a_place_that_nobody_knows_is_refused(space: Path, seedbed: Seedbed) -> None:
    done = seedbed(*EVALUATE, "--parallel", "moon")
    assert done.code == 64
    assert "moon" in done.err


# Reports


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("report.md", "| sorter.yaml | exact\\_match | 0.000 |"),
        ("report.csv", '"name","playbook","task"'),
        ("report.html", "<h2>Scores</h2>"),
        ("report.json", '"metric": "exact_match"'),
    ],
)
def test_the_ending_of_a_file_says_how_a_report_is_written(name: str, told: str, space: Path, seedbed: Seedbed) -> None:
    done = seedbed(*EVALUATE, "-o", name, "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "evaluate", form="JSON with -o")
    assert told in (space / name).read_text(encoding="utf-8")


def test_without_a_file_a_report_is_printed(space: Path, seedbed: Seedbed) -> None:
    assert seedbed(*EVALUATE, "--format", "markdown").out.startswith("# Scorecard of sorter\n")
    assert len(seedbed(*EVALUATE, "--format", "csv").out.splitlines()) == 13


def test_a_report_never_overwrites_and_that_is_told_before_anything_is_paid(space: Path, seedbed: Seedbed) -> None:
    write(space, report__md="mine")
    done = seedbed(*EVALUATE, "-o", "report.md")
    assert done.code == 1
    assert "a file that exists" in done.err
    assert (space / "report.md").read_text() == "mine"
    assert not (space / "seedbed.db").exists()


def test_an_ending_that_nobody_knows_is_refused(space: Path, seedbed: Seedbed) -> None:
    done = seedbed(*EVALUATE, "-o", "report.docx")
    assert (done.code, (space / "report.docx").exists()) == (64, False)
    assert ".html" in done.err


def test_every_format_has_its_writer() -> None:
    assert set(evaluate.Format) == set(evaluate.ENDINGS.values())


# Suites


def suite(folder: Path, prompt: str = BETTER, more: str = "") -> None:
    where = folder / "mood"
    where.mkdir(exist_ok=True)
    write(
        where,
        suite__yaml=f"baselines: {{plain: plain.yaml}}\ndatasets:\n  mail: {{tasks: mail.jsonl{more}}}\n",
        plain__yaml=SORTER.replace("Message: {text}", prompt),
        mail__jsonl=tasks(20),
    )


def test_a_suite_is_measured_and_held_against_the_last_time(space: Path, seedbed: Seedbed) -> None:
    suite(space)
    first = seedbed("evaluate", "--suite", "mood", "--json")
    assert keeps_promise(first.json, "evaluate", form="JSON with --suite")
    assert (first.code, first.json["suite"], first.json["results"][0]["change"]) == (0, "mood", None)
    again = seedbed("evaluate", "--suite", "mood", "--json")
    assert (again.code, again.json["results"][0]["change"]["mean"]) == (0, 0.0)
    suite(space, "Message: {text}")
    for _ in range(2):  # the same again is as bad as before
        worse = seedbed("evaluate", "--suite", "mood", "--json")
        change = worse.json["results"][0]["change"]
        assert (worse.code, change["mean"], change["tasks"], change["regressed"]) == (1, -1.0, 20, True)
    told = seedbed("evaluate", "--suite", "mood")
    assert "regression: mail, plain, exact_match: -1.000 [-1.000, -0.762] on 20 tasks" in told.out
    assert seedbed("evaluate", "--suite", "mood", "--accept").code == 0
    assert seedbed("evaluate", "--suite", "mood").code == 0


def test_playbooks_are_measured_beside_the_baselines_of_a_suite(two: Path, seedbed: Seedbed) -> None:
    suite(two, "Message: {text}", ", at_least: {exact_match: 0.5}")
    assert seedbed("evaluate", "--suite", "mood").code == 1  # the baseline alone is asked for
    done = seedbed("evaluate", "better.yaml", "--suite", "mood", "--json")
    found = {each["name"]: (each["mean"], each["missed"]) for each in done.json["results"]}
    assert (done.code, found) == (0, {"plain": (0.0, None), "better.yaml": (1.0, None)})
    missed = seedbed("evaluate", "sorter.yaml", "--suite", "mood")
    assert missed.code == 1
    assert "threshold: mail, sorter.yaml, exact_match: 0.000 [0.000, 0.168] is below 0.5" in missed.out


def test_accepting_worse_results_does_not_lower_a_threshold(space: Path, seedbed: Seedbed) -> None:
    suite(space, "Message: {text}", ", at_least: {exact_match: 0.5}")
    assert seedbed("evaluate", "--suite", "mood", "--accept").code == 1


def test_a_suite_is_a_report_too(space: Path, seedbed: Seedbed) -> None:
    suite(space)
    assert seedbed("evaluate", "--suite", "mood", "-o", "mood.html").code == 0
    assert "mail · plain" in (space / "mood.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", [("--metric", "f1"), ("--on", "tasks.jsonl"), ("--replicates", "2")])
def test_a_suite_says_itself_what_is_measured_how(option: tuple[str, str], space: Path, seedbed: Seedbed) -> None:
    suite(space)
    done = seedbed("evaluate", "--suite", "mood", *option)
    assert done.code == 64
    assert "the suite already defines this" in done.err


def test_a_suite_without_any_playbook_is_refused(space: Path, seedbed: Seedbed) -> None:
    suite(space)
    write(space / "mood", suite__yaml="datasets: {mail: mail.jsonl}\n")
    done = seedbed("evaluate", "--suite", "mood")
    assert done.code == 1
    assert "no playbook at all" in done.err
    assert seedbed("evaluate", "sorter.yaml", "--suite", "mood").code == 0


def test_all_problems_of_a_suite_are_told(space: Path, seedbed: Seedbed) -> None:
    suite(space, more=", metrics: [beauty], at_most: {f1: 1}")
    done = seedbed("evaluate", "--suite", "mood", "--json")
    assert done.code == 1
    assert len(json.loads(done.err)["problems"]) == 1
    assert "datasets.mail.metrics[0] (line 3)" in done.err
    assert not (space / "seedbed.db").exists()


def test_only_results_of_a_suite_can_be_accepted(space: Path, seedbed: Seedbed) -> None:
    assert seedbed(*EVALUATE, "--accept").code == 64
