"""A question finds somebody to answer it, and the user is told who did and why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from seedbed.errors import BudgetSpent, ModelUnavailable, SettingsError, Why
from seedbed.models.calling.fallback import (
    Attempt,
    Discard,
    Fallback,
    ModelAnswer,
    ModelCall,
)
from seedbed.models.calling.limits import ModelLimits, Retry, Tolerance
from seedbed.models.cards import Model, fallback_chain
from seedbed.models.chat import Message, Reply, Sampling, merge_messages
from seedbed.models.usage import Usage, estimated_tokens
from seedbed.settings import Card
from seedbed.spending.ledger import Ledger, Reservation

FAILURES: dict[str, Why] = {f"!{why}": why for why in ("transient", "rate", "credit", "context", "refused", "ours")}


class Actor(BaseChatModel):
    """Plays its part line by line, the last one for ever: text is said, "!rate 20" fails so, "…" never ends.

    Streamed, it says word by word.
    """

    heard: ClassVar[list[tuple[str, list[str], dict[str, Any]]]] = []

    part: list[str]
    who: str

    @property
    def _llm_type(self) -> str:
        return "actor"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    def _next(self, messages: Sequence[Any], given: dict[str, Any]) -> list[str]:
        self.heard.append((self.who, [f"{message.type}: {message.text}" for message in messages], given))
        turn = sum(who == self.who for who, _, _ in self.heard) - 1
        return self.part[min(turn, len(self.part) - 1)].split(" ")

    @staticmethod
    async def _word(word: str, wait: str | None) -> str:
        if word == "…":
            await asyncio.Event().wait()
        if word == "!bug":
            raise ValueError("found a bug")
        if word == "!settings":
            raise SettingsError([])
        if word in FAILURES:
            raise ModelUnavailable(f"found {word}", FAILURES[word], float(wait) if wait else None)
        return word

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> ChatResult:
        words = self._next(messages, given)
        await asyncio.sleep(0)  # as over a network: others speak meanwhile
        text = " ".join([await self._word(word, words[-1] if word != words[-1] else None) for word in words])
        usage: Any = {"input_tokens": 10, "output_tokens": len(words), "total_tokens": 10 + len(words)}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text, usage_metadata=usage))])

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        words = self._next(messages, given)
        for word in words:
            said = await self._word(word, words[-1] if word != words[-1] else None)
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{said} "))


class Time:
    """Whoever sleeps is woken at once, later."""

    now = 0.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _nothing_heard() -> None:
    Actor.heard.clear()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def limits(time: Time) -> ModelLimits:
    return ModelLimits(
        retry=Retry(tries=3, first_seconds=1.0, total_seconds=30.0),
        tolerance=Tolerance(failures=4, rest_seconds=10.0),
        clock=time.clock,
        sleep=time.sleep,
    )


def cast(**parts: Any) -> Callable[[str], Model]:
    """Models by name: each a part, or a card with one."""
    models = {}
    for who, card in parts.items():
        card = card if isinstance(card, dict) else {"part": card}
        part = card.pop("part")
        args = {"part": [part] if isinstance(part, str) else part, "who": who}
        models[who] = Model(who, Card(use=f"{__name__}.Actor", args=args, **card))
    return models.__getitem__


def asked() -> list[str]:
    return [who for who, _, _ in Actor.heard]


HELLO = [Message("user", "hello")]


async def ask_chain(
    models: Callable[[str], Model],
    name: str,
    messages: Sequence[Message],
    *,
    limits: ModelLimits,
    on_piece: Callable[[str | Discard], None] | None = None,
    **more: Any,
) -> ModelAnswer:
    options = {key: more.pop(key) for key in ("needs", "reserve") if key in more}
    call = ModelCall(
        fallback_chain(models, name), messages, limits, **options, sampling=Sampling(**more), on_piece=on_piece
    )
    return await call.answer()


REPLY = Reply(text="a", usage=Usage(1, 1), cost_usd=1.0, latency_seconds=1.0, model="b", finish_reason="stop")


def test_the_cost_has_the_answer_and_every_other_attempt() -> None:
    tries = [Attempt(model="a", why="transient", error="late", seconds=1.0, cost_usd=cost) for cost in (0.25, 0.5)]
    assert ModelAnswer(reply=REPLY, attempts=tuple(tries)).cost_usd == 1.75


def test_a_fallback_is_a_sentence() -> None:
    assert str(Fallback(requested="a", used="b", because="it rests")) == "b was asked instead of a: it rests"


async def test_the_named_model_answers_if_it_can(limits: ModelLimits) -> None:
    got = await ask_chain(cast(fast={"part": "hi", "then": ("strong",)}, strong="no"), "fast", HELLO, limits=limits)
    assert (got.reply.text, got.reply.model) == ("hi", "fast")
    assert got == ModelAnswer(reply=got.reply)
    assert asked() == ["fast"]


async def test_what_is_wished_reaches_the_model(limits: ModelLimits) -> None:
    await ask_chain(cast(fast="hi"), "fast", HELLO, limits=limits, temperature=0.5, max_tokens=7)
    assert Actor.heard[0][2] == {"temperature": 0.5, "max_tokens": 7}


async def test_a_failure_of_the_moment_is_tried_again_and_told(limits: ModelLimits, time: Time) -> None:
    models = cast(fast={"part": ["!transient", "!transient", "hi"], "then": ("strong",)}, strong="no")
    got = await ask_chain(models, "fast", HELLO, limits=limits)
    assert (got.reply.text, asked(), got.fallbacks) == ("hi", ["fast"] * 3, ())
    assert [(each.model, each.why, each.error) for each in got.attempts] == [
        ("fast", "transient", "found !transient")
    ] * 2
    assert 0 < got.waited_seconds == time.now


@pytest.mark.parametrize("why", ["credit", "context", "refused"])
async def test_what_asking_again_would_not_help_goes_to_the_next_at_once(
    why: str, limits: ModelLimits, time: Time
) -> None:
    models = cast(fast={"part": f"!{why}", "then": ("strong",)}, strong="hi")
    got = await ask_chain(models, "fast", HELLO, limits=limits)
    assert (got.reply.model, asked(), time.now) == ("strong", ["fast", "strong"], 0.0)
    assert [each.why for each in got.attempts] == [why]
    assert [str(each) for each in got.fallbacks] == [
        f'strong was asked instead of fast: it failed with: "found !{why}"'
    ]


async def test_a_fallback_says_how_often_the_other_was_tried(limits: ModelLimits) -> None:
    models = cast(fast={"part": "!transient", "then": ("strong",)}, strong="hi")
    (told,) = (await ask_chain(models, "fast", HELLO, limits=limits)).fallbacks
    assert (told.requested, told.used) == ("fast", "strong")
    assert told.because == '3 tries failed, the last one with: "found !transient"'


async def test_too_many_requests_wait_as_long_as_the_provider_says(limits: ModelLimits, time: Time) -> None:
    got = await ask_chain(cast(fast=["!rate 20", "hi"]), "fast", HELLO, limits=limits)
    assert got.reply.text == "hi"
    assert 20 <= got.waited_seconds <= 21


async def test_a_wait_that_is_too_long_goes_to_the_next_and_the_model_is_left_alone_for_it(
    limits: ModelLimits, time: Time
) -> None:
    models = cast(fast={"part": ["!rate 3600", "hi"], "then": ("strong",)}, strong="hi")
    for _ in range(3):
        assert (await ask_chain(models, "fast", HELLO, limits=limits)).reply.model == "strong"
    assert asked() == ["fast", "strong", "strong", "strong"]
    time.now = 3601
    assert (await ask_chain(models, "fast", HELLO, limits=limits)).reply.model == "fast"


async def test_a_mistake_of_ours_is_not_covered_up(limits: ModelLimits) -> None:
    models = cast(fast={"part": "!ours", "then": ("strong",)}, strong="hi")
    with pytest.raises(ModelUnavailable, match="found !ours") as caught:
        await ask_chain(models, "fast", HELLO, limits=limits)
    assert caught.value.why == "ours"
    assert asked() == ["fast"]


async def test_an_exception_that_nobody_knows_is_a_failure_of_the_model(limits: ModelLimits) -> None:
    again = cast(fast=["!bug", "hi"])
    assert (await ask_chain(again, "fast", HELLO, limits=limits)).reply.text == "hi"
    models = cast(fast={"part": "!bug", "then": ("strong",)}, strong="hi")
    assert (await ask_chain(models, "fast", HELLO, limits=limits)).reply.model == "strong"


async def test_wrong_settings_are_not_covered_up(limits: ModelLimits) -> None:
    with pytest.raises(SettingsError):
        await ask_chain(
            cast(fast={"part": "!settings", "then": ("strong",)}, strong="hi"), "fast", HELLO, limits=limits
        )
    assert asked() == ["fast"]


async def test_a_mistake_of_ours_does_not_count_against_the_model(limits: ModelLimits) -> None:
    models = cast(fast=["!ours"] * 9 + ["hi"])
    for _ in range(9):
        with pytest.raises(ModelUnavailable):
            await ask_chain(models, "fast", HELLO, limits=limits)
    assert (await ask_chain(models, "fast", HELLO, limits=limits)).reply.text == "hi"


async def test_models_that_stand_in_for_each_other_are_each_given_up_once(limits: ModelLimits) -> None:
    models = cast(
        a={"part": "!refused", "then": ("b", "c")},
        b={"part": "!refused", "then": ("a", "d")},
        c={"part": "!refused", "then": ("c", "b")},
        d={"part": "!refused"},
    )
    with pytest.raises(ModelUnavailable) as caught:
        await ask_chain(models, "a", HELLO, limits=limits)
    assert asked() == ["a", "b", "c", "d"]
    assert caught.value.why == "refused"


async def test_every_hop_of_a_longer_way_is_told(limits: ModelLimits) -> None:
    models = cast(
        a={"part": "!credit", "then": ("b",)},
        b={"part": "never", "context_tokens": 3, "then": ("c",)},
        c="hi",
    )
    got = await ask_chain(models, "a", HELLO, limits=limits, max_tokens=100)
    assert [str(each) for each in got.fallbacks] == [
        'b was asked instead of a: it failed with: "found !credit"',
        "c was asked instead of b: its context holds 3 tokens of about 106",
    ]


async def test_models_that_cannot_do_what_is_needed_are_passed_over(limits: ModelLimits) -> None:
    models = cast(
        fast={"part": "no", "can": ("labels",), "then": ("other", "strong")},
        other={"part": "no", "can": ("reasoning",)},
        strong={"part": "hi", "can": ("labels",), "skill": {"reasoning": 0.9}},
    )
    got = await ask_chain(models, "fast", HELLO, limits=limits, needs=["labels", "reasoning"])
    assert asked() == ["strong"]
    assert [each.because for each in got.fallbacks] == ["it cannot do reasoning", "it cannot do labels"]


async def test_if_no_model_can_that_is_a_mistake_of_ours(limits: ModelLimits) -> None:
    with pytest.raises(ModelUnavailable, match=r"fast was not asked: it cannot do reasoning") as caught:
        await ask_chain(cast(fast="no"), "fast", HELLO, limits=limits, needs=["reasoning"])
    assert caught.value.why == "ours"


async def test_models_whose_context_is_too_small_are_passed_over(limits: ModelLimits) -> None:
    long = [Message("user", "word " * 1000)]
    small, large = {"part": "hi", "context_tokens": 1000}, {"part": "hi", "context_tokens": 3000}
    models = cast(small={**small, "then": ("large",)}, large=large)
    assert (await ask_chain(models, "small", HELLO, limits=limits, max_tokens=500)).reply.model == "small"
    assert (await ask_chain(models, "small", long, limits=limits)).reply.model == "large"
    assert (await ask_chain(models, "small", HELLO, limits=limits, max_tokens=2000)).reply.model == "large"
    with pytest.raises(ModelUnavailable, match="Shorten the messages") as caught:
        await ask_chain(models, "small", long, limits=limits, max_tokens=2000)
    assert caught.value.why == "context"


def test_the_estimate_is_near_the_truth() -> None:
    english = "The quick brown fox jumps over the lazy dog, and nobody minds that it does so every day. " * 10
    assert 180 <= estimated_tokens(english) <= 260  # 200 in today's tokenizers
    assert estimated_tokens("half a character: \ud800") > 0


# Money


class Purse:
    """A ledger as the stage holds it, and what was paid for each try."""

    def __init__(self, limit_usd: float) -> None:
        self.ledger = Ledger(limit_usd, last_share=0.0)
        self.paid: list[tuple[str, float]] = []
        self.tokens: list[int] = []

    @asynccontextmanager
    async def __call__(
        self, model: Model, messages: Sequence[Message], wanted: int | None, *, spare: bool = False
    ) -> AsyncIterator[Reservation]:
        price = model.price()
        assert price is not None
        async with self.ledger.reserved(10, price, wanted) as held:
            yield held
        self.paid.append((model.name, held.spent_usd))
        self.tokens.append(held.spent_tokens)


async def test_who_cannot_be_paid_is_passed_over(limits: ModelLimits) -> None:
    models = cast(
        dear={"part": "no", "usd_per_million": (1e6, 1e6), "then": ("cheap",)},
        cheap={"part": "hi", "usd_per_million": (1.0, 1.0)},
    )
    purse = Purse(limit_usd=5.0)
    got = await ask_chain(models, "dear", HELLO, limits=limits, reserve=purse)
    assert asked() == ["cheap"]
    assert "$5.00 left of $5.00" in got.fallbacks[0].because
    assert purse.paid == [("cheap", got.cost_usd)]


async def test_answers_are_as_long_as_there_is_money_for(limits: ModelLimits) -> None:
    models = cast(fast={"part": "hi", "usd_per_million": (0.0, 1e4)})
    await ask_chain(models, "fast", HELLO, limits=limits, reserve=Purse(limit_usd=0.5), max_tokens=1000)
    assert Actor.heard[0][2]["max_tokens"] == pytest.approx(50, abs=1)


async def test_if_only_money_is_missing_the_budget_is_spent(limits: ModelLimits) -> None:
    dear = {"part": "no", "usd_per_million": (1e6, 1e6)}
    models = cast(a={**dear, "then": ("b", "c")}, b={**dear}, c={"part": "no", "context_tokens": 1})
    with pytest.raises(BudgetSpent, match="a was not asked"):
        await ask_chain(models, "a", HELLO, limits=limits, reserve=Purse(limit_usd=1.0))


async def test_a_try_that_ran_out_of_time_is_paid_for_in_full(limits: ModelLimits) -> None:
    models = cast(
        slow={"part": "…", "timeout_seconds": 0.01, "usd_per_million": (0.0, 100.0), "then": ("fast",)},
        fast={"part": "hi", "usd_per_million": (0.0, 100.0)},
    )
    purse = Purse(limit_usd=10.0)
    got = await ask_chain(models, "slow", HELLO, limits=limits, reserve=purse, max_tokens=40)
    assert [each.cost_usd for each in got.attempts] == [pytest.approx(0.004)] * 3
    assert [each.why for each in got.attempts] == ["transient"] * 3
    assert purse.ledger.spent_usd == pytest.approx(got.cost_usd) == pytest.approx(0.0121)
    assert (got.uncounted_tokens, got.reply.tokens) == (3 * (10 + 40), 11)
    assert purse.ledger.spent_tokens == 161


class Unpriced(Actor):
    """Answers, and says nothing of what it read and wrote."""

    async def _agenerate(self, *args: Any, **given: Any) -> ChatResult:
        result = await super()._agenerate(*args, **given)
        result.generations[0].message.usage_metadata = None  # type: ignore[attr-defined]
        return result


@pytest.mark.parametrize("part", ["…", "hi"], ids=["out of time", "of unknown cost"])
async def test_what_may_have_cost_anything_counts_as_all_that_was_held_for_it(part: str, limits: ModelLimits) -> None:
    """Ten tokens were held for the prompt; by estimate it has six."""
    card = Card(
        use=f"{__name__}.Unpriced",
        args={"part": [part], "who": "fast"},
        usd_per_million=(1e6, 1e6),
        timeout_seconds=0.01 if part == "…" else 9.0,
    )
    model = Model("fast", card)
    purse = Purse(limit_usd=100.0)
    await asyncio.gather(
        ask_chain(lambda _: model, "fast", HELLO, limits=limits, reserve=purse, max_tokens=40), return_exceptions=True
    )
    assert purse.paid[0] == ("fast", pytest.approx(50.0))
    assert purse.tokens[0] == 50


async def test_who_is_cancelled_may_have_to_pay_all_that_was_held(limits: ModelLimits) -> None:
    models = cast(fast={"part": "…", "usd_per_million": (1e6, 1e6)})
    purse = Purse(limit_usd=100.0)
    asking = asyncio.ensure_future(ask_chain(models, "fast", HELLO, limits=limits, reserve=purse, max_tokens=40))
    while not asked():
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert (purse.ledger.spent_usd, purse.ledger.spent_tokens) == (pytest.approx(50.0), 50)


async def test_a_try_that_was_refused_costs_nothing(limits: ModelLimits) -> None:
    models = cast(fast={"part": ["!transient", "hi"], "usd_per_million": (1.0, 1.0)})
    got = await ask_chain(models, "fast", HELLO, limits=limits)
    assert [each.cost_usd for each in got.attempts] == [0.0]
    assert got.cost_usd == got.reply.cost_usd > 0


# Rests


async def test_a_dead_model_is_left_alone_and_loses_nobody_any_more_time(limits: ModelLimits, time: Time) -> None:
    models = cast(dead={"part": "!transient", "then": ("alive",)}, alive="hi")
    first = await ask_chain(models, "dead", HELLO, limits=limits)
    second = await ask_chain(models, "dead", HELLO, limits=limits)
    assert (len(first.attempts), len(second.attempts)) == (3, 1)  # four in a row: it rests
    assert second.waited_seconds == 0  # and is not waited for
    Actor.heard.clear()
    before = time.now
    later = [await ask_chain(models, "dead", HELLO, limits=limits) for _ in range(20)]
    assert asked() == ["alive"] * 20
    assert time.now == before
    assert {str(got.fallbacks[0]) for got in later} == {
        "alive was asked instead of dead: it rests for another 10 s because it failed 4 times in a row"
    }


async def test_a_model_that_comes_back_is_found_by_one_probe(limits: ModelLimits, time: Time) -> None:
    models = cast(fast={"part": ["!transient"] * 4 + ["hi"], "then": ("strong",)}, strong="hi")
    for _ in range(2):
        await ask_chain(models, "fast", HELLO, limits=limits)
    time.now += 10
    for _ in range(2):
        assert (await ask_chain(models, "fast", HELLO, limits=limits)).reply.model == "fast"


async def test_where_nobody_stands_in_we_wait_for_the_end_of_a_short_rest(limits: ModelLimits, time: Time) -> None:
    models = cast(only="hi")
    limits[models("only")].breaker.rest(12.0, "transient", "the test says so")
    got = await ask_chain(models, "only", HELLO, limits=limits)
    assert (got.reply.text, got.fallbacks) == ("hi", ())
    assert 12 <= got.waited_seconds == time.now <= 13


async def test_a_long_rest_is_told_at_once(limits: ModelLimits, time: Time) -> None:
    models = cast(only=["!credit", "hi"])
    with pytest.raises(ModelUnavailable, match="Add credit at the provider"):
        await ask_chain(models, "only", HELLO, limits=limits)
    with pytest.raises(ModelUnavailable, match="rests for another 900 s because its credit is used up") as caught:
        await ask_chain(models, "only", HELLO, limits=limits)
    assert (caught.value.why, caught.value.wait_seconds) == ("credit", 900)
    assert (asked(), time.now) == (["only"], 0.0)


async def test_calls_that_fail_together_do_not_fail_for_good() -> None:
    limits = ModelLimits(retry=Retry(tries=3, first_seconds=0.001), tolerance=Tolerance(failures=4, rest_seconds=0.01))
    models = cast(only=["!transient"] * 10 + ["hi"])
    got = await asyncio.gather(*(ask_chain(models, "only", HELLO, limits=limits) for _ in range(10)))
    assert {each.reply.text for each in got} == {"hi"}


async def test_the_limit_of_a_card_is_kept_and_the_wait_is_told_apart(limits: ModelLimits, time: Time) -> None:
    models = cast(fast={"part": "hi", "requests_per_minute": 1})
    got = [await ask_chain(models, "fast", HELLO, limits=limits) for _ in range(3)]
    assert [each.waited_seconds for each in got] == [0, 60, 60]
    assert all(each.reply.latency_seconds < 30 for each in got)


async def test_a_model_that_dies_while_we_stand_in_line_is_not_asked(limits: ModelLimits, time: Time) -> None:
    models = cast(fast={"part": "hi", "requests_per_minute": 1, "then": ("strong",)}, strong="hi")
    await ask_chain(models, "fast", HELLO, limits=limits)
    limit = limits[models("fast")]

    async def die(seconds: float) -> None:
        time.now += seconds
        limit.breaker.rest(10.0, "transient", "the test says so")

    limit.rate._sleep = die
    got = await ask_chain(models, "fast", HELLO, limits=limits)
    assert (asked(), got.waited_seconds) == (["fast", "strong"], 60)
    assert limit.rate.book().moment == 60  # its place is free for another


async def test_the_limit_counts_the_tokens_that_were_used(limits: ModelLimits) -> None:
    models = cast(fast={"part": "hi", "tokens_per_minute": 100})  # each asks for 56 and takes 11
    got = [await ask_chain(models, "fast", HELLO, limits=limits, max_tokens=50) for _ in range(6)]
    assert [each.waited_seconds for each in got] == [0, 0, 0, 0, 0, 60]


# Nobody


async def test_if_nobody_answers_every_try_is_listed_with_what_to_do(limits: ModelLimits) -> None:
    models = cast(
        fast={"part": ["!transient", "!rate 2", "!transient"], "then": ("small", "strong")},
        small={"part": "no", "context_tokens": 1},
        strong="!refused",
    )
    with pytest.raises(ModelUnavailable) as caught:
        await ask_chain(models, "fast", HELLO, limits=limits)
    assert str(caught.value).splitlines() == [
        "no model answered: found",
        '  fast (transient, 0.0 s): "found !transient"',
        '  fast (rate, 0.0 s): "found !rate"',
        '  fast (transient, 0.0 s): "found !transient"',
        '  strong (refused, 0.0 s): "found !refused"',
        "  small was not asked: its context holds 1 tokens of about 6",
        "  expected an answer from fast or small or strong. "
        "Try again in a moment, or name another model in models.fast.then",
    ]
    assert caught.value.why == "transient"


async def test_cancelling_passes_and_leaves_no_trace(limits: ModelLimits, time: Time) -> None:
    models = cast(fast={"part": ["…", "hi"], "usd_per_million": (0.0, 100.0)})
    limits[models("fast")].breaker.rest(1.0, "transient", "the test says so")
    time.now = 1.0  # so the call is a probe
    purse = Purse(limit_usd=1.0)
    calling = asyncio.ensure_future(ask_chain(models, "fast", HELLO, limits=limits, reserve=purse, max_tokens=10))
    while not Actor.heard:
        await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert purse.ledger.spent_usd == pytest.approx(0.001)  # it may have answered
    assert (await ask_chain(models, "fast", HELLO, limits=limits, reserve=purse)).reply.text == "hi"


# Messages


TALK = [
    Message("user", "a"),
    Message("user", "b"),
    Message("assistant", " "),
    Message("system", "be brief"),
    Message("user", "c"),
    Message("assistant", "d"),
    Message("system", "be kind"),
    Message("user", "e"),
]


async def test_the_named_model_is_told_what_was_said_and_others_are_told_it_plainly(limits: ModelLimits) -> None:
    await ask_chain(cast(fast={"part": "!refused", "then": ("strong",)}, strong="hi"), "fast", TALK, limits=limits)
    (_, first, _), (_, second, _) = Actor.heard
    assert len(first) == len(TALK)
    assert second == ["system: be brief\n\nbe kind", "human: a\n\nb\n\nc", "ai: d", "human: e"]


@given(
    st.lists(
        st.builds(Message, st.sampled_from(["system", "user", "assistant"]), st.text(alphabet="ab \n", max_size=4))
    )
)
def test_plain_messages_suit_every_provider_and_lose_no_word(talk: list[Message]) -> None:
    made = merge_messages(talk)
    roles = [message.role for message in made]
    assert all(one != other for one, other in pairwise(roles))
    assert "system" not in roles[1:]
    assert all(message.text.strip() for message in made)
    for role in ("system", "user", "assistant"):
        said = [message.text for message in talk if message.role == role and message.text.strip()]
        assert "\n\n".join(said) == "\n\n".join(message.text for message in made if message.role == role)
    assert merge_messages(made) == made


# Streams


async def heard(models: Callable[[str], Model], limits: ModelLimits, **more: Any) -> list[Any]:
    got: list[Any] = []
    try:
        got.append(await ask_chain(models, "fast", HELLO, limits=limits, on_piece=got.append, **more))
    except ModelUnavailable as error:
        got.append(error)
    return got


async def test_a_stream_gives_pieces_and_last_the_answer(limits: ModelLimits) -> None:
    *pieces, last = await heard(cast(fast="one two three"), limits)
    assert pieces == ["one ", "two ", "three "]
    assert isinstance(last, ModelAnswer)
    assert (last.reply.text, last.reply.model, last.fallbacks) == ("one two three ", "fast", ())


async def test_a_stream_that_fails_before_its_first_piece_begins_anew_unnoticed(limits: ModelLimits) -> None:
    *pieces, last = await heard(cast(fast=["!transient", "hi"]), limits)
    assert pieces == ["hi "]
    assert [each.why for each in last.attempts] == ["transient"]


async def test_a_stream_that_breaks_off_tells_the_listener_to_discard_and_begins_anew(limits: ModelLimits) -> None:
    *pieces, last = await heard(cast(fast=["one two !transient", "three four"]), limits)
    assert pieces == [
        "one ",
        "two ",
        Discard('the answer of fast broke off: "found !transient"'),
        "three ",
        "four ",
    ]
    assert last.reply.text == "three four "


async def test_what_broke_off_is_paid_for(limits: ModelLimits) -> None:
    part = [f"{'long ' * 100}!transient", "hi"]
    *_, last = await heard(cast(fast={"part": part, "usd_per_million": (0.0, 1e6)}), limits)
    assert last.attempts[0].cost_usd == pytest.approx(130, abs=10)


async def test_what_broke_off_costs_no_more_than_was_held_for_it(limits: ModelLimits) -> None:
    part = [f"{'long ' * 100}!transient", "hi"]
    models = cast(fast={"part": part, "usd_per_million": (0.0, 1e6)})
    *_, last = await heard(models, limits, max_tokens=30)
    assert last.attempts[0].cost_usd == pytest.approx(30)


async def test_a_stream_goes_on_with_the_next_model(limits: ModelLimits) -> None:
    *pieces, last = await heard(cast(fast={"part": "one !credit", "then": ("strong",)}, strong="two"), limits)
    assert [each for each in pieces if isinstance(each, str)] == ["one ", "two "]
    assert (last.reply.model, last.fallbacks[0].used) == ("strong", "strong")


async def test_a_mistake_of_ours_is_not_covered_up_in_a_stream(limits: ModelLimits) -> None:
    piece, error = await heard(cast(fast={"part": "one !ours", "then": ("strong",)}, strong="two"), limits)
    assert (piece, error.why, asked()) == ("one ", "ours", ["fast"])


async def test_who_stops_listening_stops_the_model(limits: ModelLimits) -> None:
    purse = Purse(limit_usd=1.0)
    models = cast(fast={"part": "one …", "usd_per_million": (0.0, 100.0)})
    heard = asyncio.Queue[str | Discard]()
    asking = ask_chain(models, "fast", HELLO, limits=limits, on_piece=heard.put_nowait, reserve=purse, max_tokens=10)
    listening = asyncio.ensure_future(asking)
    assert await heard.get() == "one "
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert purse.ledger.spent_usd == pytest.approx(0.001)
