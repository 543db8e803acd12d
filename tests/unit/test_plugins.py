"""Import by path, optional packages, entry points and suggestions."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

import seedbed
from seedbed import plugins
from seedbed.errors import PlaybookError, SettingsError


def test_a_path_names_a_module_and_something_in_it() -> None:
    assert plugins.load("seedbed.plugins:load", "tools") is plugins.load


@pytest.mark.parametrize("path", ["seedbed.nowhere:x", "seedbed.plugins:nothing", "", "seedbed.plugins", "a b:c"])
def test_a_path_that_leads_nowhere_is_an_error_that_says_where(path: str) -> None:
    with pytest.raises(PlaybookError, match=r"program: found .*PYTHONPATH"):
        plugins.load(path, "program", error=PlaybookError)


def test_a_missing_package_says_which_extra_installs_it() -> None:
    with pytest.raises(SettingsError, match=r"to_pandas\(\): found no package nowhere.*seedbed\[frames\]"):
        plugins.optional("nowhere", extra="frames", needed_for="to_pandas()")


def test_what_is_offered_is_known_by_its_name() -> None:
    assert plugins.offered("console_scripts")["pytest"] == "_pytest.config:_console_main"


def test_a_name_that_is_close_is_suggested_and_no_other() -> None:
    assert plugins.suggestion("exact_mach", ["exact_match", "f1"]) == "Did you mean exact_match?"
    assert plugins.suggestion("f2", ["exact_match", "f1"]) == "Did you mean f1?"
    assert plugins.suggestion("zzz", ["exact_match", "f1"]) == ""


def test_a_name_that_is_not_known_comes_with_those_that_are() -> None:
    close = plugins.unknown("metric", "f2", ["f1", "bleu"], "Write module:name.")
    assert str(close) == 'metric: found "f2"; expected one of: f1, bleu. Did you mean f1?'
    assert str(plugins.unknown("models", "x", [], "Add it.", kind="model")) == (
        'models: found no model named "x"; expected one of: none yet. Add it.'
    )
    many = plugins.unknown("ref", "zzz", [f"branches/{number}" for number in range(100)])
    assert many.expected.endswith("branches/39, …")


def test_the_source_of_a_module_has_all_that_it_imports_from_its_top_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    files = {
        "office/__init__.py": "import json",
        "office/desk.py": "from . import words\nfrom office.below.deep import answer\nimport office_prices, numpy",
        "office/words.py": "from .broken import x",
        "office/broken.py": "not python at all",
        "office/below/__init__.py": "",
        "office/below/deep.py": "from ..words import *\ndef answer():\n    import office_late\n",
        "office/unused.py": "",
        "office_prices.py": "",
        "office_late.py": "import office.desk",
        "json.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    desk = ModuleType("office.desk")
    desk.__file__ = str(tmp_path / "office" / "desk.py")
    found = dict(plugins.sources([desk, None]))
    assert list(found) == sorted(files.keys() - {"office/unused.py"})
    (tmp_path / "office_late.py").write_text("# why\nimport   office.desk")
    assert dict(plugins.sources([desk])) == found
    (tmp_path / "office_late.py").write_text("import office.desk, re")
    assert dict(plugins.sources([desk])) != found


@pytest.mark.parametrize("module", [pytest, seedbed, sys, None])
def test_what_is_installed_or_has_no_file_has_no_source_of_yours(module: ModuleType | None) -> None:
    assert plugins.sources([module]) == []
