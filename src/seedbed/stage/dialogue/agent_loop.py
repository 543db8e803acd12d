"""Agent loop: a step whose model calls tools until it answers, within the limits of the step."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from seedbed.errors import ActionForbidden, BudgetSpent, RunError
from seedbed.models.chat import Message, OutputForm
from seedbed.playbooks.playbook import Step
from seedbed.playbooks.steps.schemas import misfit, read_answer
from seedbed.playbooks.steps.tool_use import CallLimits
from seedbed.playbooks.values import thaw
from seedbed.runs.run import Turn
from seedbed.stage.stage import Stage
from seedbed.stage.turns.model_turns import TurnOptions, answer_message
from seedbed.storage.store import Json, canonical, digest

MOST_CHARACTERS = 20_000
"""How much of a result a model reads; the record has all of it."""

REPEATS = 3
"""So many rounds running with the same calls end the loop: they will not bring anything new."""


async def answer_step(stage: Stage, step: Step, messages: Sequence[Message], *, last: bool) -> Turn:
    """Ask a step, perform the calls that it answers, and ask again with their results; until it answers, in the form
    that the step says.

    When its rounds or the money are spent, or it asks for the same calls again and again, it is asked once more and may
    call nothing. An answer of another form is shown to it, with what is wrong. Raises RunError if none is right.
    """
    schema = thaw(step.output)
    form = OutputForm(digest("schema", schema), schema) if schema else None
    said, rounds, repairs, over = list(messages), list[list[Json]](), 0, False
    while True:
        turn, over = await _ask(stage, step, said, rounds, TurnOptions(form=form, last=last))
        if turn.calls and not over:
            said += [answer_message(turn), *await _perform(stage, step, turn)]
            rounds.append([{name: each[name] for name in ("tool", "arguments")} for each in turn.calls])
        elif form is None or turn.value is not None:
            return turn
        else:
            wrong = read_answer(turn.text, form.schema)[1]
            if repairs == step.repair:
                raise RunError(f"step {step.name}: {wrong}; expected what steps.{step.name}.output says. Raise repair")
            repairs += 1
            said += [Message("assistant", turn.text), Message("user", f"{wrong}. Answer again, as it was asked for.")]


async def _ask(
    stage: Stage, step: Step, said: Sequence[Message], rounds: Sequence[list[Json]], options: TurnOptions
) -> tuple[Turn, bool]:
    """The next turn of a step, and whether it was the one that may call nothing."""
    tools, limits = stage.playbook.tools_of(step), step.calls or CallLimits()
    if not tools:
        return await stage.turn(step.role, said, options, step=step), True
    over = _is_over(limits, rounds)
    if not over:
        try:
            free = replace(options, offer=stage.offer(tools), last=False)
            return await stage.turn(step.role, said, free, step=step), False
        except BudgetSpent as spent:
            if not options.last:
                raise
            over = "budget", str(spent)
    await stage.decide(f"{step.name} calls", over[0], because=over[1])
    if limits.then == "fail":
        raise RunError(f"step {step.name}: found no answer, {over[1]}; expected one. Raise calls.at_most")
    return await stage.turn(step.role, said, replace(options, offer=stage.offer(tools, "none")), step=step), True


def _is_over(limits: CallLimits, rounds: Sequence[list[Json]]) -> tuple[str, str] | None:
    """Why the model may call no more, as a word and in words."""
    if len(rounds) >= limits.at_most:
        return "at_most", f"it called tools in {len(rounds)} rounds, calls.at_most"
    if len(rounds) >= REPEATS and all(each == rounds[-1] for each in rounds[-REPEATS:]):
        return "repeats", f"it asked for the same calls in {REPEATS} rounds running"
    return None


async def _perform(stage: Stage, step: Step, turn: Turn) -> list[Message]:
    """The results of the calls of a turn, in their order.

    All permissions and questions to people come before any call starts. Then reading calls run at the same time;
    changing ones keep their order and never overlap. A call that is refused or does not fit is not made: the model is
    told why.
    """
    offer = stage.offer(stage.playbook.tools_of(step))
    offered = offer.tools if offer else {}
    results: dict[int, Message] = {}
    permitted: list[int] = []
    for place, each in enumerate(turn.calls):
        problem = _misfit(each, offered)
        if not problem:
            try:
                await stage.require_permission(each["tool"], each["arguments"])
                permitted.append(place)
            except ActionForbidden as refused:
                problem = str(refused)
        if problem:
            results[place] = Message("tool", _cut(problem), call=each["id"], failed=True)
    room = asyncio.Semaphore((step.calls or CallLimits()).parallel)

    async def perform(*places: int) -> None:
        for place in places:
            each = turn.calls[place]
            async with room:
                done = await stage.use(each["tool"], each["arguments"], each["id"])
            text = done.error or (done.result if isinstance(done.result, str) else canonical(done.result))
            results[place] = Message("tool", _cut(text), call=each["id"], failed=bool(done.error))

    changing = [place for place in permitted if offered[turn.calls[place]["tool"]]["changes"]]
    reading = [perform(place) for place in permitted if place not in changing]
    outcomes = await asyncio.gather(*reading, perform(*changing), return_exceptions=True)
    for outcome in outcomes:  # only now, so that no call is cut off by the failure of another
        if isinstance(outcome, BaseException):
            raise outcome
    return [results[place] for place in sorted(results)]


def _misfit(call: Json, offered: Mapping[str, Mapping[str, Any]]) -> str:
    """Why a call cannot be made; empty if it can."""
    if call["tool"] not in offered:
        return f"found no tool {call['tool']!r}; expected one of: {', '.join(offered)}"
    if call["arguments"] is None:
        return f"found arguments that are no JSON object: {call.get('unreadable', '')}"
    return misfit(call["arguments"], offered[call["tool"]]["parameters"], "arguments")


def _cut(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}\n[cut off here: the whole result has {len(text):,} characters]"
