"""Runs on paper: a PDF with every turn, the outcome, what it cost and how models were chosen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from unicodedata import category

from seedbed.errors import Problem, SettingsError
from seedbed.reports.run import CHILDREN, COSTS, ROUTING, children, choices, costs, outcome
from seedbed.runs.run import Run, Turn
from seedbed.storage.store import Json, canonical, short

LONGEST_WORD = 40
LONGEST_IN_CELL = 16
"""Longer words, such as addresses, may be broken: beyond the edge they would be lost."""


@dataclass(frozen=True, slots=True)
class PdfReport:
    """A PDF, and the characters that no font here can print. They are printed as their numbers, such as [U+4E2D]."""

    pdf: bytes
    unprintable: str

    @property
    def notice(self) -> str:
        """What a reader should know of the characters that are not there, or nothing."""
        if not self.unprintable:
            return ""
        count = len(self.unprintable)
        told = "1 character has" if count == 1 else f"{count} characters have"
        return (
            f"{told} no glyph in the fonts of this machine, printed as numbers such as {_number(self.unprintable[0])}. "
            "With a font that has them, such as Noto Sans CJK, they will be printed."
        )


def to_pdf(run: Run, routing: Sequence[Json] = ()) -> PdfReport:
    """A run as a PDF; `routing` is how its models were chosen. Raises SettingsError where typst is missing."""
    typst = _typst()
    fonts = typst.Fonts()
    document = _document(run, routing)
    unprintable = _unprintable(typst, fonts, "".join(_texts(document)))
    document = _numbered(document, unprintable)
    document["notice"] = PdfReport(b"", unprintable).notice
    template = files("seedbed.reports").joinpath("run.typ").read_bytes()
    given = {"run": json.dumps(document)}
    pdf = typst.compile(
        template, format="pdf", font_paths=fonts, sys_inputs=given, timestamp=int(run.started.timestamp())
    )
    return PdfReport(pdf, unprintable)


def _typst() -> Any:
    try:
        import typst
    except ImportError:
        remedy = "Run pip install 'seedbed[pdf]'"
        raise SettingsError([Problem("format", "pdf without typst", "what sets it", remedy)]) from None
    return typst


def _document(run: Run, routing: Sequence[Json]) -> Json:
    """What the template prints: texts, and nothing that it would have to understand."""
    calls = [(each.tool, canonical(each.arguments), each.error or canonical(each.result)) for each in run.calls]
    decisions = [(each.point, each.action, each.because) for each in run.decisions]
    tables = [
        _table("Tools", ("tool", "asked", "answered"), calls, widths=(0, 1, 1), before=True),
        _table("Decisions", ("point", "action", "because"), decisions, widths=(1, 1, 2), before=True),
        _table("Runs it opened", CHILDREN, children(run), widths=(0, 1, 0, 0, 0, 3), numbers=(3, 4), before=True),
        _table("Costs", COSTS, costs(run), widths=(1, 0, 0, 0, 0, 0), numbers=(1, 2, 3, 4, 5)),
        _table("Routing", ROUTING, choices(routing), widths=(2, 2, 0, 4, 4), numbers=(2,)),
    ]
    return {
        "title": f"Run {run.id[:10]}",
        "about": f"Playbook {short(run.playbook)}, seed {run.seed}, started {run.started:%Y-%m-%d %H:%M} UTC, "
        f"{run.status}: {run.tokens:,} tokens, US$ {run.cost_usd:.4f}, {run.latency_seconds:.2f} s",
        "task": [
            {"name": name, "value": _written(value if isinstance(value, str) else canonical(value))}
            for name, value in run.inputs.items()
        ],
        "turns": [_turn(turn) for turn in run.turns],
        "outcome": _written(outcome(run)),
        "failed": bool(run.error),
        "tables": [table for table in tables if table["rows"]],
    }


def _turn(turn: Turn) -> Json:
    return {
        "step": _breakable(turn.step or turn.role, LONGEST_WORD),
        "speaker": _breakable(f"{turn.role} · {turn.model}", LONGEST_WORD),
        "spent": f"{turn.tokens:,} tokens, US$ {turn.cost_usd:.4f}, {turn.latency_seconds:.2f} s",
        "notices": [_breakable(notice, LONGEST_WORD) for notice in turn.notices],
        "said": _written(turn.text),
    }


def _table(
    name: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    widths: Sequence[int],
    numbers: Sequence[int] = (),
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


def _written(text: str) -> list[Json]:
    """Paragraphs of lines, and as code what stands between fences."""
    parts: list[Json] = []
    for number, piece in enumerate(re.split(r"^```[\w+-]*[ \t]*$\n?", text, flags=re.MULTILINE)):
        if number % 2:
            parts.append({"code": True, "lines": _lines(piece.rstrip("\n"))})
        else:
            paragraphs = (each for each in re.split(r"\n\s*\n", piece.strip("\n")) if each.strip())
            parts += [{"code": False, "lines": _lines(each)} for each in paragraphs]
    return parts


def _lines(text: str) -> list[str]:
    return [_breakable(re.sub("^ +", _kept, line), LONGEST_WORD) for line in text.expandtabs(4).splitlines()]


def _kept(indent: re.Match[str]) -> str:
    return "\u00a0" * len(indent[0])


def _breakable(text: str, longest: int) -> str:
    return re.sub(rf"\S{{{longest + 1},}}", lambda word: re.sub(".{8}", "\\g<0>\u200b", word[0]), text)


def _unprintable(typst: Any, fonts: Any, text: str) -> str:
    """The characters of a text for which no font has a glyph. The rules for archives want one for each, so we ask."""
    rare = sorted({character for character in text if not (" " <= character <= "~" or character.isspace())})
    controls = [character for character in rare if category(character) == "Cc"]
    template = b"#for each in json(bytes(sys.inputs.rare)) [#text(each) ]"
    given = {"rare": json.dumps([character for character in rare if character not in controls])}
    found: list[str] = []
    try:
        typst.compile(template, format="pdf", font_paths=fonts, sys_inputs=given, pdf_standards="a-2b")
    except typst.TypstError as wrong:
        found = re.findall(r'the text `"(.+?)"` could not', wrong.diagnostic)
        found = [re.sub(r"\\u\{([0-9a-f]+)\}", lambda code: chr(int(code[1], 16)), each) for each in found]
    return "".join((*controls, *found))


def _number(character: str) -> str:
    return f"[U+{ord(character):04X}]"


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _numbered(value: Any, unprintable: str) -> Any:
    """The same with each of these characters as its number."""
    numbers = {ord(character): _number(character) for character in unprintable}

    def told(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: told(each) for name, each in value.items()}
        if isinstance(value, list):
            return [told(each) for each in value]
        return value.translate(numbers) if isinstance(value, str) else value

    return told(value)
