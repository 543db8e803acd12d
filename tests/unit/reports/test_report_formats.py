"""Results write their own reports: by the name of a format, or to a file whose ending names it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loop_samples import bench
from search_samples import START, searched
from test_experiment_report import NEW, OLD, tasks
from test_run_report import RUN
from test_scorecard_report import card

from seedbed.errors import SettingsError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import compare
from seedbed.playbooks.library import Library
from seedbed.reports import formats
from seedbed.storage.memory import MemoryStore


async def results() -> dict[str, Any]:
    verdict = await compare(OLD, NEW, tasks(), ExactMatch(), bench(MemoryStore()))
    return {"run": RUN, "scorecard": card(), "verdict": verdict, "search": await searched()}


async def test_every_result_writes_json_markdown_and_a_page(tmp_path: Path) -> None:
    for name, result in (await results()).items():
        assert json.loads(result.to_json()) == json.loads(result.export("json"))
        assert result.export("md").startswith("# ")
        assert result.export("md") == result.export("markdown")
        assert result.export("html").startswith("<!doctype html>")
        for ending in ("json", "md", "html"):
            path = result.export(tmp_path / f"{name}.{ending}")
            assert path.read_text(encoding="utf-8") == result.export(ending)
        assert result.export(str(tmp_path / f"{name}.MD")).exists()


def test_a_run_writes_a_pdf_and_a_scorecard_a_table(tmp_path: Path) -> None:
    written = RUN.export("pdf")
    assert isinstance(written, bytes)
    assert written.startswith(b"%PDF")
    assert Path(str(RUN.export(tmp_path / "run.pdf"))).read_bytes() == written
    assert str(card().export("csv")).startswith('"name","playbook"')


@pytest.mark.parametrize(("to", "near"), [("htlm", "html"), ("report.mdd", "md"), ("jsn", "json")])
def test_a_format_that_is_not_there_is_refused_with_the_nearest(to: str, near: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"expected one of: json, md, html, pdf.*Did you mean {near}\?"):
        RUN.export(to)
    with pytest.raises(SettingsError, match="expected one of"):
        card().export(tmp_path / "no_ending")


async def test_a_store_adds_names_and_what_a_verdict_rests_on() -> None:
    store = MemoryStore()
    verdict = await compare(OLD, NEW, tasks(), ExactMatch(), bench(store))
    library = Library(store, "ada")
    for name, each in (("sorter", OLD), ("better", NEW)):
        library.keep(each, because="a test")
        library.name(name, each.digest, because="a test")
    assert str(verdict.export("md", store=store)).startswith("# better against sorter\n")
    assert "Every completed run got a score." in str(verdict.export("html", store=store))
    found = await searched(store)
    library.name("mail", START.digest, because="a test")
    assert str(found.export("md", store=store)).startswith("# Search from mail\n")


async def test_figures_of_results_show_themselves_and_can_be_saved(tmp_path: Path) -> None:
    store = MemoryStore()
    verdict = await compare(OLD, NEW, tasks(), ExactMatch(), bench(store))
    assert list(verdict.figures()) == ["better, same and worse in registered order"]
    assert "evidence over tasks" in verdict.figures(store=store)
    assert "best score over runs" in (await searched()).figures()
    drawn = card().figures(name="plain")
    assert list(drawn)[:2] == ["exact_match with 95 % intervals", "length with 95 % intervals"]
    for title, figure in drawn.items():
        assert figure._repr_svg_().startswith("<svg ")
        assert figure.save(tmp_path / f"{title}.svg").exists()


async def test_results_with_rows_are_frames() -> None:
    pytest.importorskip("pandas")
    found = await results()
    lengths = {name: len(result.to_pandas()) for name, result in found.items()}
    assert lengths == {
        "run": 3,
        "scorecard": 8,
        "verdict": found["verdict"].tasks,
        "search": len(found["search"].pool),
    }
    assert list(RUN.to_pandas().columns[:3]) == ["step", "role", "model"]


def test_numbers_that_json_does_not_know_are_null() -> None:
    assert formats.finite({"a": [float("inf"), 1.5], "b": (float("nan"),)}) == {"a": [None, 1.5], "b": [None]}


def test_templates_are_not_loaded_by_the_package_nor_by_a_run() -> None:
    code = "import sys, seedbed, seedbed.cli.verbs.run; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
