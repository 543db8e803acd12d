"""Logs and records of sessions, made up, in the form in which an agent elsewhere writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RULE = "=" * 60

LOG = f"""\
Session: s-tea
Model: small
URL: https://example.org/s-tea
{RULE}


{RULE}
TASK: t-1 (buy_tea)
TEXT: Buy tea.
Green, if there is some.
{RULE}

--- step_1 ---
time: 1.5s elapsed, step took 1.5s
tokens: step=100 (completion=20), task=100, session=100
current_state: Nothing is known.
plan: ['Look.', "Buy what's there."]
task_completed: False
function: look
  args: {{"shelf":"tea"}}
  result: {{"found":["green"]}}

--- step_2 RATE_LIMIT (attempt 1/5) ---

--- step_2 ---
time: 1.2s elapsed, step took -0.3s
tokens: step=110 (completion=10), task=210, session=210
function: report
  args: {{"code":"completed"}}
  BLOCKED: Look again first

--- step_3 ---
time: 2.0s elapsed, step took 0.8s
tokens: step=120 (completion=10), task=330, session=330
function: report
  args: not JSON
COMPLETED: completed
Summary: ['Looked.', "Bought what's there."]
Task stats: 2.0s, 330 tokens (prompt: 290, completion: 40)
Session stats: 330 tokens total

SCORE: 0.0
FAIL: green tea is bought
  black tea was

{RULE}
TASK: t-2 (buy_nothing)
TEXT: Buy nothing.
{RULE}

COMPLETED: failed
Task stats: 0.5s, 20 tokens (prompt: 19, completion: 1)
Session stats: 350 tokens total
"""


def log(scores: Mapping[str, float | None], name: str = "s") -> str:
    """A log of tasks without steps, with these scores or none."""
    parts = [f"Session: {name}\nModel: small\n{RULE}\n"]
    for task, score in scores.items():
        parts.append(f"{RULE}\nTASK: {name}-{task} ({task})\nTEXT: Do {task}.\n{RULE}\nCOMPLETED: completed\n")
        parts += [f"SCORE: {score}\n"] if score is not None else []
    return "\n".join(parts)


def record(name: str, scores: Mapping[str, float | None], **more: Any) -> dict[str, Any]:
    return {
        "session_id": name,
        "config": {"model_id": "small"},
        "token_statistics": {"prompt": 90, "completion": 10, "total": 100},
        "session_log": log(scores, name),
        **more,
    }


def history(folder: Path, *records: Any) -> Path:
    file = folder / "sessions_history.json"
    file.write_text(json.dumps(records), encoding="utf-8")
    return file


def outcomes(signs: str, side: str) -> dict[str, float | None]:
    """Scores of one side by a sign for each task: + B is better, - it is worse, = equal, ? B has no score."""
    scores: dict[str, tuple[float, float | None]] = {"+": (0, 1), "-": (1, 0), "=": (1, 1), "?": (0, None)}
    return {f"task_{n}": scores[sign][side == "b"] for n, sign in enumerate(signs)}
