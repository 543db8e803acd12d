"""Permission: what the rules of a run, and of the runs above it, say about its actions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.rules import Permission, strictest
from seedbed.stage.tools import Tool
from seedbed.storage.store import Json


@dataclass(frozen=True, slots=True)
class ActionRules:
    """The playbooks whose rules bind a run, and the actions that it and the runs above it have taken.

    `unasked` are changing tools that a replay, which changes nothing, finds recorded without any question.
    """

    playbooks: Sequence[Playbook]
    tools: Mapping[str, Tool]
    taken: list[tuple[str, Json]]
    unasked: Collection[str] = ()

    def may(self, action: str, confidence: float | None, arguments: Mapping[str, Any] | None) -> Permission:
        """The strictest answer of all playbooks; an argument that is not given has the value that the tool gives it.

        A simulated tool changes nothing, so nobody is asked about it unless a rule names it.
        """
        tool = self.tools[action] if action in self.tools else None  # noqa: SIM401 a replay's tools have no get
        judged = tool.with_defaults(arguments) if tool and arguments is not None else arguments
        really = tool is not None and tool.changes and tool.acts == "really"
        changes = really and action not in self.unasked
        return strictest(
            each.may(action, confidence, judged, changes=changes, taken=self.taken) for each in self.playbooks
        )

    @contextmanager
    def taking(self, action: str, arguments: Json) -> Iterator[None]:
        """Count an action as taken unless the block fails: calls at the same time count each other."""
        taken = (action, self.tools[action].with_defaults(arguments))
        self.taken.append(taken)
        try:
            yield
        except BaseException:
            self.taken.remove(taken)
            raise


def unconfirmed(action: str, because: str) -> str:
    """Why an action was refused that nobody confirmed, and how to permit it if no rule names it."""
    text = f"{action}: {because}, and nobody confirmed it"
    if not because.startswith("otherwise: "):
        return text
    return (
        f"{text}. Expected a rule or a person: write `allow: [{action}]` under rules in the playbook, "
        "or let someone confirm it, as `confirm` in the workspace file says"
    )
