"""The built-in program: perform a playbook's steps, each as soon as it can be."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from seedbed.errors import BudgetSpent, PlaybookError, Problem
from seedbed.models.chat import Message
from seedbed.playbooks.genes import text_distance
from seedbed.playbooks.playbook import Playbook, Step
from seedbed.playbooks.prompts import Placeholder, fill, placeholders
from seedbed.stage.stage import Stage
from seedbed.storage.store import canonical


async def dialogue(task: Mapping[str, Any], stage: Stage) -> str:
    """Every step answered as soon as what it refers to is there; the answer of the last one is the output.

    A step that refers to no other waits for all before it. One that fails takes only those with it that need it. When
    the money runs out, the last step concludes from what there is.
    """
    playbook = stage.playbook
    playbook.check_inputs(task)
    if not playbook.plan:
        remedy = "Add steps, name a program, or give a playbook with a single role."
        raise PlaybookError([Problem("steps", "nothing to perform", "at least one step", remedy)])
    needs = _needs(playbook)
    last = list(needs)[-1]
    values = {Placeholder(name): told(value) for name, value in task.items()}
    answers: dict[str, str] = {}
    ended: dict[str, Exception | None] = {}

    async def answered(step: Step) -> None:
        try:
            for name in needs[step.name]:
                if wrong := ended[name]:
                    if step.name != last or not isinstance(wrong, BudgetSpent):
                        raise wrong
                    values[Placeholder(name)] = answers[name] = UNANSWERED
            text = await _perform(step, task, values, answers, stage, last=step.name == last)
        except Exception as wrong:  # noqa: BLE001 - those who need it raise it again
            ended[step.name] = wrong
        else:
            answers[step.name] = values[Placeholder(step.name)] = text
            values[Placeholder(step.name, of_model=True)] = playbook.roles[step.role].model or step.role
            ended[step.name] = None

    waiting, running = list(playbook.all_steps()), set[asyncio.Task[None]]()
    try:
        while waiting or running:
            ready = [step for step in waiting if all(name in ended for name in needs[step.name])]
            waiting = [step for step in waiting if step not in ready]
            if len(ready) == 1 and not running:
                await answered(ready[0])  # one alone needs no task of its own
                continue
            running |= {asyncio.create_task(answered(step)) for step in ready}
            _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    for name, wrong in ended.items():
        if wrong and name != last:
            await stage.log(f"{name} was not answered: {wrong}")
    said = [text for text in answers.values() if text != UNANSWERED]
    if (wrong := ended[last]) and not (isinstance(wrong, BudgetSpent) and said):
        raise wrong
    return said[-1] if wrong else answers[last]


UNANSWERED = "(not answered: the budget was spent)"


def _needs(playbook: Playbook) -> dict[str, list[str]]:
    """The steps that each step waits for: those it refers to, or else all of the groups before its own."""
    needs: dict[str, list[str]] = {}
    earlier: list[str] = []
    for group in playbook.plan:
        for step in group:
            texts = (step.prompt, playbook.roles[step.role].system)
            referred = {*step.sees, *(each.name for text in texts for each in placeholders(text))}
            needs[step.name] = [name for name in earlier if name in referred] or list(earlier)
        earlier += [step.name for step in group]
    return needs


async def _perform(
    step: Step,
    task: Mapping[str, Any],
    values: dict[Placeholder, str],
    answers: dict[str, str],
    stage: Stage,
    *,
    last: bool,
) -> str:
    system = fill(stage.playbook.roles[step.role].system, values)
    prompt = fill(step.prompt, values) if step.prompt else _whole(task)
    before = [*_demos(step, stage), *(Message("user", f"{name}:\n{answers[name]}") for name in step.sees)]
    text = ""
    for attempt in range(step.until.at_most if step.until else 1):
        turn = await stage.ask(step.role, prompt, before=before, system=system, step=step.name, last=last)
        if attempt and step.until and 1 - text_distance(text, turn.text) >= step.until.agreement:
            return turn.text
        text = turn.text
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
