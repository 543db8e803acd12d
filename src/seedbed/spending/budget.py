"""Budget: what a search may spend."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, fields
from typing import Self

from seedbed.errors import Problem, SettingsError, dollars, shown
from seedbed.storage.store import Json

_SECONDS = {"s": 1, "second": 1, "minute": 60, "min": 60, "hour": 3600, "h": 3600}
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_PART = re.compile(r"\$\s*(?P<usd>[\d.]+)|(?P<number>[\d.]+)\s*(?P<times>[kKM]?)\s*(?P<unit>[a-zA-Z]*)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a search: runs, tokens, money, time. None is no limit."""

    runs: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        problems = []
        for each in fields(self):
            limit = getattr(self, each.name)
            if limit is not None and not (math.isfinite(limit) and limit >= 0):
                problems.append(Problem(f"budget.{each.name}", shown(limit), "a number that is not negative"))
        if problems:
            raise SettingsError(problems)

    @classmethod
    def parse(cls, text: str) -> Self:
        """A budget from text: `400 runs`, `$2`, `10 minutes`, `1M tokens`, or several with commas between."""
        limits: dict[str, float] = {}
        for part in _THOUSANDS.sub("", text).split(","):
            match = _PART.fullmatch(part.strip())
            amount = _read_amount(match) if match else None
            if amount is None or amount[0] in limits:
                remedy = "Write it like 400 runs, $2, 10 minutes, 1M tokens, or several of those with commas."
                problem = f"{shown(part.strip())}{' twice' if amount else ''}"
                raise SettingsError([Problem("budget", problem, "what may be spent", remedy)])
            limits[amount[0]] = amount[1]
        return cls(**limits)  # type: ignore[arg-type]

    def body(self) -> Json:
        return {name: limit for name, limit in asdict(self).items() if limit is not None}

    def __str__(self) -> str:
        formats = {"runs": "{:,} runs", "tokens": "{:,} tokens", "seconds": "{:g} s"}
        parts = [formats[name].format(limit) for name, limit in self.body().items() if name in formats]
        return ", ".join([*parts, *([dollars(self.usd)] if self.usd is not None else [])]) or "no limit"


def _read_amount(match: re.Match[str]) -> tuple[str, float] | None:
    try:
        if match["usd"]:
            return "usd", float(match["usd"])
        number = float(match["number"]) * _TIMES[match["times"].lower()]
    except ValueError:
        return None
    unit = match["unit"].lower()
    if unit in ("", "run", "runs", "token", "tokens"):
        whole = round(number)
        return ("tokens" if "token" in unit else "runs", whole) if abs(number - whole) < 1e-6 else None
    if unit in ("usd", "dollar", "dollars"):
        return "usd", number
    seconds = _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s"))
    return ("seconds", number * seconds) if seconds else None
