"""What work would take is printed before it is paid for, and how to go on when it is interrupted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import EVOLVE, WORKSPACE, Seedbed, held, keeps_promise, write

AGENT = """\
import asyncio, os, signal
from pathlib import Path


async def handle(task, stage):
    await stage.ask("sorter", task["text"])
    if not Path("calm").exists():
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    return (await stage.ask("sorter", "Good or bad?")).text
"""


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        (("run", "sorter.yaml", "text=hello"), 1),
        (("evaluate", "sorter.yaml", "tasks.jsonl", "--replicates", "2"), 24),
        (("compare", "sorter.yaml", "other.yaml", "--on", "tasks.jsonl"), 24),
    ],
    ids=["run", "evaluate", "compare"],
)
def test_a_dry_run_estimates_and_pays_nothing(
    command: tuple[str, ...], runs: int, space: Path, seedbed: Seedbed
) -> None:
    write(space, other__yaml=(space / "sorter.yaml").read_text().replace("Message", "Text"))
    before = held()
    by_steps = seedbed(*command, "--dry-run", "--json")
    assert keeps_promise(by_steps.json, command[0], form="JSON with --dry-run")
    counted = [by_steps.json[name] for name in ("runs", "calls", "as_runs")]
    assert (by_steps.code, counted) == (0, [runs, runs, 0])
    assert by_steps.json["usd"] > 0
    assert held() == before
    assert "if each step runs once" in seedbed(*command, "--dry-run").out


LABELS = "".join(f'{{"inputs": {{"text": "{n}"}}, "expected": "good", "output": "good", "label": 1}}\n' for n in (1, 2))
JUDGE = "metrics:\n  same: {judge: reference, model: local}\n"
SUITE = "datasets:\n  mail: {tasks: tasks.jsonl}\n"


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        (("judge", "check", "same", "labels.jsonl"), 2),
        (("channel", "drill", "production", "tasks.jsonl", "--units", "7"), 7),
        (("evaluate", "--suite", ".", "sorter.yaml"), 12),
        (("runs", "replay", "RUN", "--mode", "fork:1"), 1),
        (("runs", "replay", "RUN"), 0),
        (("run", "--resume", "RUN"), 1),
        (("evolve", "sorter.yaml", "tasks.jsonl", "--confirm", "none", "--budget", "$1"), None),
    ],
    ids=["judge check", "drill", "suite", "replay", "strict replay", "resume", "evolve"],
)
def test_every_paid_command_can_be_tried_dry(
    command: tuple[str, ...], runs: int | None, space: Path, seedbed: Seedbed
) -> None:
    settings = WORKSPACE.replace("channels:", f"{JUDGE}channels:").replace("[better, held_out, rules_kept]", "[]")
    write(space, labels__jsonl=LABELS, suite__yaml=SUITE, seedbed__yaml=settings)
    run = seedbed("run", "sorter.yaml", "text=a", "--json").json["run"]
    assert seedbed("release", "sorter.yaml", "--to", "production", "--because", "first").code == 0
    before = held()
    done = seedbed(*(run if word == "RUN" else word for word in command), "--dry-run", "--json")
    assert done.code == 0, done.err
    estimate = done.json.get("estimate", done.json)
    if runs is None:
        assert estimate["usd"] == pytest.approx(1.0, rel=0.1)
    else:
        assert estimate["runs"] == runs
    assert held() == before


def test_an_estimate_is_the_mean_of_earlier_runs(space: Path, seedbed: Seedbed) -> None:
    costs = [seedbed("run", "sorter.yaml", f"text={text}", "--json").json["cost_usd"] for text in ("a", "a b c d")]
    estimate = seedbed("evaluate", "sorter.yaml", "tasks.jsonl", "--dry-run", "--json").json
    assert estimate["as_runs"] == 2
    assert estimate["usd"] == pytest.approx(12 * sum(costs) / 2)
    assert "based on its last 2 runs" in seedbed("evaluate", "sorter.yaml", "tasks.jsonl", "--dry-run").out


def test_a_search_shares_the_estimate(split: Path, seedbed: Seedbed) -> None:
    done = seedbed(*EVOLVE, "--budget", "60 runs", "--dry-run", "--json").json
    assert (done["estimate"]["runs"], done["estimate"]["calls"]) == (60, 60)
    assert "would take at most 60 runs, 60 calls" in seedbed(*EVOLVE, "--budget", "60 runs", "--dry-run").out


def test_an_interrupted_run_prints_the_command_that_goes_on_and_lists_agree_on_its_cost(
    space: Path, seedbed: Seedbed
) -> None:
    agent = "program: stopped_agent:handle\nroles:\n  sorter: {model: local}\n"
    write(space, stopped_agent__py=AGENT, stopped__yaml=agent)
    stopped = seedbed("run", "stopped.yaml", "text=hello")
    assert stopped.code == 130
    (command,) = re.findall(r"To continue: seedbed (run --resume \w+)", " ".join(stopped.err.split()))
    (listed,) = seedbed("runs", "list", "--json").json["runs"]
    shown = seedbed("runs", "show", listed["run"], "--json").json
    assert listed["cost_usd"] == shown["cost_usd"] > 0
    assert listed["tokens"] == shown["tokens"] > 0
    write(space, calm="")
    done = seedbed(*command.split(), "--json").json
    (listed,) = seedbed("runs", "list", "--json").json["runs"]
    assert listed["cost_usd"] == done["cost_usd"] > shown["cost_usd"]


SEARCHED = """\
import asyncio, os, signal
from pathlib import Path


async def handle(task, stage):
    if "item 9" in task["text"] and not Path("calm").exists():
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    return "good"
"""


def test_an_interrupted_search_prints_the_command_that_goes_on(split: Path, seedbed: Seedbed) -> None:
    agent = "program: searched_agent:handle\nparameters:\n  caution: {value: 0.5, low: 0.0, high: 1.0}\n"
    write(split, searched_agent__py=SEARCHED, searched__yaml=agent, seedbed__yaml=WORKSPACE)
    search = ("evolve", "searched.yaml", "train.jsonl", "--budget", "300 runs", "--confirm", "none")
    stopped = subprocess.run([sys.executable, "-m", "seedbed", *search], capture_output=True, text=True, check=False)
    assert stopped.returncode == 130
    (command,) = re.findall(r"To continue: seedbed (evolve --resume b2:\w+)", " ".join(stopped.stderr.split()))
    write(split, calm="")
    assert seedbed(*command.split(), "--json").code in (0, 2)
