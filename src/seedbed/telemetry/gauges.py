"""Gauge: something of a workspace that can be measured now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gauge:
    """A value with its name, which says its unit, and its labels."""

    name: str
    about: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
