"""Where a workspace keeps things and performs runs."""

from __future__ import annotations

import pytest

from seedbed.errors import SettingsError
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.workspace.execution import Execution, Launch, open_worker
from seedbed.workspace.resources import Resources, store_url


@pytest.mark.parametrize("url", ["memory:", "sqlite:////data/seedbed.db", "files:/data", "postgresql://ada@db/seedbed"])
def test_any_other_store_is_where_its_url_says(url: str) -> None:
    assert store_url(Settings(store=url, source="project/seedbed.yaml")) == url


def test_work_elsewhere_needs_a_store_that_others_can_reach() -> None:
    execution = Execution(Resources(Settings(by="ada", store="memory:"), MemoryStore()))
    with pytest.raises(SettingsError, match="a store that other processes can reach"):
        execution.context("processes")


def test_another_process_gets_the_same_settings_and_tools() -> None:
    def look(at: str) -> str:
        return at

    for real in (False, True):
        context = open_worker(Launch(Settings(by="ada", store="memory:"), [look], None, real)).context
        assert context.runner
        assert (context.by, context.runner.tools, context.runner.real_tools) == ("ada", [look], real)
