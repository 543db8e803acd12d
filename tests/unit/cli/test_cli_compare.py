"""seedbed compare, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import BETTER, SORTER, WORKSPACE, Seedbed, held, keeps_promise, tasks, write

from seedbed.experiments.experiment import RULE_NAMES

COMPARE = ("compare", "sorter.yaml", "better.yaml", "--on", "tasks.jsonl")
SAME = ("compare", "sorter.yaml", "same.yaml", "--on", "tasks.jsonl")


@pytest.fixture(autouse=True)
def several(space: Path) -> Path:
    """A workspace with one playbook that is better, one that is as good, and enough tasks to tell."""
    write(
        space,
        tasks__jsonl=tasks(40),
        better__yaml=SORTER.replace("Message: {text}", BETTER),
        same__yaml=SORTER.replace("value: 0.5, low", "value: 0.6, low"),
    )
    return space


def facts(kind: str) -> int:
    """How many facts of a kind the store has; none, if there is no store."""
    return sum(fact.kind == kind for fact in held()[1]) if Path("seedbed.db").exists() else 0


# What decides


@pytest.mark.parametrize("rule", ["exact", "betting", "gsprt", "sprt"])
def test_any_rule_can_be_registered(rule: str, seedbed: Seedbed) -> None:
    known = ("--discordance", "0.5") if rule == "sprt" else ()
    done = seedbed(*COMPARE, "--rule", rule, "--effect", "0.3", *known, "--json")
    assert (done.code, done.json["finding"], done.json["rule"]) == (0, "superior", RULE_NAMES[rule])
    assert keeps_promise(done.json, "compare")


def test_a_candidate_that_falls_short_of_the_effect_is_given_up(seedbed: Seedbed) -> None:
    done = seedbed(*SAME, "--effect", "0.4", "--json")
    assert (done.code, done.json["finding"]) == (1, "futile")
    assert done.json["tasks"] < done.json["at_most"] == 40
    assert "same.yaml is not better than sorter.yaml by 0.4, as was hoped for" in seedbed(*SAME, "--effect", "0.4").out


@pytest.mark.parametrize("goal", ["non-inferior", "equivalent"])
def test_what_was_the_goal_passes_and_else_does_not(goal: str, seedbed: Seedbed) -> None:
    done = seedbed(*SAME, "--goal", goal, "--margin", "0.4", "--json")
    assert (done.code, done.json["finding"]) == (0, goal)
    other = seedbed(*SAME, "--margin", "0.4", "--json")
    assert (other.code, other.json["finding"]) == (2, "equivalent")
    assert "which was to be shown" not in seedbed(*SAME, "--margin", "0.4").out


def test_replicates_are_registered_also_for_several_candidates(seedbed: Seedbed) -> None:
    assert seedbed(*COMPARE, "--replicates", "2").code == 0
    write(Path(), more__yaml=SORTER.replace("Message: {text}", f"{BETTER}!"))
    assert seedbed("compare", "same.yaml", "better.yaml", "more.yaml", *COMPARE[3:], "--replicates", "2").code == 0
    for each in seedbed("experiment", "list", "--json").json:
        plan = seedbed("experiment", "show", each["experiment"], "--json").json["registered"]
        assert (plan["replicates"], plan["rule"]["rule"]) == (2, "betting")


def test_the_names_are_those_that_were_typed(seedbed: Seedbed) -> None:
    assert seedbed(*COMPARE).out.startswith("superior: better.yaml is better than sorter.yaml\n")


# Several candidates


def test_several_candidates_are_ranked(seedbed: Seedbed) -> None:
    done = seedbed("compare", "sorter.yaml", "same.yaml", "better.yaml", "--on", "tasks.jsonl", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "compare", form="JSON with several")
    assert [each["better"] for each in done.json["candidates"]] == [True, False]
    told = seedbed("compare", "sorter.yaml", "same.yaml", "better.yaml", "--on", "tasks.jsonl").out
    assert told.index("better.yaml") < told.index("same.yaml")


def test_if_all_of_several_are_worse_that_is_no_open_question(seedbed: Seedbed) -> None:
    assert seedbed("compare", "better.yaml", "sorter.yaml", "same.yaml", "--on", "tasks.jsonl").code == 1
    write(Path(), equal__yaml=SORTER.replace("value: 0.5, low", "value: 0.7, low"))
    assert seedbed("compare", "sorter.yaml", "equal.yaml", "same.yaml", "--on", "tasks.jsonl").code == 2


# Before anything is spent


def test_it_says_beforehand_which_attempt_it_is_and_how_many_tasks_are_fresh(seedbed: Seedbed) -> None:
    def said(*words: str) -> str:
        done = seedbed(*COMPARE, *words)
        return " ".join(f"{done.err} {done.out}".split())

    assert "exploratory, so it cannot support a release: no channel serves the control; 40 of 40 tasks" in said(
        "--plan"
    )
    seedbed("release", "sorter.yaml", "--to", "production", "--because", "the first")
    before = held()
    assert "attempt 1, at error rate 0.047; 40 of 40 tasks fresh" in said("--dry-run")
    assert held() == before
    assert "attempt 1, at error rate 0.047; 40 of 40 tasks fresh" in said("--plan")
    for _ in range(2):  # the second prints the verdict of the first
        assert "attempt 1, at error rate 0.047; 40 of 40 tasks fresh" in said()
    late = said("--dry-run", "--seed", "1")
    assert "results of the candidate were known at 8 of 40 tasks, and results of the control too; 32 of 40" in late
    assert "hold some back (seedbed dataset hold-out NAME)" in late
    assert facts("attempt") == 1


def test_a_plan_keeps_its_promise_and_runs_nothing(seedbed: Seedbed) -> None:
    done = seedbed(*COMPARE, "--plan", "--effect", "0.2", "--discordance", "0.5", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "compare", form="JSON with --plan")
    assert (done.json["effect"], done.json["discordance"], done.json["units"]) == (0.2, 0.5, 40)
    assert "power" in seedbed(*COMPARE, "--plan").out
    assert (facts("start"), facts("comparison")) == (0, 0)


def test_a_plan_for_a_channel_has_the_error_rate_of_its_budget(seedbed: Seedbed) -> None:
    planned = seedbed(*COMPARE, "--plan", "--for", "production", "--json").json["alpha"]
    assert planned < 0.05
    assert seedbed(*COMPARE, "--for", "production", "--json").json["alpha"] == planned


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--alpha", "0"), "--alpha"),
        (("--alpha", "0.5"), "--alpha"),
        (("--alpha", "nan"), "--alpha"),
        (("--alpha", "0.05", "--for", "production"), "set at channels.production.error_budget"),
        (("--effect", "0"), "--effect"),
        (("--effect", "1.5"), "--effect"),
        (("--margin", "1"), "--margin"),
        (("--goal", "equivalent"), "--margin"),
        (("--goal", "best"), "--goal"),
        (("--rule", "coin"), """found "coin"; expected one of 'exact'"""),
        (("--rule", "gsprt"), "--effect"),
        (("--rule", "sprt", "--effect", "0.1"), "--discordance"),
        (("--rule", "sprt", "--effect", "0.1", "--discordance", "0.1"), "--discordance"),
        (("--rule", "exact", "--margin", "0.1"), "--rule"),
        (("--replicates", "0"), "--replicates"),
        (("--first-replicate", "-1"), "--first-replicate"),
        (("--metric", "nonsense"), "--metric"),
        (("--plan", "--discordance", "2"), "--discordance"),
        (("--plan", "--effect", "0.4", "--discordance", "0.2"), "--discordance"),
        (("--mode", "lenient"), "--mode"),
        (("--since", "2026-01-01"), "--since"),
        (("--replay", "0"), "--replay"),
        (("--replay", "3", "--mode", "fork:0"), "--mode"),
        (("--replay", "3", "--since", "soon"), "--since"),
        (("--replay", "3", "--first-replicate", "1"), "--first-replicate"),
        (("--replay", "3", "--for", "production"), "--for"),
        (("--replay", "3", "--replicates", "2"), "--replicates"),
        (("--live-runs", "20"), "--live-runs"),
        (("--replay", "30", "--live-runs", "1"), "--live-runs"),
        (("-o", "report.pdf"), ".md or .html"),
    ],
    ids=" ".join,
)
def test_what_is_called_wrongly_is_told_before_anything_is_done(
    arguments: tuple[str, ...], told: str, seedbed: Seedbed
) -> None:
    done = seedbed(*COMPARE, *arguments)
    assert (done.code, done.out) == (64, "")
    assert told in done.err
    assert (facts("start"), facts("comparison")) == (0, 0)


def test_a_plan_spends_nothing_so_replays_have_none(space: Path, seedbed: Seedbed) -> None:
    done = seedbed(*COMPARE, "--replay", "5", "--plan")
    assert (done.code, done.out) == (64, "")
    assert "expected none with past runs" in done.err
    assert not (space / "seedbed.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--goal", "equivalent", "--margin", "0.1"),
        ("--for", "production"),
        ("--plan",),
        ("--replay", "5", "--live-runs", "2"),
    ],
    ids=" ".join,
)
def test_what_several_candidates_cannot_have_is_refused(arguments: tuple[str, ...], seedbed: Seedbed) -> None:
    done = seedbed("compare", "sorter.yaml", "same.yaml", "better.yaml", "--on", "tasks.jsonl", *arguments)
    assert done.code == 64
    assert "with several candidates" in done.err
    assert facts("start") == 0


def test_tasks_or_past_runs_are_needed(seedbed: Seedbed) -> None:
    done = seedbed("compare", "sorter.yaml", "better.yaml")
    assert done.code == 64
    assert "expected --on DATASET or --replay N" in done.err
    assert seedbed("compare", "sorter.yaml", "better.yaml", "--on", "").code == 1


@pytest.mark.parametrize(
    ("name", "content"), [("absent.jsonl", None), ("empty.jsonl", b""), ("binary.jsonl", bytes(range(256)))]
)
def test_tasks_that_cannot_be_read_are_told_by_name(
    name: str, content: bytes | None, space: Path, seedbed: Seedbed
) -> None:
    if content is not None:
        (space / name).write_bytes(content)
    done = seedbed("compare", "sorter.yaml", "better.yaml", "--on", name)
    assert done.code == 1
    assert name in done.err
    assert "unexpected" not in done.err
    assert not (space / "seedbed.db").exists()


def test_tasks_that_the_candidate_was_evolved_on_are_refused(seedbed: Seedbed) -> None:
    quickly = ("--optimizer", "best_of", "--budget", "150 runs")
    assert (
        seedbed("evolve", "sorter.yaml", "tasks.jsonl", "--bank", "bank.txt", "--branch", "found", *quickly).code == 0
    )
    before = facts("start")
    done = seedbed("compare", "sorter.yaml", "found", "--on", "tasks.jsonl", "--json")
    assert (done.code, done.out) == (1, "")
    assert json.loads(done.err)["problems"][0]["found"].startswith("30 of 40 that the candidate was evolved on")
    assert (facts("start"), facts("comparison")) == (before, 0)


def test_an_unknown_channel_is_refused(seedbed: Seedbed) -> None:
    done = seedbed(*COMPARE, "--for", "prodution")
    assert done.code == 1
    assert "production" in done.err
    assert facts("comparison") == 0


# Money, interruptions


def dear(folder: Path) -> None:
    """A model whose answers cost a dollar each."""
    write(
        folder,
        seedbed__yaml=WORKSPACE.replace("[1000, 2000]", "[0, 1000000]").replace(
            '.": "unsure [bold]ä[/bold] 🙂"', '.": hm'
        ),
        sorter__yaml=SORTER.replace("temperature: 0.5", "max_tokens: 1"),
        better__yaml=SORTER.replace("temperature: 0.5", "max_tokens: 1").replace("Message: {text}", BETTER),
    )


def test_what_the_money_did_not_last_for_is_not_decided_and_goes_on(space: Path, seedbed: Seedbed) -> None:
    dear(space)
    done = seedbed(*COMPARE, "--max-cost", "3", "--json")
    assert (done.code, done.out) == (2, "")
    assert json.loads(done.err)["error"] == "BudgetSpent"
    rest = seedbed(*COMPARE, "--json")
    assert (rest.code, rest.json["finding"]) == (0, "superior")
    runs = seedbed("runs", "list", "--json", "--limit", "1000").json["runs"]
    asked = [(run["playbook"], run["inputs"]["text"]) for run in runs if run["status"] == "completed"]
    assert len(asked) == len(set(asked))


# By the time it comes to this task, results of others are kept.
AGENT = """\
import asyncio, os, signal
from pathlib import Path


