"""Stores that other packages offer, by the scheme of their URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from seedbed.errors import SettingsError, StoreError
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore

CLOUDS = """
from seedbed.errors import StoreError
from seedbed.storage.memory import MemoryStore

class Cloud(MemoryStore):
    def __init__(self, url):
        super().__init__()
        self.url = url
        if "down" in url:
            raise ConnectionError("no answer")
        if "full" in url:
            raise StoreError("the cloud is full")

def fog(url):
    return {}
"""


@pytest.fixture(autouse=True)
def clouds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clouds.py").write_text(CLOUDS)
    installed = tmp_path / "clouds-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: clouds\nVersion: 1.0\n")
    offers = "[seedbed.stores]\ncloud = clouds:Cloud\nfog = clouds:fog\nmist = clouds:lost\n"
    (installed / "entry_points.txt").write_text(offers)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_package_offers_a_store_by_the_scheme_of_its_urls() -> None:
    store = open_store("cloud:nine")
    assert isinstance(store, MemoryStore)
    assert vars(store)["url"] == "cloud:nine"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("cloud:down", r"clouds:Cloud cannot open it \(ConnectionError: no answer\); expected a store"),
        ("fog:", r"clouds:fog, \{\}; expected the methods of Store and Upkeep\. Test it with .*StoreContract"),
        ("mist:", "clouds:lost .*AttributeError"),
        ("clod:nine", r"postgresql://USER@HOST/DATABASE, cloud:…, fog:…, mist:…\."),
    ],
)
def test_what_opens_no_store_is_a_setting_to_correct(url: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        open_store(url)


def test_an_error_of_a_store_reaches_the_user_unchanged() -> None:
    with pytest.raises(StoreError, match="the cloud is full"):
        open_store("cloud:full")
