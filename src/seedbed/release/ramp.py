"""Ramp: the steps in which a canary's share of the users grows."""

from __future__ import annotations

from dataclasses import dataclass

from seedbed.errors import Problem
from seedbed.release.states import percent
from seedbed.settings.channels import ChannelSettings


@dataclass(frozen=True, slots=True)
class Ramp:
    """The steps in which a candidate reaches everybody, as `channels.<name>.canary` in seedbed.yaml declares them.

    Each step has a share of the users, and takes so many runs of the canary. The last may need another person. Without
    shares a release reaches everybody at once, unless it asks for less.
    """

    shares: tuple[float, ...] = ()
    hold: int = 0
    approval: bool = False

    def first(self, wanted: float | None) -> float | Problem:
        """The share that a release begins with, or why not the wanted one."""
        return self._at_most(self.shares[0] if self.shares else 1.0, wanted, "its first step")

    def after(self, now: float, wanted: float | None) -> float | Problem:
        """The next share, or why not the wanted one."""
        return self._at_most(next((share for share in self.shares if share > now), 1.0), wanted, "its next step")

    def _at_most(self, step: float, wanted: float | None, which: str) -> float | Problem:
        if wanted is None:
            return step
        if wanted > step:
            return Problem(
                "share", percent(wanted), f"at most {percent(step)}, {which}", "Raise the share step by step."
            )
        return wanted


def build_ramp(settings: ChannelSettings) -> Ramp:
    return Ramp(settings.canary.shares, settings.canary.hold, settings.canary.approval)


NO_RAMP = Ramp()
