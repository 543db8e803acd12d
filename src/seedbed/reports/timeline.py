"""Timeline: when each step of a run began and ended, as rows and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from seedbed.reports.figure import Figure
from seedbed.reports.numbers import counted, shortened
from seedbed.reports.page import PageSection, PageTable, picture, section
from seedbed.reports.plots import LABEL, ROW, TEXT, WIDTH, label, scale, tick, ticks
from seedbed.runs.history import recall
from seedbed.runs.run import Call, Child, Decision, Run, TimedEntry, Turn
from seedbed.storage.store import Json, Store

MOST_ROWS = 100
"""The picture of a longer run would be longer than anybody reads."""

MARKS = {"turn": ("s1", 16), "call": ("s2", 10), "decision": ("s3", 6), "child": ("s4", 3)}
"""The colour of each kind of step, and the height of its bar."""

HEADS = ("step", "began", "took", "waited")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """A step of a run, or of one that it opened. It began `at_seconds` after the start of the topmost run; of its
    `seconds` it first spent `waited_seconds` on our limits, failed attempts or a person, and the rest on its work."""

    run: str
    depth: int
    kind: str
    name: str
    started: datetime
    ended: datetime
    at_seconds: float
    seconds: float
    waited_seconds: float

    def document(self) -> Json:
        return asdict(self) | {"started": self.started.isoformat(), "ended": self.ended.isoformat()}

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """Its cells under `HEADS`."""
        waited = f"{self.waited_seconds:.2f} s" if self.waited_seconds >= 0.005 else ""
        return self.name, f"{self.at_seconds:.2f} s", f"{self.seconds:.2f} s", waited


def timeline(run: Run, store: Store | None = None) -> list[TimelineRow]:
    """The steps of a run in the order in which they began. Its store adds those of a run that it opened, below the step
    that did so. Left out are steps of older recordings, which have no times, and those that a recording answered
    in a replay, as they happened before it."""
    return list(_rows(run, store, run.started, 0))


def _rows(run: Run, store: Store | None, zero: datetime, depth: int) -> Iterator[TimelineRow]:
    entries: list[TimedEntry] = [*run.turns, *run.calls, *run.decisions, *run.children]
    timed = [(each.started, each.ended, each) for each in entries if each.started and each.ended]
    timed = [entry for entry in timed if entry[0] >= run.started]
    for started, ended, each in sorted(timed, key=lambda entry: entry[:2]):
        seconds = (ended - started).total_seconds()
        kind, name, worked = _described(each, seconds)
        yield TimelineRow(
            run=run.id,
            depth=depth,
            kind=kind,
            name=name,
            started=started,
            ended=ended,
            at_seconds=(started - zero).total_seconds(),
            seconds=seconds,
            waited_seconds=max(0.0, seconds - worked),
        )
        if isinstance(each, Child) and store is not None:
            yield from _rows(recall(store, each.run), store, zero, depth + 1)


def _described(entry: TimedEntry, seconds: float) -> tuple[str, str, float]:
    """The kind and the name of a step, and how many of its seconds it worked."""
    match entry:
        case Turn():
            return "turn", entry.step or entry.role, entry.latency_seconds
        case Call():
            return "call", entry.tool, entry.latency_seconds
        case Decision():
            return "decision", entry.point, 0.0 if entry.answered else seconds
        case Child():
            return "child", entry.step, seconds
    raise TypeError(f"found {type(entry).__name__}; expected an entry of a run")


def timeline_section(rows: Sequence[TimelineRow]) -> list[PageSection]:
    """The part of a page that shows when each step happened; nothing where no step has times."""
    left_out = f" The first {MOST_ROWS} of {len(rows):,} steps." if len(rows) > MOST_ROWS else ""
    caption = f"Turns are high bars, calls of tools lower ones, runs it opened lines; grey is waiting.{left_out}"
    shown = rows[:MOST_ROWS]
    table = PageTable(HEADS, [row.texts for row in shown], numbers=True, more=len(rows) - len(shown))
    return section("Timeline", *picture("timeline", timeline_figure(shown), caption, table)) if rows else []


def timeline_figure(rows: Sequence[TimelineRow]) -> Figure | None:
    """A bar for each step on one scale of seconds, so that what happened at the same time stands below each other."""
    low, high = scale([0.0, *(row.at_seconds + row.seconds for row in rows)], tight=True)
    left, right, bottom = LABEL, WIDTH - TEXT, len(rows) * ROW + 6

    def x(seconds: float) -> float:
        return left + (min(max(seconds, low), high) - low) / (high - low) * (right - left)

    marks = [f'<g class="grid">{"".join(tick(x(at), bottom, at) for at in ticks(low, high))}</g>']
    for place, row in enumerate(rows):
        middle, (colour, tall) = place * ROW + ROW / 2, MARKS[row.kind]
        name, _, took, waited = row.texts
        works = x(row.at_seconds + row.waited_seconds)
        marks.append(label(LABEL - 12, middle, shortened(f"{'· ' * row.depth}{name}"), "label", name))
        marks.append(_bar("whole", x(row.at_seconds), works, middle, tall))
        marks.append(_bar(colour, works, max(x(row.at_seconds + row.seconds), works + 1.5), middle, tall))
        marks.append(label(right + 16, middle, f"{took}{waited and f', waited {waited}'}", "value"))
    marks.append(label(right + 16, bottom + 12, "seconds", "tick first"))
    words = "; ".join(f"{row.name}: at {row.at_seconds:.2f} s for {row.seconds:.2f} s" for row in rows)
    about = f"{counted(len(rows), 'step')}: {words}"
    return Figure("When each step happened", about, WIDTH, bottom + 24, "".join(marks)) if rows else None


def _bar(kind: str, start: float, end: float, middle: float, tall: float) -> str:
    where = f'x="{start:.1f}" y="{middle - tall / 2:.1f}" width="{end - start:.1f}" height="{tall}"'
    return f'<rect class="{kind}" {where}/>' if end > start else ""
