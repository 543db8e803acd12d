"""Figure: an SVG picture with a title and a description in words, within a page or as a file of its own."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from seedbed.errors import Problem, SettingsError
from seedbed.files import write_private
from seedbed.plugins import suggestion
from seedbed.reports import pdf

FILES = (".svg", ".png", ".pdf")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: its size in its own units, its marks as SVG, its title, and in words what it shows."""

    title: str
    description: str
    width: float
    height: float
    marks: str

    def __html__(self) -> str:
        """The SVG element within a page, which has the style; it keeps its shape on narrow screens."""
        return self._element(f'width="{self.width:g}"')

    def to_svg(self) -> str:
        """A whole file, with its style, in the colours for light paper."""
        size = f'xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" height="{self.height:.0f}"'
        paper = f'<rect width="{self.width:g}" height="{self.height:.0f}" fill="#fff"/>'
        return self._element(size, f"<style>{_file_style()}</style>{paper}") + "\n"

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.to_svg()

    def save(self, path: str | Path) -> Path:
        """Write the figure to a file; its ending says how: .svg, .png or .pdf. The last two need typst, which comes
        with `seedbed[pdf]`. Raises SettingsError for another ending."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending not in FILES:
            remedy = suggestion(ending, FILES)
            raise SettingsError([Problem(str(path), ending or "no ending", f"one of: {', '.join(FILES)}", remedy)])
        if ending == ".svg":
            write_private(path, self.to_svg())
        else:
            write_private(path, pdf.typeset_svg(self.to_svg(), "png" if ending == ".png" else "pdf"))
        return path

    def _element(self, attributes: str, before: str = "") -> str:
        title, description = html.escape(self.title), html.escape(self.description)
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:.0f}" {attributes} role="img" aria-label="{title}">'
            f"<title>{title}</title><desc>{description}</desc>{before}{self.marks}</svg>"
        )


@cache
def _file_style() -> str:
    """The style of figures with its colours filled in: not every program that shows a file knows CSS variables."""
    style = files("seedbed.reports").joinpath("templates", "figure.css").read_text(encoding="utf-8")
    light, _, rules = style.partition("/* figures */")
    colours = dict(re.findall(r"--(\w+):(#\w+)", light.partition("@media")[0]))
    font = "svg{font-family:system-ui,'DejaVu Sans',Arial,sans-serif}"
    return font + re.sub(r"var\(--(\w+)\)", lambda name: colours[name[1]], rules)
