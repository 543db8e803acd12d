"""Runs as documents for people and programs: JSON, Markdown and a web page of its own."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict

from seedbed.runs.run import Child, Failure, Run, Turn
from seedbed.storage.store import Json, Query, Store, canonical, short

COSTS = ("model", "turns", "tokens", "US$", "seconds", "waited")
CHILDREN = ("run", "opened by", "status", "tokens", "US$", "outcome")
ROUTING = ("step", "model", "chance", "because", "considered")


def routings(store: Store, run: str) -> list[Json]:
    """How the models of a run were chosen, where nobody named one."""
    return [fact.body for fact in store.facts(Query(kind="routing", subject=run))]


def to_document(run: Run, routing: Sequence[Json] = ()) -> Json:
    """Everything about a run as JSON can hold it; `routing` is what `routings` gives."""
    return {**asdict(run), "started": run.started.isoformat(), "routing": list(routing)}


def to_json(run: Run, routing: Sequence[Json] = ()) -> str:
    return json.dumps(to_document(run, routing), ensure_ascii=False, indent=2) + "\n"


def to_markdown(run: Run, routing: Sequence[Json] = ()) -> str:
    """A run to read: the task, every turn, the outcome, what it cost by model, and how models were chosen."""
    parts = [f"# Run {run.id[:10]}", _told(run)]
    parts += [f"## {_title(turn)}\n\n{_quoted(turn)}{turn.text.strip() or '*nothing*'}" for turn in run.turns]
    if run.calls:
        rows = [(each.tool, canonical(each.arguments), each.error or canonical(each.result)) for each in run.calls]
        parts.append("## Tools\n\n" + _table(("tool", "asked", "answered"), rows))
    if run.decisions:
        rows = [(each.point, each.action, each.because) for each in run.decisions]
        parts.append("## Decisions\n\n" + _table(("point", "action", "because"), rows))
    if run.children:
        parts.append("## Runs it opened\n\n" + _table(CHILDREN, children(run)))
    parts.append(f"## Outcome\n\n{outcome(run)}")
    parts.append("## Costs\n\n" + _table(COSTS, costs(run)))
    if routing:
        parts.append("## Routing\n\n" + _table(ROUTING, choices(routing)))
    return "\n\n".join(parts) + "\n"


def to_html(run: Run, routing: Sequence[Json] = ()) -> str:
    """The same as one page that asks nothing of anybody: no script, no font, no picture from elsewhere."""
    turns = "".join(
        f"<section><h2>{_safe(_title(turn))}</h2>{_notices(turn)}<details><summary>asked</summary>"
        + "".join(f"<p><b>{_safe(who)}</b></p><pre>{_safe(text)}</pre>" for who, text in turn.messages)
        + f"</details><pre class=said>{_safe(turn.text)}</pre></section>"
        for turn in run.turns
    )
    opened = f"<h2>Runs it opened</h2>{_grid(CHILDREN, children(run), 'words')}" if run.children else ""
    chosen = f"<h2>Routing</h2>{_grid(ROUTING, choices(routing), 'words')}" if routing else ""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Run {run.id[:10]}</title><style>{_STYLE}</style>"
        f"<h1>Run {run.id[:10]}</h1><pre>{_safe(_told(run))}</pre>{turns}{opened}"
        f"<section><h2>Outcome</h2><pre class=said>{_safe(outcome(run))}</pre></section>"
        f"<h2>Costs</h2>{_grid(COSTS, costs(run), 'numbers')}{chosen}</html>\n"
    )


FORMATS: Mapping[str, Callable[[Run, Sequence[Json]], str]] = {
    "json": to_json,
    "markdown": to_markdown,
    "html": to_html,
}


def costs(run: Run) -> list[tuple[str, ...]]:
    """What each model did and took, the dearest first, then what got no answer and the runs it opened, and the sum."""
    by_model: dict[str, list[Turn]] = {}
    for turn in run.turns:
        by_model.setdefault(turn.model, []).append(turn)
    groups = sorted(by_model.items(), key=lambda group: -sum(turn.cost_usd for turn in group[1]))
    tokens, usd = _sums(run.children)
    lost_tokens, lost_usd = _sums(run.failures)
    rows = [_cost(name, turns) for name, turns in groups]
    if run.failures:
        rows.append(("not answered", "–", f"{lost_tokens:,}", f"{lost_usd:.4f}", "–", "–"))
    if run.children:
        rows.append(("runs it opened", "–", f"{tokens:,}", f"{usd:.4f}", "–", "–"))
    return [*rows, _cost("all", run.turns, tokens + lost_tokens, usd + lost_usd)]


def _sums(used: Sequence[Child] | Sequence[Failure]) -> tuple[int, float]:
    return sum(each.tokens for each in used), sum(each.cost_usd for each in used)


def _cost(name: str, turns: Sequence[Turn], tokens: int = 0, usd: float = 0.0) -> tuple[str, ...]:
    tokens += sum(turn.tokens for turn in turns)
    usd += sum(turn.cost_usd for turn in turns)
    seconds, waited = (sum(getattr(turn, field) for turn in turns) for field in ("latency_seconds", "waited_seconds"))
    return (name, str(len(turns)), f"{tokens:,}", f"{usd:.4f}", f"{seconds:.2f}", f"{waited:.2f}")


def children(run: Run) -> list[tuple[str, ...]]:
    """The runs that this one opened, with how they ended and what they took."""
    return [
        (each.run[:10], each.step, each.status, f"{each.tokens:,}", f"{each.cost_usd:.4f}", outcome(each))
        for each in run.children
    ]


def choices(routing: Iterable[Json]) -> list[tuple[str, ...]]:
    """Each choice of a model: for which step, with which chance, why, and what became of the others."""
    return [
        (each["step"], each["model"], f"{each['propensity']:.0%}", each["because"], _considered(each))
        for each in routing
    ]


def _considered(choice: Json) -> str:
    others = [each for each in choice["considered"] if each["model"] != choice["model"]]
    return "; ".join(f"{each['model']}: {each['rejected'] or _expected(each)}" for each in others) or "no other"


def _expected(other: Json) -> str:
    quality = "" if other["expected"] is None else f"expected {other['expected']:.2f}, "
    return f"{quality}chance {other['chance']:.0%}"


def _told(run: Run) -> str:
    inputs = "\n".join(f"- {name}: {value}" for name, value in run.inputs.items()) or "- nothing"
    return (
        f"Playbook {short(run.playbook)}, seed {run.seed}, started {run.started:%Y-%m-%d %H:%M} UTC, "
        f"{run.status}.\n\n{inputs}"
    )


def outcome(run: Run | Child) -> str:
    """What came of a run: its output as text, or what went wrong."""
    if run.error:
        return run.error
    return run.output if isinstance(run.output, str) else canonical(run.output)


def _title(turn: Turn) -> str:
    return f"{turn.step or turn.role} · {turn.role} · {turn.model}"


def _quoted(turn: Turn) -> str:
    return "".join(f"> {notice}\n\n" for notice in turn.notices)


def _notices(turn: Turn) -> str:
    return "".join(f"<p class=notice>{_safe(notice)}</p>" for notice in turn.notices)


def _grid(heads: Iterable[str], rows: Iterable[Iterable[str]], kind: str) -> str:
    top = "".join(f"<th>{_safe(name)}</th>" for name in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{_safe(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table class={kind}><tr>{top}</tr>{lines}</table>"


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
    "td,th{padding:.2rem .8rem;text-align:left;vertical-align:top}"
    ".numbers td:not(:first-child),.numbers th:not(:first-child){text-align:right}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#222}pre.said{background:#1d2a1e}}"
)
