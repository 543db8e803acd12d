"""Sub-dialogues: a run of its own for each item of an answer, and what they conclude put back into it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from seedbed.playbooks.playbook import Step
from seedbed.stage.dialogue.context import Statement, condensed
from seedbed.stage.stage import Stage
from seedbed.storage.store import canonical

INHERITED = "inherited"
"""The input of a run that another opened: what was known there. A prompt may name it; else it is told beforehand."""

INHERITED_TOKENS = 1_000

_ITEM = re.compile(r"^\s{0,8}(?:\d{1,3}[.):]|[-*•–]|\(?[a-z]\))\s+(?P<text>\S.*)$", re.IGNORECASE)
_ARRAY = re.compile(r"\[[^\[\]]*\]", re.DOTALL)


async def opened(stage: Stage, step: Step, answer: str, task: Mapping[str, Any], seen: Sequence[Statement]) -> str:
    """The answer, with what a dialogue on each of its items concluded. They are performed at the same time.

    One that fails does not lose the others. Below the depth that the step allows, the answer stays as it is.
    """
    opens = step.opens
    if opens is None or stage.depth >= opens.depth:
        return answer
    items = listed(answer)
    if not items:
        await stage.log(f"{step.name} opened nothing: found no list in its answer")
        return answer
    if len(items) > opens.at_most:
        await stage.log(f"{step.name} opened {opens.at_most} of {len(items)} items", left_out=items[opens.at_most :])
    known = [*seen, Statement(step.name, answer)]

    async def concluded(item: str) -> str:
        about = "\n\n".join(map(str, condensed(known, item, INHERITED_TOKENS)))
        try:
            child = await stage.open(
                {**task, opens.input: item, INHERITED: about}, playbook=opens.playbook, step=step.name
            )
        except Exception as wrong:  # noqa: BLE001 - one that fails does not lose the others
            return f"(not answered: {wrong})"
        return child.output if isinstance(child.output, str) else canonical(child.output)

    found = await asyncio.gather(*map(concluded, items[: opens.at_most]))
    return "\n\n".join([answer, *(f"{item}:\n{text}" for item, text in zip(items, found, strict=False))])


def listed(text: str) -> list[str]:
    """The items of a list in an answer: numbered or marked lines, or a JSON array of texts; each once, in order."""
    items = [match["text"].strip() for line in text.splitlines() if (match := _ITEM.match(line))]
    if not items and (array := _ARRAY.search(text)):
        try:
            found = json.loads(array[0])
        except ValueError:
            found = []
        items = [item.strip() for item in found if isinstance(item, str)]
    return list(dict.fromkeys(item for item in items if item))
