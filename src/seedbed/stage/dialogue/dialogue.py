"""The built-in program: perform a playbook's steps, each as soon as it can be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from seedbed.errors import BudgetSpent, PlaybookError, Problem, RunError
from seedbed.models.chat import Message
from seedbed.playbooks.conditions import Condition, Until
from seedbed.playbooks.playbook import Playbook, Step
from seedbed.playbooks.prompts import Placeholder, fill, placeholders
from seedbed.stage.dialogue.adaptation import Convergence, assess, holds
from seedbed.stage.dialogue.children import INHERITED, opened
from seedbed.stage.dialogue.context import Statement, condensed, summarised
from seedbed.stage.stage import Stage
from seedbed.storage.store import canonical

UNANSWERED = "(not answered: the budget was spent)"

Ended = dict[str, Exception | None]
"""The steps that are over, with what went wrong."""


async def dialogue(task: Mapping[str, Any], stage: Stage) -> str:
    """Every step answered as soon as what it refers to is there; the answer of the last one is the output.

    A step that refers to no other waits for all before it. One that fails takes only those with it that need it. When
    the money runs out, the last step concludes from what there is.
    """
    stage.playbook.check_inputs(task)
    if not stage.playbook.plan:
        remedy = "Add steps, name a program, or give a playbook with a single role."
        raise PlaybookError([Problem("steps", "nothing to perform", "at least one step", remedy)])
    return await _Dialogue(task, stage).output()


@dataclass(frozen=True, slots=True)
class _PlanPart:
    """What is performed as a whole: one step, or the steps of a loop. It begins when all that it needs is over."""

    steps: tuple[Step, ...]
    needs: frozenset[str]
    until: Until | None = None
    stop: str = ""
    """The step that says until when."""


class _Dialogue:
    def __init__(self, task: Mapping[str, Any], stage: Stage) -> None:
        self.stage = stage
        self.playbook = stage.playbook
        self.task = {name: value for name, value in task.items() if name != INHERITED or not stage.depth}
        self.values = {Placeholder(name): told(value) for name, value in task.items()}
        self.answers: dict[str, str] = {}
        self.left_out: set[str] = set()
        """The steps that were not due when they were last looked at."""
        self.plan = _plan(self.playbook)
        self.needs, self.last = self.plan.needs, self.plan.last
        self.rounds: dict[str, list[Message]] = {}
        """What each step of a loop was told and answered in the rounds before."""
        self.contexts: dict[tuple[object, ...], list[Statement]] = {}
        named = stage.depth and any(INHERITED in names for names in self.plan.mentions.values())
        given = stage.depth and not named and task.get(INHERITED)
        self.inherited = [Message("user", f"What is known so far:\n{told(given)}")] if given else []

    async def output(self) -> str:
        ended: Ended = {}
        await self._take(self.plan.parts, ended)
        said = [text for text in self.answers.values() if text and text != UNANSWERED]
        wrong = ended[self.last]
        fatal = wrong and not (isinstance(wrong, BudgetSpent) and said)
        for name, why in ended.items():
            if why and not (fatal and name == self.last):
                await self.stage.log(f"{name} was not answered: {why}")
        if wrong and fatal:
            raise wrong
        return said[-1] if said and (wrong or not self.answers[self.last]) else self.answers[self.last]

    async def _take(self, parts: Sequence[_PlanPart], ended: Ended, *, heard: Mapping[str, str] | None = None) -> None:
        """Take parts as soon as they can be, without waiting for others."""
        waiting, running = list(parts), set[asyncio.Task[None]]()
        try:
            while waiting or running:
                ready = [part for part in waiting if part.needs <= ended.keys()]
                waiting = [part for part in waiting if not part.needs <= ended.keys()]
                if len(ready) == 1 and not running:
                    await self._perform(ready[0], ended, heard)  # one alone needs no task of its own
                    continue
                running |= {asyncio.create_task(self._perform(part, ended, heard)) for part in ready}
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _perform(self, part: _PlanPart, ended: Ended, heard: Mapping[str, str] | None) -> None:
        if part.until:
            await self._loop(part, part.until, ended)
        else:
            (step,) = part.steps
            await self._answer(step, ended, heard)

    async def _loop(self, part: _PlanPart, until: Until, ended: Ended) -> None:
        """Round after round. One that fails leaves what the one before it came to.

        Where no step is due nothing changes, and so none would be in any round after it.
        """
        names = sorted((step.name for step in part.steps), key=part.stop.__eq__)  # whose rule it is comes last
        inner = [_PlanPart((step,), frozenset(self.needs[step.name])) for step in part.steps]
        rounds: list[dict[str, str]] = []
        kept: dict[str, str] = {}
        while True:
            now = {name: wrong for name, wrong in ended.items() if name not in names}
            await self._take(inner, now, heard=rounds[-1] if rounds else {})
            failed = next((wrong for name in names if (wrong := now[name])), None)
            if failed and not rounds:
                ended |= {name: now[name] for name in names}
                return
            if failed:
                for name, text in kept.items():
                    self._keep(name, text)
                await self.stage.log(f"round {len(rounds) + 1} of {part.stop} was not completed: {failed}")
                break
            kept = {name: self.answers[name] for name in names}
            rounds.append({name: "" if name in self.left_out else text for name, text in kept.items()})
            stands = assess(until, rounds)
            if stands.outcome == "going on" and self.left_out.issuperset(names):
                stands = Convergence("stalled", f"no step was due in round {len(rounds)} of at most {until.at_most}")
            if stands.outcome != "going on":
                await self.stage.decide(f"{part.stop} until", stands.outcome, because=stands.because)
                break
        ended |= dict.fromkeys(names)

    async def _answer(self, step: Step, ended: Ended, heard: Mapping[str, str] | None) -> None:
        """Have a step answered; `heard` is what was said in the round before, if it is in a loop."""
        try:
            for name in self.needs[step.name]:
                if wrong := ended[name]:
                    if step.name != self.last or not isinstance(wrong, BudgetSpent):
                        raise wrong
                    self._keep(name, UNANSWERED)
            if not step.when or await self._due(step, step.when):
                self.left_out.discard(step.name)
                text = await self._said(step, heard)
            else:
                self.left_out.add(step.name)
                text = self.answers.get(step.name, "")  # in a loop, what it said before
            self._keep(step.name, text, self.playbook.roles[step.role].model or step.role)
            ended[step.name] = None
        except Exception as wrong:  # noqa: BLE001 - those who need it raise it again
            ended[step.name] = wrong

    def _keep(self, name: str, text: str, model: str | None = None) -> None:
        self.answers[name] = self.values[Placeholder(name)] = text
        if model is not None:
            self.values[Placeholder(name, of_model=True)] = model

    async def _due(self, step: Step, when: Condition) -> bool:
        due = holds(when, self.answers)
        asked = canonical(when.model_dump(mode="json", exclude_defaults=True))
        because = f"{asked} {'holds' if due else 'does not hold'}"
        await self.stage.decide(f"{step.name} when", "taken" if due else "left out", because=because)
        return due

    async def _said(self, step: Step, heard: Mapping[str, str] | None) -> str:
        """What a step answers. What changes from round to round comes last, so that what does not is read from caches:
        instructions, demos, what was said before the loop, the rounds before, this round, the prompt."""
        system = fill(self.playbook.roles[step.role].system, self.values)
        prompt = fill(step.prompt, self.values) if step.prompt else _whole(self.task)
        inside = heard if heard is not None else {}
        seen = [Statement(name, self.answers[name]) for name in step.sees if self.answers[name]]
        fixed = await self._context(step, [each for each in seen if each.name not in inside], prompt)
        fresh = [each for each in seen if each.name in inside]
        if inside:
            mentioned = {step.name, *step.sees, *self.plan.mentions[step.name]}
            fresh += [Statement(name, text) for name, text in inside.items() if text and name not in mentioned]
        rounds = self.rounds.setdefault(step.name, [])
        now = [*(Message("user", str(each)) for each in fresh), Message("user", prompt)]
        before = [*_demos(step, self.stage), *self.inherited, *(Message("user", str(each)) for each in fixed), *rounds]
        last = step.name == self.last and not rounds
        turn = await self.stage.ask(step.role, prompt, before=before + now[:-1], system=system, step=step, last=last)
        text = await opened(self.stage, step, turn.text, self.task, seen) if step.opens else turn.text
        if heard is not None:
            rounds += [*now, Message("assistant", turn.text)]
        return text

    async def _context(self, step: Step, seen: list[Statement], about: str) -> list[Statement]:
        """What was seen, no longer than the step can bear; put together once for all rounds."""
        if step.context is None:
            return seen
        role, at_most = step.context.summary, step.context.at_most_tokens
        key = (step.name, *seen)
        if key not in self.contexts:
            if role is None:
                self.contexts[key] = condensed(seen, about, at_most)
            else:
                speaker = role

                async def summarise(prompt: str, tokens: int) -> str:
                    return (await self.stage.ask(speaker, prompt, step=f"{step.name}_context")).text

                try:
                    self.contexts[key] = await summarised(seen, about, at_most, summarise)
                except RunError as wrong:  # an extract is better than nothing
                    await self.stage.log(f"{step.name}: {speaker} did not sum up: {wrong}")
                    self.contexts[key] = condensed(seen, about, at_most)
        return self.contexts[key]


@dataclass(frozen=True, slots=True)
class _DialoguePlan:
    """What follows from a playbook for all its dialogues: whom each step mentions and waits for, and in which parts
    they are taken."""

    mentions: dict[str, frozenset[str]]
    needs: dict[str, list[str]]
    parts: list[_PlanPart]

    @property
    def last(self) -> str:
        return next(reversed(self.needs))


@lru_cache(maxsize=256)
def _plan(playbook: Playbook) -> _DialoguePlan:
    mentions = {step.name: frozenset(_mentions(playbook, step)) for step in playbook.all_steps()}
    needs = _needs(playbook, mentions)
    return _DialoguePlan(mentions, needs, _parts(playbook, needs))


def _mentions(playbook: Playbook, step: Step) -> Iterator[str]:
    for text in (step.prompt, playbook.roles[step.role].system):
        yield from (each.name for each in placeholders(text))


def _needs(playbook: Playbook, mentions: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """The steps that each step waits for: those it refers to, or else all of the groups before its own."""
    needs: dict[str, list[str]] = {}
    earlier: list[str] = []
    for group in playbook.plan:
        for step in group:
            referred = {*step.sees, *mentions[step.name], *_tested(step)}
            needs[step.name] = [name for name in earlier if name in referred] or list(earlier)
        earlier += [step.name for step in group]
    return needs


def _tested(step: Step) -> Iterator[str]:
    """The steps that conditions of this one are about."""
    conditions: list[Condition] = [each for each in (step.when, step.until) if each]
    while conditions:
        each = conditions.pop()
        conditions += [*each.all, *each.any]
        if each.step:
            yield each.step


def _parts(playbook: Playbook, needs: Mapping[str, list[str]]) -> list[_PlanPart]:
    """The plan in parts: loops, and the steps that are in none."""
    plan = playbook.plan
    group_of = {step.name: number for number, group in enumerate(plan) for step in group}
    loops = {
        range(group_of[step.until.back_to], group_of[step.name] + 1): step
        for step in playbook.all_steps()
        if step.until and step.until.back_to
    }
    parts: list[_PlanPart] = []
    for number, group in enumerate(plan):
        within = next(((span, step) for span, step in loops.items() if number in span), None)
        if within is None:
            parts += [_PlanPart((step,), frozenset(needs[step.name]), step.until, step.name) for step in group]
        elif number == within[0].start:
            span, stop = within
            steps = tuple(step for inner in plan[span.start : span.stop] for step in inner)
            outside = {name for step in steps for name in needs[step.name]} - {step.name for step in steps}
            parts.append(_PlanPart(steps, frozenset(outside), stop.until, stop.name))
    return parts


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
