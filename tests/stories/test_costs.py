"""A run never costs more than it may: random dialogues, prices and limits, and models that take all they can get.

Every case is made from its number alone, and a failure tells it: `one_case(number)` does the same again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

from seedbed.errors import BudgetSpent, ModelUnavailable
from seedbed.models.calling.limits import ModelLimits, Retry, Tolerance
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.run import Run, Turn
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

RUNS = 1_000
BATCHES = 10
A_TRIFLE = 1e-9
REFUSED = "Raise the limit"
"""How it is told that there was no money for something."""


class Greedy(BaseChatModel):
    """Reads as many tokens as there can be in what it is told, and writes up to all that it may: at random.

    Some calls fail, and of those that run out of time the provider wants to be paid.
    """

    habits: str
    fails: float = 0.0
    usd_per_million: tuple[float, float]
    answers: int = 1_000_000
    """After so many nobody is answered any more."""
    _calls: int = PrivateAttr(default=0)
    _charged_usd: float = PrivateAttr(default=0.0)

    @property
    def _llm_type(self) -> str:
        return "greedy"

    @property
    def charged_usd(self) -> float:
        return self._charged_usd

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    def _charge(self, read: int, written: int) -> None:
        self._charged_usd += (read * self.usd_per_million[0] + written * self.usd_per_million[1]) / 1e6

    async def _answer(self, messages: list[BaseMessage], max_tokens: int | None) -> tuple[str, dict[str, Any], bool]:
        """An answer, its usage, and whether it breaks off."""
        assert max_tokens is not None, "whoever has a limit says how long an answer may be"
        self._calls += 1
        if self._calls > self.answers:
            await asyncio.Event().wait()
        chance = random.Random(f"{self.habits} {self._calls}")
        for _ in range(chance.choice([0, 1, 1, 3, 10])):
            await asyncio.sleep(0)
        size = [len(str(message.text).encode()) for message in messages]
        usual, most = sum(each // 4 for each in size), sum(each + 16 for each in size)
        if chance.random() < self.fails:
            if chance.random() < 0.5:
                raise ConnectionError("refused")
            self._charge(chance.choice([usual, most]), max_tokens)
            raise TimeoutError
        read = chance.choice([usual, most, chance.randint(0, most)])
        written = chance.choice([max_tokens, max_tokens, chance.randint(0, max_tokens)])
        text = "".join(f"- point {n}\n" for n in range(chance.randint(1, 4))) if chance.random() < 0.5 else ""
        text += " ".join(chance.choices(["so", "it", "is", "8", "nevertheless", "übrigens"], k=min(written, 12)))
        usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        return text, usage, chance.random() < self.fails

    async def _agenerate(
        self, messages: list[BaseMessage], *_: Any, max_tokens: int | None = None, **__: Any
    ) -> ChatResult:
        text, usage, _breaks_off = await self._answer(messages, max_tokens)
        self._charge(usage["input_tokens"], usage["output_tokens"])
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))])  # type: ignore[arg-type]

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, max_tokens: int | None = None, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        text, usage, breaks_off = await self._answer(messages, max_tokens)
        if breaks_off:
            written = min(len(text) // 5, usage["output_tokens"])
            self._charge(sum(len(str(message.text).encode()) // 4 for message in messages), written)
            yield ChatGenerationChunk(message=AIMessageChunk(content=text[: len(text) // 2]))
            raise ConnectionResetError("broken off")
        self._charge(usage["input_tokens"], usage["output_tokens"])
        yield ChatGenerationChunk(message=AIMessageChunk(content=text))
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=usage))  # type: ignore[arg-type]


# Cases made of chance


def cards(chance: random.Random, number: int) -> dict[str, Any]:
    """Three models of different prices; some stand in for others, some fail."""
    fails = chance.choice([0.0, 0.0, 0.1, 0.3])
    made: dict[str, Any] = {}
    names = chance.sample(["one", "two", "three"], 3)
    for place, name in enumerate(names, 1):
        prices = [chance.choice([0.0, 10 ** chance.uniform(-2, 3)]) for _ in range(2)]
        made[name] = {
            "use": f"{__name__}.Greedy",
            "args": {"habits": f"{number} {name}", "fails": fails, "usd_per_million": prices},
            "usd_per_million": prices,
            "skill": {"thinking": chance.random()},
            "then": chance.sample(names[place:], chance.randint(0, 3 - place)),
        }
    return made


def playbook(chance: random.Random) -> Playbook:
    """Steps alone and together, loops, and steps that open others like it."""
    roles: dict[str, Any] = {}
    for name in ("a", "b", "c"):
        roles[name] = chance.choice([{"model": "one"}, {"model": "two"}, {"model": "three"}, {"needs": ["thinking"]}])
        if chance.random() < 0.6:
            roles[name] = {**roles[name], "max_tokens": chance.choice([1, 20, 300, 5_000])}
    names: list[str] = []
    items: list[Any] = []

    def step() -> dict[str, Any]:
        seen = chance.sample(names, min(len(names), chance.randint(0, 2)))
        made: dict[str, Any] = {"name": f"s{len(names) + len(block)}", "role": chance.choice(["a", "b", "c"])}
        made["prompt"] = " ".join(["{q}", "on" * chance.randint(1, 30), *(f"{{{name}}}" for name in seen)])
        if chance.random() < 0.3:
            made["max_cost_usd"] = 10 ** chance.uniform(-6, 0)
        if chance.random() < 0.15:
            made["quality"] = "maximum"
        return made

    for _ in range(chance.randint(2, 4)):
        block: list[dict[str, Any]] = []
        for _ in range(chance.choice([1, 1, 2, 3])):
            block.append(step())
        names += [each["name"] for each in block]
        items.append(block[0] if len(block) == 1 else {"together": block})
    single = [number for number, item in enumerate(items) if "together" not in item]
    if single and chance.random() < 0.5:
        end = chance.choice(single)
        start = chance.randint(0, end)
        first = items[start]["together"][0] if "together" in items[start] else items[start]
        rule = chance.choice([{"settled": 0.9}, {"at_least": 8}, {}])
        items[end]["until"] = {"back_to": first["name"], "at_most": chance.randint(1 + ("settled" in rule), 3), **rule}
    if single and chance.random() < 0.6:
        depth = chance.randint(1, 3)
        items[chance.choice(single)]["opens"] = {"input": "q", "depth": depth, "at_most": chance.randint(1, 5 - depth)}
    return Playbook.from_document({"inputs": ["q"], "roles": roles, "steps": items})


def workspace(models: dict[str, Any], store: MemoryStore | None = None) -> Workspace:
    space = Workspace(Settings.model_validate({"models": models, "by": "ada"}), store or MemoryStore())
    patient = Tolerance(failures=1_000_000, share=1.1)
    space.resources.runner.limits = ModelLimits(retry=Retry(tries=3, first_seconds=0.0), tolerance=patient)
    return space


async def outcome(space: Workspace, doing: Any) -> tuple[Run, Exception | None]:
    """The run that all others are under, also if it failed."""
    wrong: Exception | None = None
    try:
        async with asyncio.timeout(30):
            await doing
    except (BudgetSpent, ModelUnavailable) as error:
        wrong = error
    (top,) = [fact for fact in space.store.facts(Query(kind="start")) if not fact.body["parent"]]
    return recall(space.store, top.key), wrong


def all_turns(space: Workspace) -> list[Turn]:
    return [Turn.from_body(fact.body) for fact in space.store.facts(Query(kind="turn"))]


def paid_usd(space: Workspace) -> float:
    """What all turns cost, those too that nobody answered."""
    return sum(fact.body["cost_usd"] for kind in ("turn", "failure") for fact in space.store.facts(Query(kind=kind)))


def charged_usd(space: Workspace) -> float:
    return sum(chat.charged_usd for name in space.models if isinstance(chat := space.models[name].chat, Greedy))


def told(space: Workspace) -> str:
    """All that was said about what could not be done."""
    remarks = [fact.body["text"] for fact in space.store.facts(Query(kind="remark"))]
    notices = [notice for turn in all_turns(space) for notice in turn.notices]
    errors = [fact.body["error"] for fact in space.store.facts(Query(kind="run"))]
    return "\n".join([*remarks, *notices, *errors])


async def one_case(number: int) -> str:
    """Whatever happens in a run, it costs no more than it may, and says so if that was too little."""
    chance = random.Random(f"costs {number}")
    space = workspace(cards(chance, number))
    plan, limit = playbook(chance), 10 ** chance.uniform(-6, 1)
    on_event = chance.choice([None, None, lambda _: None])
    run, wrong = await outcome(space, space.run(plan, q="why", seed=number, max_cost_usd=limit, on_event=on_event))
    turns, paid = all_turns(space), paid_usd(space)
    assert paid <= limit + A_TRIFLE
    if on_event is None:  # what a stream that broke off will be charged nobody knows
        assert charged_usd(space) <= paid + A_TRIFLE, "nothing is charged that is in no fact"
    assert charged_usd(space) <= limit + A_TRIFLE
    at_most = {step.name: step.max_cost_usd for step in plan.all_steps()}
    for turn in turns:
        assert turn.cost_usd <= (at_most[turn.step] or limit) + A_TRIFLE, turn.step
    assert run.cost_usd == pytest.approx(paid, abs=A_TRIFLE), "the run tells what it and those under it cost"
    refused = REFUSED in told(space)
    assert run.status != "running"
    if refused and not isinstance(wrong, ModelUnavailable):
        assert run.status == "cost_limited"
    if run.status == "cost_limited":
        assert refused, "it is told what there was no money for"
    if run.status == "cost_limited" and any(turn.text.strip() for turn in run.turns):
        assert run.output
        assert wrong is None
    if isinstance(wrong, ModelUnavailable):
        assert run.status == "failed"
    return run.status


@pytest.mark.parametrize("batch", range(BATCHES))
async def test_a_thousand_random_runs_never_cost_more_than_they_may(batch: int) -> None:
    ends = {"completed": 0, "cost_limited": 0, "failed": 0}
    for number in range(batch * RUNS // BATCHES, (batch + 1) * RUNS // BATCHES):
        try:
            ends[await one_case(number)] += 1
        except Exception as wrong:
            wrong.add_note(f"one_case({number})")
            raise
    assert ends["completed"] > 10
    assert ends["cost_limited"] > 10


async def one_interrupted(number: int) -> bool:
    """A run that is taken up again costs no more than it may with what it had cost before; whether it was."""
    chance = random.Random(f"interrupted {number}")
    models, plan = cards(chance, number), playbook(chance)
    limit, answers = 10 ** chance.uniform(-5, 0), chance.randint(0, 3)
    halting = {name: {**card, "args": {**card["args"], "answers": answers}} for name, card in models.items()}
    before = workspace(halting)
    running = asyncio.ensure_future(before.run(plan, q="why", seed=number, max_cost_usd=limit))
    known: dict[str, int] = {}
    while not running.done() and ("start" not in known or before.store.kinds() != known):
        known = before.store.kinds()
        await asyncio.sleep(0.05)  # until nobody is answered any more
    if running.done():
        return running.exception() is None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    after = workspace(models, before.store)
    (top,) = [fact for fact in after.store.facts(Query(kind="start")) if not fact.body["parent"]]
    run, _ = await outcome(after, after.runs.resume(top.key, max_cost_usd=limit))
    paid = paid_usd(after)
    assert paid <= limit + A_TRIFLE
    assert run.cost_usd == pytest.approx(paid, abs=A_TRIFLE)
    return True


async def test_runs_that_are_taken_up_again_never_cost_more_than_they_may_either() -> None:
    for number in range(200):
        try:
            await one_interrupted(number)
        except Exception as wrong:
            wrong.add_note(f"one_interrupted({number})")
            raise


async def test_what_was_paid_before_an_interruption_counts_before_anything_is_asked_again() -> None:
    """The one that is asked again is first in order; what the other cost is known all the same."""
    prices = (0.0, 100.0)

    def models(slow_answers: int) -> dict[str, Any]:
        return {
            name: {
                "use": f"{__name__}.Greedy",
                "args": {"habits": "all of it", "usd_per_million": prices, "answers": answers},
                "usd_per_million": prices,
            }
            for name, answers in (("slow", slow_answers), ("quick", 9))
        }

    block = [{"name": f"by_{name}", "role": name, "prompt": "{q}"} for name in ("slow", "quick")]
    roles = {name: {"model": name, "max_tokens": 4_000} for name in ("slow", "quick")}
    plan = Playbook.from_document({"roles": roles, "steps": [{"together": block}]})
    before = workspace(models(0))
    running = asyncio.ensure_future(before.run(plan, q="why", seed=1, max_cost_usd=1.0))
    while not all_turns(before):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    (turn,) = all_turns(before)
    assert turn.cost_usd == pytest.approx(0.4)

    after = workspace(models(9), before.store)
    (top,) = after.store.facts(Query(kind="start"))
    run = await after.runs.resume(top.key, max_cost_usd=0.5)
    assert run.status == "cost_limited"
    assert run.cost_usd <= 0.5


class Late(Greedy):
    """Wants to be paid for all that it may write, and never says it."""

    async def _answer(self, messages: list[BaseMessage], max_tokens: int | None) -> tuple[str, dict[str, Any], bool]:
        assert max_tokens is not None
        self._charge(0, max_tokens)
        raise TimeoutError


def late(**quota: Any) -> Workspace:
    """A workspace with one model, which costs $0.001 for each of three tries."""
    args = {"habits": "late", "usd_per_million": (0.0, 10.0)}
    model = {"use": f"{__name__}.Late", "args": args, "usd_per_million": (0.0, 10.0)}
    space = Workspace(Settings.model_validate({"models": {"one": model}, "by": "ada", "quota": quota}), MemoryStore())
    space.resources.runner.limits = ModelLimits(
        retry=Retry(tries=3, first_seconds=0.0), tolerance=Tolerance(failures=1_000_000)
    )
    return space


ASKS = Playbook.from_document(
    {"roles": {"a": {"model": "one", "max_tokens": 100}}, "steps": [{"name": "s", "role": "a", "prompt": "{q}"}]}
)


async def test_what_a_turn_cost_that_nobody_answered_is_part_of_what_the_run_cost() -> None:
    space = late()
    run, wrong = await outcome(space, space.run(ASKS, q="why", seed=1))
    assert isinstance(wrong, ModelUnavailable)
    assert run.turns == ()
    assert run.cost_usd == pytest.approx(0.003) == pytest.approx(charged_usd(space))
    (failure,) = run.failures
    assert (failure.step, failure.role, failure.cost_usd) == ("s", "a", pytest.approx(0.003))
    assert "TimeoutError" in failure.error
    (end,) = space.store.facts(Query(kind="run"))
    assert end.body["cost_usd"] == end.value == pytest.approx(0.003)


async def test_what_nobody_answered_counts_against_the_quota_here_and_in_the_next_process() -> None:
    space = late(usd_per_day=0.002)
    await outcome(space, space.run(ASKS, q="why", seed=1))
    with pytest.raises(BudgetSpent, match="spent within a day"):
        await space.run(ASKS, q="why", seed=2)
    with pytest.raises(BudgetSpent, match="spent within a day"):
        await Workspace(space.settings, space.store).run(ASKS, q="why", seed=2)


async def test_a_run_that_is_taken_up_again_may_cost_what_it_might_when_it_started() -> None:
    """With what nobody answered. Another limit can be given."""
    space = late()
    run, _ = await outcome(space, space.run(ASKS, q="why", seed=1, max_cost_usd=0.0045))
    assert run.max_cost_usd == 0.0045
    again, wrong = await outcome(space, space.runs.resume(run.id))
    assert isinstance(wrong, BudgetSpent | ModelUnavailable)
    assert charged_usd(space) == pytest.approx(again.cost_usd)
    assert 0.003 < again.cost_usd <= 0.0045
    more, _ = await outcome(space, space.runs.resume(run.id, max_cost_usd=0.1))
    assert 0.0045 < more.cost_usd == pytest.approx(charged_usd(space))


# Half a dollar


@pytest.mark.parametrize("prices", [(0.15, 0.6), (3.0, 15.0), (15.0, 75.0)], ids=["small", "large", "dear"])
async def test_half_a_dollar_pays_three_turns_and_a_conclusion_and_the_run_says_that_it_was_not_enough(
    prices: tuple[float, float],
) -> None:
    """Models that write as much as they may, at prices of small, large and dear ones."""
    model = {"use": f"{__name__}.Greedy", "args": {"habits": "x", "usd_per_million": prices}, "usd_per_million": prices}
    steps: list[Any] = [{"name": f"s{n}", "role": "a", "prompt": f"{{q}} part {n}"} for n in range(400)]
    last = {"name": "end", "role": "a", "prompt": "So, {q} Say it in short."}
    space = workspace({"one": model})
    plan = Playbook.from_document({"inputs": ["q"], "roles": {"a": {"model": "one"}}, "steps": [*steps, last]})
    run = await space.run(plan, q="why?", seed=1, max_cost_usd=0.5)
    assert run.status == "cost_limited"
    assert len(run.turns) >= 3
    assert run.turns[-1].step == "end"
    assert run.output == run.turns[-1].text != ""
    assert 0.25 < charged_usd(space) <= 0.5
    assert charged_usd(space) <= run.cost_usd + A_TRIFLE  # the larger of their count and ours
