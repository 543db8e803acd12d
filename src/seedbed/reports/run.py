"""The report of a run: JSON, Markdown, a web page and a PDF."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from seedbed.errors import amount
from seedbed.playbooks.library import names_of
from seedbed.reports import formats, markdown, pdf
from seedbed.reports.numbers import TableRow, counted
from seedbed.reports.page import Badge, Fold, PagePart, PageTable, Prose, ReportPage, Tile, Verbatim, section
from seedbed.reports.pdf import PdfReport
from seedbed.reports.timeline import TimelineRow, timeline, timeline_section
from seedbed.runs.run import Child, Failure, Run, Turn
from seedbed.storage.store import Json, Query, Store, canonical, short

COSTS = ("model", "turns", "tokens", "US$", "seconds", "waited")
CHILDREN = ("run", "opened by", "status", "tokens", "US$", "outcome")
ROUTING = ("step", "model", "chance", "because", "considered")
CALLS = ("tool", "arguments", "result")
DECISIONS = ("point", "action", "because")

BADGES = {
    "completed": Badge("good", "✓ completed"),
    "running": Badge("open", "… running"),
    "cost_limited": Badge("bad", "✗ stopped by its cost limit"),
    "failed": Badge("bad", "✗ failed"),
}

LONGEST_WORD = 40
LONGEST_IN_CELL = 16
"""Longer words, such as addresses, may be broken on paper: beyond the edge they would be lost."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, how its models were chosen where the playbook names none, the name of its playbook if it has one, and when
    its steps happened."""

    run: Run
    routing: Sequence[Json] = ()
    playbook: str = ""
    timeline: Sequence[TimelineRow] = ()

    @property
    def title(self) -> str:
        return f"Run of {self.playbook}" if self.playbook else f"Run {short(self.run.id)}"

    @property
    def about(self) -> str:
        run = self.run
        started = f"seed {run.seed}, started {run.started:%Y-%m-%d %H:%M} UTC, {run.ending}"
        return f"Run {short(run.id)}, playbook {short(run.playbook)}, {started}"


def export(run: Run, to: str | Path, *, store: Store | None = None) -> str | bytes | Path:
    """A run as json, md, html or pdf, or in a file that ends so. Its store knows how its models were chosen, and the
    name of its playbook."""
    view = RunView(run, timeline=timeline(run)) if store is None else view_of(store, run)
    return formats.export(view, {"json": to_json, "md": to_markdown, "html": to_html, "pdf": _pdf}, to)


def view_of(store: Store, run: Run) -> RunView:
    return RunView(run, routings(store, run.id), names_of(store).get(run.playbook, ""), timeline(run, store))


def routings(store: Store, run: str) -> list[Json]:
    """How the models of a run were chosen, where the playbook names none."""
    return [fact.body for fact in store.facts(Query(kind="routing", subject=run))]


def to_document(view: RunView) -> Json:
    """A whole run as JSON can hold it."""
    run = view.run
    more: Json = {
        name: [asdict(each) | each.times for each in getattr(run, name)] for name in ("calls", "decisions", "children")
    }
    more |= {"turns": [turn.body() for turn in run.turns], "started": run.started.isoformat()}
    more |= {"routing": list(view.routing), "converged_at": run.converged_at}
    return {**asdict(replace(run, turns=())), **more}


def page_of(view: RunView) -> ReportPage:
    """The outcome first, then the task, every turn, and what it cost."""
    run = view.run
    seconds = f"{run.latency_seconds:.2f} s"
    return ReportPage(
        title=view.title,
        subtitle=view.about,
        badge=BADGES[run.status],
        tiles=[
            Tile("turns", f"{len(run.turns):,}", counted(len(run.calls), "tool call")),
            Tile("tokens", f"{run.tokens:,}", "with the runs that it opened"),
            Tile("cost", f"${run.cost_usd:.4f}", _priced(run, "with what failed")),
            Tile("latency", seconds, "of the models"),
        ],
        parts=[
            *section("Outcome", Verbatim(outcome(run) or "nothing")),
            *section("Task", *_task(run)),
            *timeline_section(view.timeline),
            *(part for turn in run.turns for part in _turn(turn)),
            *_table("Tools", CALLS, calls(run)),
            *_table("Decisions", DECISIONS, decisions(run)),
            *_table("Runs it opened", CHILDREN, children(run)),
            *section("Costs", PageTable(COSTS, costs(run), numbers=True)),
            *_table("Routing", ROUTING, choices(view.routing)),
        ],
    )


def _task(run: Run) -> list[PagePart]:
    rows = [(name, _text(value)) for name, value in run.inputs.items()]
    return [PageTable(("input", "value"), rows)] if rows else [Prose("No inputs.")]


def _turn(turn: Turn) -> list[PagePart]:
    messages: list[PagePart] = []
    for speaker, text, *_ in turn.messages:
        messages += [Prose(speaker), Verbatim(text, "text")]
    heading = f"{turn.step or turn.role} · {turn.role} · {turn.model}"
    prompt = [Fold("Prompt", messages)] if messages else []
    requested = [Verbatim(f"{each['tool']} {canonical(each['arguments'])}", "text") for each in turn.calls]
    answer = [Verbatim(turn.text)] if turn.text.strip() else [] if requested else [Prose("No text.")]
    return [*section(heading, *map(Prose, turn.notices), *answer, *requested, *prompt)]


def _table(heading: str, heads: Sequence[str], rows: Sequence[TableRow]) -> list[PagePart]:
    return [*section(heading, PageTable(heads, rows))] if rows else []


# Rows of tables


def calls(run: Run) -> list[TableRow]:
    return [(each.tool, canonical(each.arguments), each.error or canonical(each.result)) for each in run.calls]


def decisions(run: Run) -> list[TableRow]:
    return [(each.point, each.action, each.because) for each in run.decisions]


def costs(run: Run) -> list[TableRow]:
    """What each model did and cost, the most expensive first, then failed turns and opened runs, and the sum."""
    by_model: dict[str, list[Turn]] = {}
    for turn in run.turns:
        by_model.setdefault(turn.model, []).append(turn)
    groups = sorted(by_model.items(), key=lambda group: -sum(turn.cost_usd for turn in group[1]))
    rows = [_cost(name, turns, turns) for name, turns in groups]
    if run.failures:
        rows.append((*_cost("not answered", [], run.failures)[:4], "–", "–"))
    if run.children:
        rows.append((*_cost("runs it opened", [], run.children)[:4], "–", "–"))
    return [*rows, _cost("all", run.turns, [*run.turns, *run.failures, *run.children])]


def _cost(name: str, turns: Sequence[Turn], paid: Sequence[Turn | Failure | Child]) -> TableRow:
    tokens, usd, unpriced = (sum(getattr(each, field) for each in paid) for field in ("tokens", "cost_usd", "unpriced"))
    seconds, waited = (sum(getattr(turn, field) for turn in turns) for field in ("latency_seconds", "waited_seconds"))
    cost = amount(usd, unpriced, "{:.4f}".format)
    return (name, str(len(turns) or "–"), f"{tokens:,}", cost, f"{seconds:.2f}", f"{waited:.2f}")


def _priced(run: Run, about: str) -> str:
    """A remark about the cost of a run, or that it is the least that it can be."""
    return f"at least: {counted(run.unpriced, 'call')} of unknown price" if run.unpriced else about


def children(run: Run) -> list[TableRow]:
    """The runs that this one opened, how they ended and what they cost."""
    return [
        (short(each.run), each.step, each.status, f"{each.tokens:,}", _usd(each), outcome(each))
        for each in run.children
    ]


def _usd(each: Run | Turn | Child) -> str:
    return amount(each.cost_usd, each.unpriced, "{:.4f}".format)


def choices(routing: Iterable[Json]) -> list[TableRow]:
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


def outcome(run: Run | Child) -> str:
    """The output of a run as text, or its error."""
    return run.error or _text(run.output)


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)


# PDF


def _pdf(view: RunView) -> bytes:
    return to_pdf(view).pdf


def to_pdf(view: RunView) -> PdfReport:
    """A run on paper. Raises SettingsError where typst is missing."""
    run = view.run
    tables = [
        _paper_table("Tools", CALLS, calls(run), (0, 1, 1), before=True),
        _paper_table("Decisions", DECISIONS, decisions(run), (1, 1, 2), before=True),
        _paper_table("Runs it opened", CHILDREN, children(run), (0, 1, 0, 0, 0, 3), (3, 4), before=True),
        _paper_table("Costs", COSTS, costs(run), (1, 0, 0, 0, 0, 0), (1, 2, 3, 4, 5)),
        _paper_table("Routing", ROUTING, choices(view.routing), (2, 2, 0, 4, 4), (2,)),
    ]
    document = {
        "title": view.title,
        "about": f"{view.about}: {run.tokens:,} tokens, US$ {_usd(run)}, {run.latency_seconds:.2f} s",
        "task": [{"name": name, "value": _paragraphs(_text(value))} for name, value in run.inputs.items()],
        "turns": [_paper_turn(turn) for turn in run.turns],
        "outcome": _paragraphs(outcome(run)),
        "failed": bool(run.error),
        "tables": [table for table in tables if table["rows"]],
    }
    return pdf.typeset("run.typ", document, run.started)


def _paper_turn(turn: Turn) -> Json:
    return {
        "step": _breakable(turn.step or turn.role, LONGEST_WORD),
        "speaker": _breakable(f"{turn.role} · {turn.model}", LONGEST_WORD),
        "spent": f"{turn.tokens:,} tokens, US$ {_usd(turn)}, {turn.latency_seconds:.2f} s",
        "notices": [_breakable(notice, LONGEST_WORD) for notice in turn.notices],
        "text": _paragraphs(turn.text),
    }


def _paper_table(
    name: str,
    heads: Sequence[str],
    rows: Iterable[TableRow],
    widths: Sequence[int],
    numbers: Sequence[int] = (),
    *,
    before: bool = False,
) -> Json:
    """A table for the template: `widths` are shares of the page, 0 as wide as needed; `before` the outcome or after."""
    broken = [[_breakable(" ".join(cell.split()), LONGEST_IN_CELL) for cell in row] for row in rows]
    return {
        "name": name,
        "heads": list(heads),
        "rows": broken,
        "widths": list(widths),
        "numbers": list(numbers),
        "before": before,
    }


def _paragraphs(text: str) -> list[Json]:
    """Paragraphs of lines; what stands between fences is code."""
    parts: list[Json] = []
    for place, piece in enumerate(re.split(r"^```[\w+-]*[ \t]*$\n?", text, flags=re.MULTILINE)):
        if place % 2:
            parts.append({"code": True, "lines": _lines(piece.rstrip("\n"))})
        else:
            paragraphs = (each for each in re.split(r"\n\s*\n", piece.strip("\n")) if each.strip())
            parts += [{"code": False, "lines": _lines(each)} for each in paragraphs]
    return parts


def _lines(text: str) -> list[str]:
    return [_breakable(re.sub("^ +", _indent, line), LONGEST_WORD) for line in text.expandtabs(4).splitlines()]


def _indent(spaces: re.Match[str]) -> str:
    return "\u00a0" * len(spaces[0])


def _breakable(text: str, longest: int) -> str:
    return re.sub(rf"\S{{{longest + 1},}}", lambda word: re.sub(".{8}", "\\g<0>\u200b", word[0]), text)


to_json, to_markdown, to_html = markdown.writers(page_of, to_document)
