"""Figures are saved as files that other programs can show."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from seedbed.errors import SettingsError
from seedbed.reports.plots import forest
from seedbed.stats.estimates import Interval

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(("ending", "start"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_a_figure_can_be_saved_as_a_file(ending: str, start: bytes, tmp_path: Path) -> None:
    figure = forest([("a < b & c", Interval(0.5, 0.25, 0.75, 0.95, 9), 0)], "m")
    path = figure.save(tmp_path / f"figure{ending}")
    assert path.read_bytes().startswith(start)


def test_a_saved_svg_is_whole_by_itself() -> None:
    saved = forest([("a", Interval(0.5, 0.25, 0.75, 0.95, 9), 0)], "m").to_svg()
    assert ElementTree.fromstring(saved).tag == f"{SVG}svg"
    assert "var(" not in saved
    assert "#2e7d32" in saved


def test_another_ending_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"expected one of: \.svg, \.png, \.pdf. Did you mean \.svg\?"):
        forest([], "m").save(tmp_path / "figure.svgz")
