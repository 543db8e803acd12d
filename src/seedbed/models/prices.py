"""Prices of models, looked up offline in the package genai-prices (extra `prices`).

A wrong price is worse than none: a model is looked up together with its provider, by its URL or by the package of its
class.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from seedbed.errors import SettingsError
from seedbed.plugins import optional
from seedbed.settings.models import OURS

REMEDY = "Set usd_per_million on its card, or run: pip install 'seedbed[prices]'"
"""What to do about an unknown price."""

_OPENAI = "https://api.openai.com/v1"


def look_up(use: str, args: Mapping[str, Any], prompt_tokens: int = 0) -> tuple[float, float] | None:
    """Dollars per million prompt and completion tokens today, for a prompt of that length; None if unknown.

    `use` and `args` are those of a card. Discounts, such as for cached tokens, are left out: the bill may be lower.
    """
    model = args.get("model") or args.get("model_name")
    url = args.get("base_url")
    package = use.partition(".")[0]
    if not isinstance(model, str) or not (url is None or isinstance(url, str)):
        return None
    if use in ("openai", OURS["openai"]):
        entry = _entry(model, "", url or _OPENAI)
    elif package.startswith("langchain_") and url is None:
        entry = _entry(model, package.removeprefix("langchain_").replace("_", "-"), "")
    elif url:
        entry = _entry(model, "", url)
    else:
        return None
    if entry is None:
        return None
    prices = entry.get_prices(datetime.now(UTC))
    read, written = (_at(getattr(prices, name), prompt_tokens) for name in ("input_mtok", "output_mtok"))
    return None if read is None or written is None else (read, written)


@cache
def _entry(model: str, provider: str, url: str) -> Any:
    try:
        snapshot = optional("genai_prices.data_snapshot", extra="prices", needed_for="prices").get_snapshot()
    except SettingsError:  # without the package, prices are unknown
        return None
    try:
        return snapshot.find_provider_model(model, None, provider or None, url or None)[1]
    except LookupError:
        return None


def _at(price: Any, prompt_tokens: int) -> float | None:
    """A price, of the right tier where a provider charges more for all tokens of a long prompt."""
    if price is None:
        return None
    for tier in reversed(getattr(price, "tiers", ())):
        if prompt_tokens > tier.start:
            return float(tier.price)
    return float(getattr(price, "base", price))
