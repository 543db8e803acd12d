"""The built-in program: perform a playbook's steps in order, those of a `together` block at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from seedbed.errors import RunError
from seedbed.models.chat import Message
from seedbed.playbooks.genes import text_distance
from seedbed.playbooks.playbook import Step
from seedbed.playbooks.prompts import Placeholder, fill
from seedbed.stage.stage import Stage


async def dialogue(task: Mapping[str, Any], stage: Stage) -> str:
    """Every step answered; the answer of the last one is the output."""
    playbook = stage.playbook
    playbook.check_inputs(task)
    if not playbook.plan:
        remedy = "Add steps, name a program, or give a playbook with a single role."
        raise RunError(f"playbook {playbook!r} has nothing to perform. {remedy}")
    values = {Placeholder(name): str(value) for name, value in task.items()}
    answers: dict[str, str] = {}
    for group in playbook.plan:
        replies = await asyncio.gather(*(_perform(step, task, values, answers, stage) for step in group))
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
        before = [*before, Message("assistant", text)]
    return text


def _whole(task: Mapping[str, Any]) -> str:
    """What a step without a prompt is asked: the task itself."""
    if len(task) == 1:
        return str(next(iter(task.values())))
    return "\n".join(f"{name}: {value}" for name, value in task.items())


def _demos(step: Step, stage: Stage) -> list[Message]:
    messages = []
    for demo in stage.playbook.demos.get(step.name, ()):
        values = {Placeholder(name): text for name, text in demo.inputs.items()}
        prompt = fill(step.prompt, values) if step.prompt else _whole(demo.inputs)
        messages += [Message("user", prompt), Message("assistant", demo.output)]
    return messages
