"""Dialogue: the built-in program. It performs the steps of a playbook, each as soon as it can."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from seedbed.errors import BudgetSpent, ModelUnavailable, PlaybookError, Problem, RunError
from seedbed.models.chat import Message
from seedbed.playbooks.conditions import Condition, Until
from seedbed.playbooks.playbook import Playbook, Step
from seedbed.playbooks.prompts import Placeholder, fields, fill, placeholders
from seedbed.playbooks.steps.schemas import within
from seedbed.stage.dialogue.adaptation import Convergence, assess, holds
from seedbed.stage.dialogue.agent_loop import answer_step
from seedbed.stage.dialogue.children import INHERITED, STOPPING, open_children
from seedbed.stage.dialogue.context import Statement, condense, summarise
from seedbed.stage.stage import Stage
from seedbed.stage.turns.model_turns import TurnOptions
from seedbed.storage.store import canonical

UNANSWERED = "(not answered: the budget was spent)"

MODEL_FAILURES = (ModelUnavailable, BudgetSpent)
"""What a dialogue can go on without."""

Ended = dict[str, Exception | None]
"""The steps that have ended, with their errors."""


async def dialogue(task: Mapping[str, Any], stage: Stage) -> Any:
    """Ask every step as soon as the steps it refers to have ended; the answer of the last one is the output,
    a structured one as its value.

    A step that refers to no other waits for all before it. A failed step fails only those that need it. When the money
    runs out, the last step concludes from the answers there are.
    """
    stage.playbook.check_inputs(task)
    if not stage.playbook.plan:
        remedy = "Add steps, or name what performs it: program= in Python, --program module:function in a command."
        raise PlaybookError([Problem("steps", "nothing to perform", "at least one step", remedy)])
    work = _Dialogue(task, stage)
    ended: Ended = {}
    await work.perform(work.plan.parts, ended)
    answers, last = work.answers, work.last
    texts = [text for text in answers.values() if text and text != UNANSWERED]
    error = ended[last]
    fatal = error and not (isinstance(error, BudgetSpent) and texts)
    for name, wrong in ended.items():
        if wrong and not (fatal and name == last):
            await stage.log(f"{name} was not answered: {wrong}")
    if error and fatal:
        raise error
    text = texts[-1] if texts and (error or not answers[last]) else answers[last]
    return work.structured[last] if last in work.structured and text == answers[last] else text


@dataclass(frozen=True, slots=True)
class _PlanPart:
    """A unit of the plan: one step, or the steps of a loop. It begins when all steps it needs have ended."""

    steps: tuple[Step, ...]
    needs: frozenset[str]
    until: Until | None = None
    stop: str = ""
    """The step whose `until` ends the loop."""


class _Dialogue:
    def __init__(self, task: Mapping[str, Any], stage: Stage) -> None:
        self.stage = stage
        self.playbook = stage.playbook
        self.task = {name: value for name, value in task.items() if name != INHERITED or not stage.depth}
        self.values = {Placeholder(name): text_of(value) for name, value in task.items()}
        self.answers: dict[str, str] = {}
        self.structured: dict[str, Any] = {}
        """The values of structured answers."""
        self.left_out: set[str] = set()
        """The steps whose `when` did not hold when it was last checked."""
        self.plan = _plan(self.playbook)
        self.needs, self.last = self.plan.needs, self.plan.last
        self.rounds: dict[str, list[Message]] = {}
        """The messages of each step of a loop in the rounds before."""
        self.contexts: dict[tuple[object, ...], list[Statement]] = {}
        named = stage.depth and any(INHERITED in names for names in self.plan.mentions.values())
        inherited = stage.depth and not named and task.get(INHERITED)
        self.inherited = [Message("user", f"What is known so far:\n{text_of(inherited)}")] if inherited else []

    async def perform(
        self, parts: Sequence[_PlanPart], ended: Ended, *, previous: Mapping[str, str] | None = None
    ) -> None:
        """Perform parts as soon as they can be; `previous` are the answers of the round before, within a loop."""
        waiting, running = list(parts), set[asyncio.Task[None]]()
        try:
            while waiting or running:
                ready = [part for part in waiting if part.needs <= ended.keys()]
                waiting = [part for part in waiting if not part.needs <= ended.keys()]
                work = [
                    self._loop(part, part.until, ended) if part.until else self._answer(part.steps[0], ended, previous)
                    for part in ready
                ]
                if len(work) == 1 and not running:
                    await work[0]  # one alone needs no task
                    continue
                running |= {asyncio.create_task(each) for each in work}
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _loop(self, part: _PlanPart, until: Until, ended: Ended) -> None:
        """Perform round after round. If a model fails in one, the answers of the round before it stay.

        If no step of a round was due, nothing changed, and none would be due in a later round.
        """
        names = sorted((step.name for step in part.steps), key=part.stop.__eq__)  # the step with the rule comes last
        inner = [_PlanPart((step,), frozenset(self.needs[step.name])) for step in part.steps]
        rounds: list[dict[str, str]] = []
        answers: dict[str, str] = {}
        while True:
            now = {name: error for name, error in ended.items() if name not in names}
            await self.perform(inner, now, previous=rounds[-1] if rounds else {})
            failed = [error for name in names if (error := now[name])]
            if failed and not (rounds and all(isinstance(error, MODEL_FAILURES) for error in failed)):
                ended |= {name: now[name] for name in names}
                return
            if failed:
                for name, text in answers.items():
                    self._set_answer(name, text)
                await self.stage.log(f"round {len(rounds) + 1} of {part.stop} was not completed: {failed[0]}")
                break
            answers = {name: self.answers[name] for name in names}
            rounds.append({name: "" if name in self.left_out else text for name, text in answers.items()})
            convergence = assess(until, rounds)
            if convergence.outcome == "going on" and self.left_out.issuperset(names):
                because = f"no step was due in round {len(rounds)} of at most {until.at_most}"
                convergence = Convergence("stalled", because)
            if convergence.outcome != "going on":
                await self.stage.decide(f"{part.stop} until", convergence.outcome, because=convergence.because)
                break
        ended |= dict.fromkeys(names)

    async def _answer(self, step: Step, ended: Ended, previous: Mapping[str, str] | None) -> None:
        """Ask a step if it is due; `previous` are the answers of the round before, if it is in a loop."""
        try:
            for name in self.needs[step.name]:
                if error := ended[name]:
                    if step.name != self.last or not isinstance(error, BudgetSpent):
                        raise error
                    self._set_answer(name, UNANSWERED)
            if not step.when or await self._is_due(step, step.when):
                self.left_out.discard(step.name)
                seen, before, fresh = await self._messages(step, previous)
                rounds = self.rounds.setdefault(step.name, [])
                system = fill(self.playbook.roles[step.role].system, self.values)
                last = step.name == self.last and not rounds
                messages = [*self.stage.instructions(step.role, system), *before, *fresh]
                if step.output is None and not self.playbook.tools_of(step):
                    turn = await self.stage.turn(step.role, messages, TurnOptions(last=last), step=step)
                else:
                    turn = await answer_step(self.stage, step, messages, last=last)
                if turn.calls and not turn.text.strip():
                    raise RunError(f"step {step.name}: found calls of tools where it may call none; expected an answer")
                text = turn.text if turn.value is None else canonical(turn.value)
                self._set_fields(step.name, turn.value)
                if step.opens:
                    text = await open_children(self.stage, step, text, self.task, seen)
                if previous is not None:
                    rounds += [*fresh, Message("assistant", turn.text)]
            else:
                self.left_out.add(step.name)
                text = self.answers.get(step.name, "")  # in a loop, its answer of the round before
            self._set_answer(step.name, text, self.playbook.roles[step.role].model or step.role)
            ended[step.name] = None
        except STOPPING:
            raise
        except Exception as error:  # noqa: BLE001 - the steps that need it raise it again
            ended[step.name] = error

    def _set_answer(self, name: str, text: str, model: str | None = None) -> None:
        self.answers[name] = self.values[Placeholder(name)] = text
        if model is not None:
            self.values[Placeholder(name, of_model=True)] = model

    def _set_fields(self, name: str, value: Any) -> None:
        """Let prompts use the fields of a structured answer."""
        if value is not None:
            self.structured[name] = value
            for each in self.plan.fields.get(name, ()):
                part = within(value, each.path)
                self.values[each] = "" if part is None else text_of(part)

    async def _is_due(self, step: Step, when: Condition) -> bool:
        due = holds(when, self.answers)
        condition = canonical(when.model_dump(mode="json", exclude_defaults=True))
        because = f"{condition} {'holds' if due else 'does not hold'}"
        await self.stage.decide(f"{step.name} when", "taken" if due else "left out", because=because)
        return due

    async def _messages(
        self, step: Step, previous: Mapping[str, str] | None
    ) -> tuple[list[Statement], list[Message], list[Message]]:
        """The statements that a step sees, the messages before this round, and those of this round with the prompt.

        What changes from round to round comes last, so that providers read the rest from their caches: demos, what was
        said before the loop, the rounds before, this round, the prompt.
        """
        prompt = fill(step.prompt, self.values) if step.prompt else _task_text(self.task)
        inside = previous if previous is not None else {}
        seen = [Statement(name, self.answers[name]) for name in step.sees if self.answers[name]]
        fixed = await self._context(step, [each for each in seen if each.name not in inside], prompt)
        fresh = [each for each in seen if each.name in inside]
        if inside:
            mentioned = {step.name, *step.sees, *self.plan.mentions[step.name]}
            fresh += [Statement(name, text) for name, text in inside.items() if text and name not in mentioned]
        context = [Message("user", str(each)) for each in fixed]
        before = [*_demos(step, self.stage), *self.inherited, *context, *self.rounds.get(step.name, ())]
        return seen, before, [*(Message("user", str(each)) for each in fresh), Message("user", prompt)]

    async def _context(self, step: Step, seen: list[Statement], about: str) -> list[Statement]:
        """What a step sees, no longer than its context allows; the same for all rounds."""
        if step.context is None:
            return seen
        role, at_most = step.context.summary, step.context.at_most_tokens
        key = (step.name, *seen)
        if key not in self.contexts:
            if role is None:
                self.contexts[key] = condense(seen, about, at_most)
            else:
                speaker = role

                async def ask(prompt: str, tokens: int) -> str:
                    return (await self.stage.ask(speaker, prompt, step=f"{step.name}_context")).text

                try:
                    self.contexts[key] = await summarise(seen, about, at_most, ask)
                except MODEL_FAILURES as error:  # an extract is better than nothing
                    await self.stage.log(f"{step.name}: {speaker} did not sum up: {error}")
                    self.contexts[key] = condense(seen, about, at_most)
        return self.contexts[key]


@dataclass(frozen=True, slots=True)
class _DialoguePlan:
    """What all dialogues of a playbook share: the steps that each step mentions and needs, and the parts."""

    mentions: dict[str, frozenset[str]]
    needs: dict[str, list[str]]
    parts: list[_PlanPart]
    fields: dict[str, list[Placeholder]]
    """The fields of the structured answers of each step that prompts use."""

    @property
    def last(self) -> str:
        return next(reversed(self.needs))


@lru_cache(maxsize=256)
def _plan(playbook: Playbook) -> _DialoguePlan:
    mentions = {step.name: frozenset(_mentions(playbook, step)) for step in playbook.all_steps()}
    needs = _needs(playbook, mentions)
    used: dict[str, list[Placeholder]] = {}
    for text in (text for step in playbook.all_steps() for text in _texts(playbook, step)):
        for each in fields(text):
            used.setdefault(each.name, []).append(each)
    return _DialoguePlan(mentions, needs, _parts(playbook, needs), used)


def _texts(playbook: Playbook, step: Step) -> tuple[str, str]:
    return (step.prompt, playbook.roles[step.role].system)


def _mentions(playbook: Playbook, step: Step) -> Iterator[str]:
    structured = {each.name for each in playbook.all_steps() if each.output}
    for text in _texts(playbook, step):
        yield from (each.name for each in placeholders(text))
        yield from (each.name for each in fields(text) if each.name in structured)


def _needs(playbook: Playbook, mentions: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """The steps that each step waits for: those it refers to, or all steps of earlier groups if it refers to none."""
    needs: dict[str, list[str]] = {}
    earlier: list[str] = []
    for group in playbook.plan:
        for step in group:
            referred = {*step.sees, *mentions[step.name], *_condition_steps(step)}
            needs[step.name] = [name for name in earlier if name in referred] or list(earlier)
        earlier += [step.name for step in group]
    return needs


def _condition_steps(step: Step) -> Iterator[str]:
    """The steps that the conditions of a step are about."""
    conditions: list[Condition] = [each for each in (step.when, step.until) if each]
    while conditions:
        each = conditions.pop()
        conditions += [*each.all, *each.any]
        if each.step:
            yield each.step


def _parts(playbook: Playbook, needs: Mapping[str, list[str]]) -> list[_PlanPart]:
    """The parts of the plan: loops, and the steps outside of loops."""
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


def text_of(value: object) -> str:
    """A value as text for a prompt: a text unchanged, anything else as canonical JSON."""
    return value if isinstance(value, str) else canonical(value)


def _task_text(task: Mapping[str, Any]) -> str:
    """The prompt of a step without one: the inputs of the task, in the order of their names."""
    if len(task) == 1:
        return text_of(*task.values())
    return "\n".join(f"{name}: {text_of(value)}" for name, value in sorted(task.items()))


def _demos(step: Step, stage: Stage) -> list[Message]:
    messages = []
    for index, demo in enumerate(stage.playbook.demos.get(step.name, ())):
        values = {Placeholder(name): text for name, text in demo.inputs.items()}
        if missing := [str(each) for each in placeholders(step.prompt) if each not in values]:
            expected = f"what the prompt of the step needs: {', '.join(missing)}"
            names = ", ".join(demo.inputs) or "nothing"
            raise PlaybookError([Problem(f"demos.{step.name}[{index}].inputs", names, expected)])
        prompt = fill(step.prompt, values) if step.prompt else _task_text(demo.inputs)
        messages += [Message("user", prompt), Message("assistant", demo.output)]
    return messages
