"""What models cost, looked up offline in the package genai-prices (extra `prices`).

A wrong price is worse than none: a model is looked up with its provider only, by the URL that it is asked at or by
the package that its class comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

__all__ = ["REMEDY", "look_up"]

REMEDY = "Set usd_per_million on its card, or run: pip install 'seedbed[prices]'"
"""What to do about a price that nobody knows."""

_OPENAI = "https://api.openai.com/v1"


def look_up(use: str, args: Mapping[str, Any], prompt_tokens: int = 0) -> tuple[float, float] | None:
    """Dollars per million prompt and completion tokens today, for a prompt that long; None if they are not known.

    `use` and `args` are those of a card. Discounts, such as for cached tokens, are left out: the bill may be lower.
    """
    model = args.get("model") or args.get("model_name")
    url = args.get("base_url")
    package = use.partition(".")[0]
    if not isinstance(model, str) or not (url is None or isinstance(url, str)):
        return None
    if use in ("openai", "seedbed.models.providers.openai.OpenAIChat"):
        found = _found(model, "", url or _OPENAI)
    elif package.startswith("langchain_") and url is None:
        found = _found(model, package.removeprefix("langchain_").replace("_", "-"), "")
    elif url:
        found = _found(model, "", url)
    else:
        return None
    if found is None:
        return None
    prices = found.get_prices(datetime.now(UTC))
    read, written = (_at(getattr(prices, name), prompt_tokens) for name in ("input_mtok", "output_mtok"))
    return None if read is None or written is None else (read, written)


@cache
def _found(model: str, provider: str, url: str) -> Any:
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    try:
        return get_snapshot().find_provider_model(model, None, provider or None, url or None)[1]
    except LookupError:
        return None


def _at(price: Any, prompt_tokens: int) -> float | None:
    """A price, for which some providers have steps: above so many tokens all of them cost more."""
    if price is None:
        return None
    for tier in reversed(getattr(price, "tiers", ())):
        if prompt_tokens > tier.start:
            return float(tier.price)
    return float(getattr(price, "base", price))
