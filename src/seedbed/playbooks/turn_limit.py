"""Turn limits: a dialogue that takes at most so many turns."""

from __future__ import annotations

from typing import Any

from seedbed.errors import PlaybookError, Problem, shown
from seedbed.playbooks import checking
from seedbed.playbooks.conditions import MOST_ROUNDS, fewest_rounds
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import is_whole
from seedbed.storage.store import Json


def with_turns(playbook: Playbook, turns: int) -> Playbook:
    """The playbook as it takes at most so many turns, without those of sub-dialogues. Raises PlaybookError.

    Fewer than its steps: the first ones. More: more rounds of its loops, or of all its steps if it has none; whole
    rounds only.
    """
    if not is_whole(turns) or turns < 1:
        raise PlaybookError([Problem("turns", shown(turns), "a whole number from 1")])
    if not playbook.steps:
        remedy = "Only the steps of a dialogue can be counted."
        raise PlaybookError([Problem("turns", "a playbook without steps", "a dialogue", remedy)])
    content = playbook.document()
    content["steps"], names = _first(content["steps"], turns)
    steps = [step for item in content["steps"] for step in item.get("together", [item])]
    known = {step.name: step for step in playbook.all_steps()}
    left = turns - len(names)
    loops = [step for step in steps if "until" in step]
    if not loops and left >= len(names):
        steps[-1]["until"] = {"back_to": names[0], "at_most": min(MOST_ROUNDS, turns // len(names))}
    for step in loops:
        until, rule = step["until"], known[step["name"]].until
        length = names.index(step["name"]) + 1 - names.index(until.get("back_to", step["name"]))
        rounds = min(MOST_ROUNDS, 1 + left // length)
        left -= (rounds - 1) * length
        if rounds == 1:
            del step["until"]
        elif rule and rounds < fewest_rounds(rule):  # its rules cannot hold so soon
            step["until"] = {name: until[name] for name in ("back_to",) if name in until} | {"at_most": rounds}
        else:
            until["at_most"] = rounds
    return Playbook.from_document(_without_lost_paths(content))


def _first(steps: list[Json], turns: int) -> tuple[list[Json], list[str]]:
    """The first steps, and their names."""
    first: list[Json] = []
    names: list[str] = []
    for item in steps:
        inner = item.get("together", [item])[: turns - len(names)]
        if inner:
            first.append({"together": inner} if "together" in item else item)
            names += [step["name"] for step in inner]
    return first, names


def _without_lost_paths(content: dict[str, Any]) -> Json:
    """The document without locks and demos of what it no longer has."""
    lost = {problem.path for problem in checking.problems(content)}
    locked = [lock for index, lock in enumerate(content.get("locked", ())) if f"locked[{index}]" not in lost]
    demos = {step: demos for step, demos in content.get("demos", {}).items() if f"demos.{step}" not in lost}
    return {**content, "locked": locked, "demos": demos}
