"""seedbed runs screen: from decisions that real runs made, to what to try next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Seedbed, held, keeps_promise, write

WORKSPACE = """\
store: sqlite:///seedbed.db
by: ann
models:
  local:
    use: scripted
    args: {replies: {"^ask": paid, "[0-3]$": paid, ".": unknown}}
"""
PROGRAM = """\
async def sort(task, stage):
    asks = await stage.random() < 0.4
    way = await stage.decide("way", "ask" if asks else "go", because="by chance", propensity=0.4 if asks else 0.6)
    await stage.decide("tone", "kind", because="always")
    return (await stage.ask("clerk", f"{way}: {task['text']}")).text


def eager(at):
    return {"ask": 0.9, "go": 0.1} if at.inputs["text"] else {"go": 1.0}
"""
CLERK = """\
roles:
  clerk: {model: local}
program: screened_clerk:sort
"""


def mail(count: int) -> str:
    rows = [{"id": f"m{n}", "inputs": {"text": f"Letter {n}"}, "expected": "paid"} for n in range(count)]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture
def clerk(tmp_path: Path, prepared: Seedbed) -> Path:
    """A workspace in which a clerk asked or went on by chance, and who asks is right."""
    files = {"seedbed__yaml": WORKSPACE, "screened_clerk__py": PROGRAM, "clerk__yaml": CLERK}
    chances = {"eager__json": '{"ask": 0.9, "go": 0.1}', "never__json": '{"go": 1}', "typo__json": '{"aks": 1}'}
    write(tmp_path, mail__jsonl=mail(200), few__jsonl=mail(20), **files, **chances)
    assert prepared("evaluate", "clerk.yaml", "mail.jsonl").code == 0
    return tmp_path


def test_a_candidate_is_screened_and_told_what_to_do_with(clerk: Path, seedbed: Seedbed) -> None:
    before = held()
    done = seedbed("runs", "screen", "way", "--policy", "eager.json", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "runs", "screen")
    assert done.json["finding"] == "promising"
    best = done.json["estimates"][0]
    assert best["low"] <= 0.94 <= best["high"]  # 0.9 of those who ask, and 0.4 of the others
    assert done.json["decisions"] == done.json["runs"] == 200
    told = seedbed("runs", "screen", "way", "--policy", "eager.json").out
    for words in ("promising", "seedbed compare", f"{best['mean']:.3f}", "effective sample size", "coverage"):
        assert words in told
    function = seedbed("runs", "screen", "way", "--policy", "screened_clerk:eager", "--json")
    assert function.json == done.json
    worse = seedbed("runs", "screen", "way", "--policy", "never.json", "--playbook", "clerk.yaml", "--json")
    assert (worse.code, worse.json["finding"]) == (0, "unpromising")
    assert held() == before


def test_a_log_that_cannot_carry_it_is_refused_with_reasons_and_no_estimate(clerk: Path, seedbed: Seedbed) -> None:
    done = seedbed("runs", "screen", "way", "--policy", "eager.json", "--on", "few.jsonl")
    assert done.code == 2
    assert "estimator" not in done.out
    for words in ("refused", "effective sample size", "of 20 logged", "Try the candidate live"):
        assert words in " ".join(done.out.split())
    done = seedbed("runs", "screen", "way", "--policy", "typo.json", "--json")
    assert done.code == 2
    assert (done.json["finding"], done.json["estimates"], done.json["coverage"]) == ("refused", [], 0.0)
    assert done.json["refusals"][0].startswith('policy: found "aks", never taken at "way"; expected one of: ask, go')


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("wya", "--policy", "eager.json"), 1, 'no run decided at "wya". Points with recorded chances: "way"'),
        (("tone", "--policy", "eager.json"), 1, "found no chance in 200 runs"),
        (("way", "--policy", "eager.json", "--since", "2999-01-01"), 1, "no run since then is recorded here"),
        (("way", "--policy", "eager.json", "--metric", "outcome"), 1, "without a score by outcome"),
        (("way", "--policy", "none.json"), 1, "No such file"),
        (("way", "--policy", "eager"), 1, "a file.json, a file.jsonl or module:function"),
        (("way", "--policy", "eager.json", "--since", "soon"), 64, "expected a date or time"),
        (("way", "--policy", "eager.json", "--metric", "exact"), 64, "exact_match"),
        (("way",), 64, "--policy"),
    ],
)
def test_what_is_missing_is_said(
    words: tuple[str, ...], code: int, message: str, clerk: Path, seedbed: Seedbed
) -> None:
    done = seedbed("runs", "screen", *words)
    assert done.code == code
    assert message in " ".join(done.err.split())
