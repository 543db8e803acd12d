"""Import by path, optional packages, entry points and suggestions."""

from __future__ import annotations

import pytest

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
    assert "pytest" in plugins.offered("console_scripts")


def test_a_name_that_is_close_is_suggested_and_no_other() -> None:
    assert plugins.suggestion("exact_mach", ["exact_match", "f1"]) == "Did you mean exact_match?"
    assert plugins.suggestion("zzz", ["exact_match", "f1"]) == ""
