"""Usage: the tokens of an answer, by the provider's word and by our own count of the texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_TOKENS = 1_000_000_000
"""No request carries more; a larger report counts as this many."""

MOST_USD = 1_000_000.0
"""No request costs more; a larger report counts as this much."""

MOST_SECONDS = 1_000_000.0
"""No answer takes longer; a larger report counts as this long."""

MOST_CHARACTERS = 8_000_000
"""No answer has more; a longer one is cut off."""

LETTERS = 6
"""At least so many characters make a token: tokenizers make more tokens than that of any natural language."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def at_least(self, other: Usage) -> Usage:
        """The larger count of both."""
        return Usage(max(self.prompt_tokens, other.prompt_tokens), max(self.completion_tokens, other.completion_tokens))


def read_usage(reported: Any, read: str = "input_tokens", written: str = "output_tokens") -> Usage | None:
    """What a provider reports, under those names; None if it reports nothing, zero, or what cannot be a count."""
    if not isinstance(reported, Mapping):
        return None
    answered = reported.get(written)
    prompt, completion = read_count(reported.get(read)), read_count(0 if answered is None else answered)
    if prompt is None or completion is None or not prompt + completion:
        return None
    total = read_count(reported.get("total_tokens")) or 0  # some count what a model thinks only here
    return Usage(prompt, max(completion, total - prompt))


def read_count(value: Any) -> int | None:
    """A number of tokens; None for what cannot be one."""
    number = read_number(value)
    return None if number is None else math.ceil(min(number, MOST_TOKENS))


def read_cost(value: Any) -> float | None:
    """An amount of US dollars; None for what cannot be one."""
    number = read_number(value)
    return None if number is None else float(min(number, MOST_USD))


def read_number(value: Any) -> int | float | None:
    """A number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:  # nor for NaN
        return None
    return None if value == math.inf else value


def counted_tokens(*texts: str) -> int:
    """Our own count of the tokens of texts: no more than any tokenizer makes of natural language."""
    return sum(len(text) // LETTERS for text in texts)


def estimated_tokens(*texts: str) -> int:
    """About how many tokens messages with these texts have."""
    return sum(len(text.encode(errors="replace")) // 4 + 5 for text in texts)
