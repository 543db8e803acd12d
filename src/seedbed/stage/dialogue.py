"""The built-in program: perform a playbook's steps in order, those of a `together` block at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seedbed.errors import PlaybookError, Problem
from seedbed.models.chat import Message
from seedbed.parallel import in_order
from seedbed.playbooks.genes import text_distance
from seedbed.playbooks.playbook import Step
from seedbed.playbooks.prompts import Placeholder, fill, placeholders
from seedbed.stage.stage import Stage
from seedbed.storage.store import canonical


async def dialogue(task: Mapping[str, Any], stage: Stage) -> str:
    """Every step answered; the answer of the last one is the output."""
    playbook = stage.playbook
    playbook.check_inputs(task)
    if not playbook.plan:
        remedy = "Add steps, name a program, or give a playbook with a single role."
        raise PlaybookError([Problem("steps", "nothing to perform", "at least one step", remedy)])
    values = {Placeholder(name): told(value) for name, value in task.items()}
    answers: dict[str, str] = {}

    async def answer(step: Step) -> str:
        return await _perform(step, task, values, answers, stage)

    for group in playbook.plan:
        replies = [text async for text in in_order(group, answer, at_once=len(group))]
        for step, text in zip(group, replies, strict=True):
            answers[step.name] = values[Placeholder(step.name)] = text
            values[Placeholder(step.name, of_model=True)] = playbook.roles[step.role].model or step.role
    return answers[playbook.plan[-1][-1].name]


async def _perform(
    step: Step, task: Mapping[str, Any], values: dict[Placeholder, str], answers: dict[str, str], stage: Stage
) -> str:
    system = fill(stage.playbook.roles[step.role].system, values)
    prompt = fill(step.prompt, values) if step.prompt else _whole(task)
    before = [*_demos(step, stage), *(Message("user", f"{name}:\n{answers[name]}") for name in step.sees)]
    text = ""
    for attempt in range(step.until.at_most if step.until else 1):
        reply = await stage.ask(step.role, prompt, before=before, system=system, step=step.name)
        if attempt and step.until and 1 - text_distance(text, reply.text) >= step.until.agreement:
            return reply.text
        text = reply.text
        before = [*before, Message("user", prompt), Message("assistant", text)]
    return text


def told(value: object) -> str:
    """A value as a prompt says it: text as it is, anything else as JSON, the same for equal values."""
    return value if isinstance(value, str) else canonical(value)


def _whole(task: Mapping[str, Any]) -> str:
    """What a step without a prompt is asked: the task itself, the same whatever order its inputs are in."""
    if len(task) == 1:
        return told(*task.values())
    return "\n".join(f"{name}: {told(value)}" for name, value in sorted(task.items()))


def _demos(step: Step, stage: Stage) -> list[Message]:
    messages = []
    for index, demo in enumerate(stage.playbook.demos.get(step.name, ())):
        values = {Placeholder(name): text for name, text in demo.inputs.items()}
        if missing := [str(each) for each in placeholders(step.prompt) if each not in values]:
            expected = f"what the prompt of the step needs: {', '.join(missing)}"
            got = ", ".join(demo.inputs) or "nothing"
            raise PlaybookError([Problem(f"demos.{step.name}[{index}].inputs", got, expected)])
        prompt = fill(step.prompt, values) if step.prompt else _whole(demo.inputs)
        messages += [Message("user", prompt), Message("assistant", demo.output)]
    return messages
