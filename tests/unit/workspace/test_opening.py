"""Opening a workspace from its file, or from objects in hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from loop_samples import ORACLE, agent

import seedbed
from seedbed import Playbook
from seedbed.errors import SettingsError
from seedbed.storage.memory import MemoryStore


async def test_live_models_and_tools_need_no_file() -> None:
    def look(at: str) -> str:
        return at

    model = FakeListChatModel(responses=["blue", "blue"])
    async with seedbed.open(models={"fast": model, "oracle": ORACLE}, tools=[look], by="ada") as space:
        sky = Playbook.from_document({"roles": {"one": {"model": "fast"}}})
        assert (await space.run(sky, q="Which colour has the sky?")).output == "blue"
        assert (await space.run(agent(".*"), n=3)).output == "3"
        assert (space.tools, space.by) == ([look], "ada")


def test_arguments_count_more_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "seedbed.yaml"
    file.write_text("store: sqlite:///seedbed.db\nby: ben\n")
    with seedbed.open_blocking(file, store="memory:", by="ada", models={"oracle": ORACLE}) as space:
        assert (space.by, [*space.models], type(space.store)) == ("ada", ["oracle"], MemoryStore)
    assert [path.name for path in tmp_path.iterdir()] == ["seedbed.yaml"]


def test_what_is_no_store_and_no_models_is_refused() -> None:
    with pytest.raises(SettingsError, match=r'store: found \{\}; expected a store or its URL. Write store="sqlite'):
        seedbed.open(store={})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"models\.fast\.use: found nothing; expected embedded"):
        seedbed.open(models={"fast": {}})
