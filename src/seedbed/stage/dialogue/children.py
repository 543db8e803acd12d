"""Child runs: a run for each item of an answer, whose conclusions are added to the answer."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from seedbed.errors import InDoubt, QuotaSpent, RunTaken, SettingsError, Stopped, StoreError
from seedbed.playbooks.playbook import Step
from seedbed.stage.dialogue.context import Statement, condense
from seedbed.stage.stage import Stage
from seedbed.storage.store import canonical

INHERITED = "inherited"
"""The input of a child run with what its parent knew. A prompt may name it; otherwise it is the first message."""

INHERITED_TOKENS = 1_000

STOPPING = (StoreError, RunTaken, InDoubt, Stopped, QuotaSpent, SettingsError)
"""What ends a whole run at once: its record cannot be kept, or must not be, or no other run can go on either."""

_ITEM = re.compile(r"^\s{0,8}(?:\d{1,3}[.):]|[-*•–]|\(?[a-z]\))\s+(?P<text>\S.*)$", re.IGNORECASE)
_ARRAY = re.compile(r"\[[^\[\]]*\]", re.DOTALL)


async def open_children(
    stage: Stage, step: Step, answer: str, task: Mapping[str, Any], seen: Sequence[Statement]
) -> str:
    """The answer with the conclusion of a child run for each of its items. They are performed at the same time.

    If one fails, the others still count. Below the depth that the step allows, the answer stays as it is.
    """
    opens = step.opens
    if opens is None or stage.depth >= opens.depth:
        return answer
    items = list_items(answer)
    if not items:
        await stage.log(f"{step.name} opened nothing: found no list in its answer")
        return answer
    if len(items) > opens.at_most:
        await stage.log(f"{step.name} opened {opens.at_most} of {len(items)} items", left_out=items[opens.at_most :])
    known = [*seen, Statement(step.name, answer)]

    async def conclude(item: str) -> str:
        about = "\n\n".join(map(str, condense(known, item, INHERITED_TOKENS)))
        try:
            child = await stage.open(
                {**task, opens.input: item, INHERITED: about}, playbook=opens.playbook, step=step.name
            )
        except STOPPING:
            raise
        except Exception as error:  # noqa: BLE001 - if one fails, the others still count
            return f"(not answered: {error})"
        return child.output if isinstance(child.output, str) else canonical(child.output)

    opening = [asyncio.ensure_future(conclude(item)) for item in items[: opens.at_most]]
    try:
        texts = await asyncio.gather(*opening)
    finally:
        for each in opening:
            each.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
    return "\n\n".join([answer, *(f"{item}:\n{text}" for item, text in zip(items, texts, strict=False))])


def list_items(text: str) -> list[str]:
    """The items of a list in an answer: numbered or marked lines, or a JSON array of texts; each once, in order."""
    items = [match["text"].strip() for line in text.splitlines() if (match := _ITEM.match(line))]
    if not items and (array := _ARRAY.search(text)):
        try:
            values = json.loads(array[0])
        except ValueError:
            values = []
        items = [item.strip() for item in values if isinstance(item, str)]
    return list(dict.fromkeys(item for item in items if item))
