"""Offer: a playbook that an optimizer wants to be tried."""

from __future__ import annotations

from dataclasses import dataclass

from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest


@dataclass(frozen=True, slots=True)
class Offer:
    """A playbook to be tried, what it was made from, and how, in a few words.

    Whoever wants it to be tried on certain tasks names them; otherwise the allocation decides which, and whether it is
    worth all of them. A playbook may be offered again: cells that are known are free.
    """

    playbook: Playbook
    parents: tuple[Digest, ...] = ()
    how: str = "varied"
    tasks: tuple[str, ...] | None = None
    arm: str = ""
    """Which of several ways of searching made it, where there are several."""
