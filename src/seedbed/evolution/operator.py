"""Operator: one way to make a child of a playbook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from seedbed.evolution.protocols import Search
from seedbed.playbooks.playbook import Playbook


class Operator(Protocol):
    """One way to make a child of a playbook; with mates, of several.

    Its name says what it does to whom, such as `drop a sentence of roles.writer.system`.
    """

    @property
    def name(self) -> str: ...

    async def __call__(
        self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str
    ) -> Playbook | None:
        """A valid child that differs from its parent, or None if it finds none. All chance is `search.chance(event)`.

        Locked genes and rules stay as they are: children are made by `with_genes`.
        """
