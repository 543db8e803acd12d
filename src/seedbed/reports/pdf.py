"""PDF files, and pictures of figures: typeset by typst, which needs no system libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import category

from seedbed.plugins import optional
from seedbed.storage.store import Json

if TYPE_CHECKING:
    import typst

PIXELS_PER_INCH = 144
"""Of a figure that is saved as PNG."""

_FIGURE = b'#set page(width: auto, height: auto, margin: 0pt)\n#image(bytes(sys.inputs.svg), format: "svg")'


@dataclass(frozen=True, slots=True)
class PdfReport:
    """A PDF, and the characters that no font here can print. They are printed as their numbers, such as [U+4E2D]."""

    pdf: bytes
    unprintable: str

    @property
    def notice(self) -> str:
        """What a reader should know about the characters that are missing; empty if none are."""
        if not self.unprintable:
            return ""
        count = len(self.unprintable)
        have = "1 character has" if count == 1 else f"{count} characters have"
        return (
            f"{have} no glyph in the fonts of this machine, printed as numbers such as {_number(self.unprintable[0])}. "
            "Install a font that has them, such as Noto Sans CJK."
        )


def typeset(template: str, document: Json, at: datetime) -> PdfReport:
    """A document of plain texts, set by a template of this package and dated. Raises SettingsError without typst."""
    engine = _typst()
    fonts = engine.Fonts()
    unprintable = _unprintable(engine, fonts, "".join(_texts(document)))
    content = {**_numbered(document, unprintable), "notice": PdfReport(b"", unprintable).notice}
    source = files("seedbed.reports").joinpath("templates", template).read_bytes()
    inputs = {"document": json.dumps(content)}
    pdf = engine.compile(source, format="pdf", font_paths=fonts, sys_inputs=inputs, timestamp=int(at.timestamp()))
    return PdfReport(pdf, unprintable)


def typeset_svg(svg: str, output: Literal["pdf", "png"]) -> bytes:
    """An SVG file as a PDF or PNG file of the same size. Raises SettingsError without typst."""
    engine = _typst()
    more = {"ppi": PIXELS_PER_INCH} if output == "png" else {"timestamp": 0}
    file: bytes = engine.compile(_FIGURE, format=output, sys_inputs={"svg": svg}, **more)
    return file


def _typst() -> Any:
    return optional("typst", extra="pdf", needed_for="PDF and PNG files")


def _unprintable(engine: Any, fonts: typst.Fonts, text: str) -> str:
    """The characters of a text that have no glyph in any font. The standard for archives requires a glyph for each, so
    setting them by it names those that are missing."""
    rare = sorted({character for character in text if not (" " <= character <= "~" or character.isspace())})
    controls = [character for character in rare if category(character) == "Cc"]
    template = b"#for each in json(bytes(sys.inputs.rare)) [#text(each) ]"
    inputs = {"rare": json.dumps([character for character in rare if character not in controls])}
    missing: list[str] = []
    try:
        engine.compile(template, format="pdf", font_paths=fonts, sys_inputs=inputs, pdf_standards="a-2b")
    except engine.TypstError as wrong:
        missing = re.findall(r'the text `"(.+?)"` could not', wrong.diagnostic)
        missing = [re.sub(r"\\u\{([0-9a-f]+)\}", lambda code: chr(int(code[1], 16)), each) for each in missing]
    return "".join((*controls, *missing))


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

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: replaced(each) for name, each in value.items()}
        if isinstance(value, list):
            return [replaced(each) for each in value]
        return value.translate(numbers) if isinstance(value, str) else value

    return replaced(value)
