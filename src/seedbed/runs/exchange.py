"""Runs as documents for people and programs: JSON, Markdown and a web page of its own."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict

from seedbed.runs.run import Run, Turn
from seedbed.storage.store import Json, canonical, short


def to_document(run: Run) -> Json:
    """Everything about a run as JSON can hold it."""
    return {**asdict(run), "started": run.started.isoformat()}


def to_json(run: Run) -> str:
    return json.dumps(to_document(run), ensure_ascii=False, indent=2) + "\n"


def to_markdown(run: Run) -> str:
    """A run to read: the task, every turn, the outcome, and what it cost by model."""
    parts = [f"# Run {run.id[:10]}", _told(run)]
    parts += [f"## {_title(turn)}\n\n{_quoted(turn)}{turn.text.strip() or '*nothing*'}" for turn in run.turns]
    if run.calls:
        rows = [(each.tool, canonical(each.arguments), each.error or canonical(each.result)) for each in run.calls]
        parts.append("## Tools\n\n" + _table(("tool", "asked", "answered"), rows))
    if run.decisions:
        rows = [(each.point, each.action, each.because) for each in run.decisions]
        parts.append("## Decisions\n\n" + _table(("point", "action", "because"), rows))
    parts.append(f"## Outcome\n\n{_outcome(run)}")
    parts.append("## Costs\n\n" + _table(("model", "turns", "tokens", "US$", "seconds", "waited"), costs(run)))
    return "\n\n".join(parts) + "\n"


def to_html(run: Run) -> str:
    """The same as one page that asks nothing of anybody: no script, no font, no picture from elsewhere."""
    turns = "".join(
        f"<section><h2>{_safe(_title(turn))}</h2>{_notices(turn)}<details><summary>asked</summary>"
        + "".join(f"<p><b>{_safe(who)}</b></p><pre>{_safe(text)}</pre>" for who, text in turn.messages)
        + f"</details><pre class=said>{_safe(turn.text)}</pre></section>"
        for turn in run.turns
    )
    rows = "".join(f"<tr>{''.join(f'<td>{_safe(cell)}</td>' for cell in row)}</tr>" for row in costs(run))
    heads = "".join(f"<th>{name}</th>" for name in ("model", "turns", "tokens", "US$", "seconds", "waited"))
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Run {run.id[:10]}</title><style>{_STYLE}</style>"
        f"<h1>Run {run.id[:10]}</h1><pre>{_safe(_told(run))}</pre>{turns}"
        f"<section><h2>Outcome</h2><pre class=said>{_safe(_outcome(run))}</pre></section>"
        f"<h2>Costs</h2><table><tr>{heads}</tr>{rows}</table></html>\n"
    )


FORMATS: Mapping[str, Callable[[Run], str]] = {"json": to_json, "markdown": to_markdown, "html": to_html}


def costs(run: Run) -> list[tuple[str, ...]]:
    """What each model did and took, the dearest first, and all of it together."""
    by_model: dict[str, list[Turn]] = {}
    for turn in run.turns:
        by_model.setdefault(turn.model, []).append(turn)
    groups = sorted(by_model.items(), key=lambda group: -sum(turn.cost_usd for turn in group[1]))
    return [_cost(name, turns) for name, turns in (*groups, ("all", list(run.turns)))]


def _cost(name: str, turns: list[Turn]) -> tuple[str, ...]:
    tokens = sum(turn.prompt_tokens + turn.completion_tokens for turn in turns)
    usd, seconds, waited = (
        sum(getattr(turn, field) for turn in turns) for field in ("cost_usd", "latency_seconds", "waited_seconds")
    )
    return (name, str(len(turns)), f"{tokens:,}", f"{usd:.4f}", f"{seconds:.2f}", f"{waited:.2f}")


def _told(run: Run) -> str:
    inputs = "\n".join(f"- {name}: {value}" for name, value in run.inputs.items()) or "- nothing"
    return (
        f"Playbook {short(run.playbook)}, seed {run.seed}, started {run.started:%Y-%m-%d %H:%M} UTC, "
        f"{run.status}.\n\n{inputs}"
    )


def _outcome(run: Run) -> str:
    if run.error:
        return run.error
    return run.output if isinstance(run.output, str) else canonical(run.output)


def _title(turn: Turn) -> str:
    return f"{turn.step or turn.role} · {turn.role} · {turn.model}"


def _quoted(turn: Turn) -> str:
    return "".join(f"> {notice}\n\n" for notice in turn.notices)


def _notices(turn: Turn) -> str:
    return "".join(f"<p class=notice>{_safe(notice)}</p>" for notice in turn.notices)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(heads)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _safe(text: str) -> str:
    return html.escape(text)


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "pre{white-space:pre-wrap;font:inherit;background:#f6f6f4;padding:.6rem .8rem;border-radius:6px}"
    "pre.said{background:#eef6ee;border-left:4px solid #2e7d32}.notice{color:#8a4b00}"
    "td,th{padding:.2rem .8rem;text-align:right}td:first-child,th:first-child{text-align:left}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#222}pre.said{background:#1d2a1e}}"
)
