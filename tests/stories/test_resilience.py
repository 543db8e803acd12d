"""Dialogues over a real connection survive what endpoints do: they hang, refuse, break off, talk nonsense and die."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest

from model_server import Answer, ModelServer, echo, serving
from seedbed.errors import ModelUnavailable
from seedbed.models.calling.fallback import Discard, ModelAnswer, ModelCall
from seedbed.models.calling.limits import ModelLimits, Retry, Tolerance
from seedbed.models.cards import Registry, fallback_chain
from seedbed.models.chat import Message
from seedbed.parallel import in_order

DIALOGUES, TURNS = 100, 4
TROUBLE = {
    "timeout": Answer(delay=3.0),
    "429": Answer(status=429, headers={"Retry-After": "0.02"}),
    "500": Answer(status=500, message="oops"),
    "cut": Answer("this is never heard to the end", cut=True),
    "garbage": Answer(body=b'{"choices": [{"mess'),
    "hang_up": Answer(hang_up=True),
}


class Unsteady:
    """Fails one request in ten, at random but the same ones in every run, whatever order they come in."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.troubles: Counter[str] = Counter()

    def __call__(self, request: dict[str, Any]) -> Answer:
        prompt = request["messages"][-1]["content"]
        self.seen[prompt] += 1
        chance = random.Random(f"1 {prompt} {self.seen[prompt]}")
        if chance.random() >= 0.1:
            return echo(request)
        trouble = chance.choice(list(TROUBLE))
        self.troubles[trouble] += 1
        return TROUBLE[trouble]


def card(server: ModelServer, **more: Any) -> dict[str, Any]:
    return {"use": "openai", "args": {"model": "m", "base_url": server.url}, **more}


async def turn(models: Registry, talk: list[Message], limits: ModelLimits, *, streaming: bool) -> ModelAnswer:
    """One turn; what a listener pieces together is what the reply says."""
    text = ""

    def listen(piece: str | Discard) -> None:
        nonlocal text
        text = "" if isinstance(piece, Discard) else text + piece

    call = ModelCall(fallback_chain(models.__getitem__, "main"), talk, limits, on_piece=listen if streaming else None)
    answer = await call.answer()
    assert not streaming or answer.reply.text == text
    return answer


async def dialogue(models: Registry, limits: ModelLimits, number: int) -> list[ModelAnswer]:
    talk, turns = [Message("system", "Repeat what you hear.")], []
    for each in range(TURNS):
        prompt = f"dialogue {number} turn {each} says something of more than one word"
        talk.append(Message("user", prompt))
        turns.append(await turn(models, talk, limits, streaming=number % 2 == 0))
        assert turns[-1].reply.text == prompt
        talk.append(Message("assistant", turns[-1].reply.text))
    return turns


@pytest.mark.slow
async def test_a_hundred_dialogues_survive_an_endpoint_that_fails_one_request_in_ten() -> None:
    limits = ModelLimits(retry=Retry(first_seconds=0.02), tolerance=Tolerance(rest_seconds=0.05))
    unsteady = Unsteady()
    with serving(script=unsteady) as server:
        models = Registry({"main": card(server, timeout_seconds=3.0)})

        async def whole(number: int) -> list[ModelAnswer]:
            return await dialogue(models, limits, number)

        dialogues = [each async for each in in_order(range(DIALOGUES), whole, at_once=20)]
    turns = [each for done in dialogues for each in done]
    assert len(turns) == DIALOGUES * TURNS
    assert set(unsteady.troubles) == set(TROUBLE)
    failed = sum(unsteady.troubles.values())
    assert 0.05 < failed / sum(unsteady.seen.values()) < 0.15
    # Each failure is known to the turn it happened in, by its kind, and none was the end of a turn.
    assert sum(len(each.attempts) for each in turns) >= failed
    assert {attempt.why for each in turns for attempt in each.attempts} == {"transient", "rate"}
    assert all(each.waited_seconds > 0 for each in turns if each.attempts)


class Clock:
    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.mark.parametrize("trouble", ["500", "hang_up", "garbage"])
async def test_while_the_first_model_is_dead_another_answers_and_the_user_is_told(trouble: str) -> None:
    clock, outage = Clock(), {"over": False}
    tolerance = Tolerance(failures=5, rest_seconds=600.0, longest_rest_seconds=600.0)
    limits = ModelLimits(retry=Retry(tries=3, first_seconds=0.01), tolerance=tolerance, clock=clock)

    def dying(request: dict[str, Any]) -> Answer:
        return echo(request) if outage["over"] else TROUBLE[trouble]

    with serving(script=dying) as dead, serving() as alive:
        models = Registry({"main": card(dead, then=["spare"]), "spare": card(alive)})
        turns = [each for number in range(10) for each in await dialogue(models, limits, number)]
        assert {each.reply.model for each in turns} == {"spare"}
        assert all(str(each.fallbacks[0]).startswith("spare was asked instead of main: ") for each in turns)
        # Three tries, two more, and it is known to be dead: nobody loses any more time on it.
        assert len(dead.requests) == 5
        assert [len(each.attempts) for each in turns] == [3, 2] + [0] * (len(turns) - 2)
        assert max(each.waited_seconds for each in turns[2:]) < limits.retry.first_seconds
        assert "because it failed 5 times in a row" in turns[-1].fallbacks[0].because

        outage["over"] = True
        clock.ahead = 600.0
        turns = await dialogue(models, limits, 10)
        assert {(each.reply.model, each.fallbacks) for each in turns} == {("main", ())}


async def test_where_both_are_dead_the_error_names_every_try_and_comes_soon() -> None:
    limits = ModelLimits(retry=Retry(tries=2, first_seconds=0.01), tolerance=Tolerance(rest_seconds=600.0))
    with serving(script=lambda _: TROUBLE["500"]) as dead:
        models = Registry({"main": card(dead, then=["spare"]), "spare": card(dead)})
        with pytest.raises(ModelUnavailable, match="no model answered") as caught:
            await dialogue(models, limits, 1)
    assert str(caught.value).count("status 500") == len(dead.requests) == 4