async def handle(task, stage):
    if task["text"].endswith("item 9") and not Path("calm").exists():
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    return "good" if "love" in task["text"] else "bad"
"""


def test_a_comparison_that_was_interrupted_comes_to_the_same_verdict(space: Path, seedbed: Seedbed) -> None:
    write(space, interrupted_comparison__py=AGENT, agent__yaml="program: interrupted_comparison:handle\n")
    command = ("compare", "better.yaml", "agent.yaml", "--on", "tasks.jsonl", "--json")
    stopped = seedbed(*command)
    assert (stopped.code, stopped.out) == (130, "")
    assert f"To continue: seedbed {' '.join(command)}" in " ".join(stopped.err.split())
    assert [each["status"] for each in seedbed("experiment", "list", "--json").json] == ["running"]
    write(space, calm="", other__yaml=WORKSPACE.replace("seedbed.db", "other.db"))
    resumed, alone = seedbed(*command), seedbed(*command, "-w", "other.yaml")
    assert resumed.code == alone.code == 2
    same = ("experiment", "finding", "outcomes", "scores", "p")
    assert [resumed.json[name] for name in same] == [alone.json[name] for name in same]


# Reports


@pytest.mark.parametrize(
    ("name", "told"),
    [("report.md", "**Yes: better is better than sorter."), ("report.html", "better against sorter")],
)
def test_a_report_calls_playbooks_as_they_were_typed(name: str, told: str, space: Path, seedbed: Seedbed) -> None:
    done = seedbed(*COMPARE, "-o", name)
    assert done.code == 0
    assert f"wrote {name}" in done.out
    assert told in (space / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["report.md", "absent/report.html"])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_paid(
    name: str, space: Path, seedbed: Seedbed
) -> None:
    write(space, report__md="mine")
    done = seedbed(*COMPARE, "-o", name)
    assert (done.code, done.out) == (1, "")
    assert name in done.err
    assert (space / "report.md").read_text() == "mine"
    assert not (space / "seedbed.db").exists()


# Replays


@pytest.fixture
def past(prepared: Seedbed) -> None:
    """Forty live runs of the sorter."""
    assert prepared("evaluate", "sorter.yaml", "tasks.jsonl").code == 0


def test_past_runs_live_from_the_first_step_tell_which_is_better(past: None, seedbed: Seedbed) -> None:
    done = seedbed(*COMPARE, "--replay", "24", "--mode", "fork:1", "--json")
    assert (done.code, done.json["verdict"]["finding"], done.json["verdict"]["at_most"]) == (0, "superior", 24)
    assert keeps_promise(done.json, "compare", form="JSON with --replay")
    told = seedbed(*COMPARE, "--replay", "24", "--mode", "fork:1").out
    assert told.startswith("superior: better.yaml is better than sorter.yaml\n")


def test_the_goal_counts_for_replays_too(past: None, seedbed: Seedbed) -> None:
    done = seedbed(*SAME, "--replay", "40", "--goal", "non-inferior", "--margin", "0.4", "--json")
    assert (done.code, done.json["verdict"]["finding"]) == (0, "non-inferior")
    assert done.json["steps"] == {"exact": 40}


def test_recordings_that_cannot_answer_are_no_verdict(past: None, seedbed: Seedbed) -> None:
    done = seedbed(*COMPARE, "--replay", "20")
    assert (done.code, done.out) == (1, "")
    assert "not replayable" in done.err
    assert "fork:1" in done.err
    assert facts("comparison") == 0


def test_what_was_said_to_the_control_proves_nothing_of_the_candidate(past: None, seedbed: Seedbed) -> None:
    goal = ("--goal", "non-inferior", "--margin", "0.4")
    done = seedbed(*COMPARE, "--replay", "40", "--mode", "lenient", *goal)
    assert (done.code, done.out) == (1, "")
    assert "the candidate asked something else, and got the answer of the recorded run" in done.err
    assert "--mode fork:1" in done.err
    assert facts("comparison") == 0


def test_live_steps_of_replays_cost_no_more_than_was_said_and_go_on_with_more(space: Path, seedbed: Seedbed) -> None:
    dear(space)
    assert seedbed("evaluate", "sorter.yaml", "tasks.jsonl").code == 0
    live = (*COMPARE, "--replay", "20", "--mode", "fork:1", "--json")
    done = seedbed(*live, "--max-cost", "3")
    assert (done.code, done.out) == (2, "")
    told = json.loads(done.err)
    assert told["error"] == "BudgetSpent"
    assert "higher limit" in json.dumps(told)
    assert facts("comparison") == 0
    rest = seedbed(*live, "--max-cost", "100")
    assert rest.code in (0, 2)
    assert rest.json["missed"] == {}


def test_replays_by_other_processes_give_the_same_answer(past: None, seedbed: Seedbed) -> None:
    live = (*COMPARE, "--replay", "24", "--mode", "fork:1", "--json")
    done = seedbed(*live, "--parallel", "2")
    assert (done.code, done.json["verdict"]["finding"], done.json["missed"]) == (0, "superior", {})
    assert seedbed(*live).json == done.json


def test_fewer_past_runs_than_there_are_kinds_of_them_are_a_wrong_call(past: None, seedbed: Seedbed) -> None:
    done = seedbed(*COMPARE, "--replay", "1")
    assert (done.code, done.out) == (64, "")
    assert "--replay" in done.err
    assert "found 1; expected from" in " ".join(done.err.replace("│", "").split())


def test_a_report_and_the_certificate_of_a_verdict_about_replays_tell_what_could_be_replayed(
    past: None, space: Path, seedbed: Seedbed
) -> None:
    done = seedbed(*COMPARE, "--replay", "24", "--mode", "fork:1", "-o", "report.md")
    assert done.code == 0
    assert "wrote report.md" in done.out
    report = (space / "report.md").read_text(encoding="utf-8")
    assert "## Replays" in report
    assert "24 of 24 can be replayed for both playbooks" in report
    (verdict,) = (fact for fact in held()[1] if fact.kind == "verdict")
    shown = seedbed("evidence", "show", verdict.key[3:15])
    assert shown.code == 0
    for told in ("replay coverage", "24 of 24 can be replayed for both playbooks", "fork:1"):
        assert told in shown.out
    document = seedbed("evidence", "show", verdict.key[3:15], "--json").json
    assert document["coverage"]["steps"]["candidate"] == {"turn": {"live": 24}}
    assert document["flags"]["replay_coverage"] is True


def test_a_few_live_runs_and_many_replays_give_an_estimate_that_is_no_verdict(
    past: None, space: Path, seedbed: Seedbed
) -> None:
    write(space, half__yaml=SORTER.replace("Message: {text}", "Good or bad?"))  # always bad, which is so half the time
    sampled = ("--on", "tasks.jsonl", "--replay", "40")
    live = ("compare", "sorter.yaml", "half.yaml", *sampled, "--mode", "fork:1", "--live-runs", "20")
    done = seedbed(*live, "--json")
    assert keeps_promise(done.json, "compare", form="JSON with --live-runs")
    estimate = done.json["estimate"]
    assert (done.code, estimate["kind"], estimate["says"]) == (0, "estimate", "better")
    assert (estimate["replayed"], estimate["live"]) == (40, 20)
    assert estimate["difference"]["low"] > 0
    told = seedbed(*live)
    assert told.code == 0
    assert told.out.startswith("estimate: live runs of half.yaml would be better than those of sorter.yaml\n")
    for words in ("not a verdict", "together", "live runs alone", "replays alone"):
        assert words in told.out
    assert facts("verdict") == facts("comparison") == 0
    few = seedbed("compare", "sorter.yaml", "same.yaml", *sampled, "--live-runs", "2")
    assert few.code == 2
    assert "too few live runs to tell" in few.out


def test_live_runs_beside_replays_cost_no_more_than_was_said(space: Path, seedbed: Seedbed) -> None:
    dear(space)
    assert seedbed("evaluate", "sorter.yaml", "tasks.jsonl").code == 0
    before = sum(fact.body["cost_usd"] for fact in held()[1] if fact.kind == "turn")
    live = (*COMPARE, "--replay", "20", "--mode", "fork:1", "--live-runs", "5", "--json")
    done = seedbed(*live, "--max-cost", "42")
    assert (done.code, done.out) == (2, "")
    assert json.loads(done.err)["error"] == "BudgetSpent"
    assert sum(fact.body["cost_usd"] for fact in held()[1] if fact.kind == "turn") - before <= 42
    assert seedbed(*live, "--max-cost", "100").json["estimate"]["live"] == 5


def test_another_first_replicate_is_run_anew(past: None, seedbed: Seedbed) -> None:
    known = facts("run")
    assert seedbed(*SAME, "--json").json["tasks"] == 40
    assert facts("run") == known + 40
    assert seedbed(*SAME, "--first-replicate", "1", "--json").json["tasks"] == 40
    assert facts("run") == known + 120


def test_runs_of_another_time_are_left_out(past: None, seedbed: Seedbed) -> None:
    done = seedbed(*COMPARE, "--replay", "20", "--since", "2999-01-01")
    assert done.code == 1
    assert "a longer time" in done.err


def test_tags_are_planned_for_looked_at_and_shown(space: Path, seedbed: Seedbed) -> None:
    rows = [{**json.loads(line), "tags": ["mail"]} for line in tasks(60).splitlines()]
    write(
        space,
        tasks__jsonl="".join(f"{json.dumps(row)}\n" for row in rows),
        seedbed__yaml=WORKSPACE.replace("rules_kept]", "rules_kept, no_slice_worse]"),
    )
    assert seedbed("release", "sorter.yaml", "--to", "production", "--because", "the first one").code == 0
    assert "if superior, up to 60 tasks in all" in " ".join(seedbed(*COMPARE, "--plan").out.split())
    done = seedbed(*COMPARE, "--json")
    assert keeps_promise(done.json, "compare")
    assert [(each["tag"], each["finding"]) for each in done.json["slices"]["tags"]] == [("mail", "not worse")]
    shown = seedbed("experiment", "show", done.json["experiment"][3:13])
    assert "worse on none of 1 tag" in shown.out
    assert facts("slices") == 1
    assert seedbed("release", "better.yaml", "--to", "production").code == 0
