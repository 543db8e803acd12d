"""Prices are looked up offline, and a price nobody knows stays unknown."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from seedbed.models.cards import Model
from seedbed.models.chat import Message, ask
from seedbed.models.prices import look_up
from seedbed.settings import Card

OPENAI = "langchain_openai.ChatOpenAI"


def test_a_model_is_found_by_the_package_its_class_comes_from() -> None:
    found = look_up(OPENAI, {"model": "gpt-4o"})
    assert found == look_up("openai", {"model": "gpt-4o"}) == (2.5, 10.0)
    assert look_up("langchain_anthropic.ChatAnthropic", {"model": "claude-sonnet-4-5"}) == (3.0, 15.0)


def test_a_model_is_found_by_the_url_it_is_asked_at() -> None:
    direct = look_up("openai", {"model": "gpt-4o", "base_url": "https://api.openai.com/v1"})
    assert direct == (2.5, 10.0)
    assert look_up("openai", {"model": "deepseek-chat", "base_url": "https://api.deepseek.com/v1"}) is not None


@pytest.mark.parametrize(
    ("use", "args"),
    [
        ("openai", {"model": "gpt-4o", "base_url": "http://127.0.0.1:4000/v1"}),
        (OPENAI, {"model": "gpt-4o", "base_url": "http://127.0.0.1:4000/v1"}),
        ("openai", {"model": "house-model-7"}),
        ("langchain_nowhere.ChatNowhere", {"model": "gpt-4o"}),
        ("company.Chat", {"model": "gpt-4o"}),
        (OPENAI, {"model": {"env": "MODEL"}}),
        (OPENAI, {"model": "gpt-4o", "base_url": {"env": "URL"}}),
        (OPENAI, {}),
    ],
)
def test_what_is_not_known_for_sure_stays_unknown(use: str, args: dict[str, Any]) -> None:
    assert look_up(use, args) is None


def test_a_long_prompt_costs_what_the_provider_asks_for_long_ones() -> None:
    its = {"model": "gemini-2.5-pro"}
    short, long = look_up("langchain_google_genai.Chat", its), look_up("langchain_google_genai.Chat", its, 200_001)
    assert short is not None
    assert long is not None
    assert long > short
    assert look_up("langchain_google_genai.Chat", its, 200_000) == short


def test_the_card_decides_and_models_in_this_process_are_free() -> None:
    args = {"model": "gpt-4o"}
    assert Model("a", Card(use="openai", args=args, usd_per_million=(1.0, 2.0))).price() == (1.0, 2.0)
    assert Model("a", Card(use="openai", args=args)).price() == (2.5, 10.0)
    for use in ("embedded", "scripted", "table", "seedbed.models.providers.embedded.EmbeddedChat"):
        assert Model("a", Card(use=use)).price() == (0.0, 0.0)


async def test_a_cost_nobody_knows_is_told_as_such() -> None:
    fake = "langchain_core.language_models.fake_chat_models.FakeListChatModel"
    reply = await ask(Model("a", Card(use=fake, args={"responses": ["yes"]})), [Message("user", "?")])
    assert (reply.cost_usd, reply.cost_known) == (0.0, False)


def test_without_the_package_prices_are_unknown_and_nothing_fails() -> None:
    code = """
import sys
sys.modules["genai_prices"] = None
from seedbed.models.prices import look_up
print(look_up("openai", {"model": "gpt-4o"}))
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "None"
