"""ConfirmSettings: ways to ask a person whether something may be done. Whatever goes wrong, the answer is no."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol, TextIO, TypeAlias, runtime_checkable

from seedbed.errors import NotFound, Problem, RunError, shown
from seedbed.runs.recorder import kept
from seedbed.settings import ConfirmSettings
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical, digest, now

Confirm: TypeAlias = Callable[..., Awaitable[bool]]
"""An async function that asks a person: may this action be taken, and why is it asked? One with a parameter `arguments`
is told those too, or None where they are not known. Only True is a yes."""

TIMEOUT = ConfirmSettings().timeout

FIRST_LOOK_SECONDS = 0.05
"""How soon to look for an answer; then less and less often."""

LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked. Its key is the same whenever the run is taken up again, and that of no other."""

    key: str
    run: str
    playbook: Digest
    action: str
    because: str
    arguments: Json | None
    """What it would be done with; None if that is not known."""

    @property
    def digest(self) -> Digest:
        """Names all that a yes is a yes to."""
        return digest("question", {"run": self.run, **self.body()})

    def body(self) -> Json:
        told = ("playbook", "action", "because", "arguments")
        return {name: getattr(self, name) for name in told}


class Questions:
    """The questions of a run: the n-th one of the same words has the same key whenever the run is taken up again."""

    def __init__(self, run: str, playbook: Digest) -> None:
        self._run, self._playbook = run, playbook
        self._times: Counter[Digest] = Counter()

    def next(self, action: str, because: str, arguments: Mapping[str, Any] | None) -> Question:
        told = None if arguments is None else kept(dict(arguments))
        made = Question(key="", run=self._run, playbook=self._playbook, action=action, because=because, arguments=told)
        self._times[made.digest] += 1
        return replace(made, key=digest("question", [made.digest, self._times[made.digest]])[3:35])


class PersonReply(NamedTuple):
    """Yes or no, and how it came about: who said so, or why nobody did."""

    yes: bool
    how: str


@runtime_checkable
class Person(Protocol):
    """Somebody who can be asked."""

    async def ask(self, question: Question) -> PersonReply: ...


class Nobody:
    """Where no person can be asked the answer is no."""

    async def ask(self, question: Question) -> PersonReply:
        return PersonReply(False, "there was nobody to ask")


def person(confirm: Confirm | Person | None, settings: ConfirmSettings, store: Store, by: str) -> Person:
    """Who is asked: whoever is given, or else as the settings say."""
    if confirm is not None:
        return confirm if isinstance(confirm, Person) else Callback(confirm, settings.timeout)
    if settings.how == "queue":
        return Queue(store, by, settings.timeout)
    return Prompt(by, settings.timeout) if settings.how == "prompt" else Nobody()


# By callback


@dataclass(frozen=True, slots=True)
class Callback:
    """Asks a function. It is late, it fails, or it says anything but True: no."""

    confirm: Confirm
    timeout: timedelta = TIMEOUT

    async def ask(self, question: Question) -> PersonReply:
        asking = asyncio.ensure_future(self._asked(question))
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may fail when nobody listens
        try:
            await asyncio.wait({asking}, timeout=self.timeout.total_seconds())
            if not asking.done():
                return PersonReply(False, _late(self.timeout))
        finally:
            asking.cancel()  # and is not waited for: it might not want to end
        if asking.cancelled():
            return PersonReply(False, "the callback gave up")
        if wrong := asking.exception():
            told = f"the callback failed: {type(wrong).__name__}: {shown(str(wrong), 200)}"
            return PersonReply(False, told.encode(errors="replace").decode())
        said = asking.result()
        return PersonReply(said is True, f"the callback said {'yes' if said is True else 'no'}")

    async def _asked(self, question: Question) -> object:
        wanted = "arguments" in inspect.signature(self.confirm).parameters
        told = {"arguments": deepcopy(question.arguments)} if wanted else {}
        return await self.confirm(question.action, question.because, **told)


# At the terminal


@dataclass(frozen=True, slots=True)
class Prompt:
    """Asks at the terminal, one question at a time; what was typed before it was asked is no answer to it."""

    by: str
    timeout: timedelta = TIMEOUT
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False, compare=False)

    async def ask(self, question: Question) -> PersonReply:
        async with self._turn:
            screen = sys.__stderr__  # a live view may stand before the other one, and read markup in what models wrote
            if screen is None or not (_is_terminal(screen) and _is_terminal(sys.stdin)):
                return PersonReply(False, "there was no terminal to ask at")
            try:
                said = await self._line(question, screen)
            except TimeoutError:
                _say(screen, " no: it took too long\n")
                return PersonReply(False, _late(self.timeout))
            except ImportError:
                return PersonReply(False, "terminals of this system cannot be asked")
        yes = said.strip().lower() in ("y", "yes")
        return PersonReply(yes, f"{self.by} said {'yes' if yes else 'no'} at the terminal")

    async def _line(self, question: Question, screen: TextIO) -> str:
        import termios  # not everywhere

        keyboard, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        typed: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            loop.remove_reader(keyboard)
            if not typed.done():
                typed.set_result(os.read(keyboard, 4096).decode(errors="replace"))

        termios.tcflush(keyboard, termios.TCIFLUSH)
        _say(screen, f"{asked_for(question)}\nyes or no, within {self.timeout.total_seconds():g} s? [no] ")
        loop.add_reader(keyboard, read)
        try:
            async with asyncio.timeout(self.timeout.total_seconds()):
                return await typed
        finally:
            loop.remove_reader(keyboard)


def asked_for(question: Question) -> str:
    """A question as a person reads it. What models wrote cannot command the terminal, nor hide in it."""
    told = "" if question.arguments is None else f" {canonical(question.arguments)}"
    text = f"run {question.run[:10]} wants to {question.action}{told} ({question.because})"
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


def _is_terminal(stream: object) -> bool:
    try:
        return bool(getattr(stream, "isatty", bool)())
    except ValueError:  # it is closed
        return False


def _say(screen: TextIO, text: str) -> None:
    screen.write(text)
    screen.flush()


# By a queue in the store


@dataclass(frozen=True, slots=True)
class Queue:
    """Puts the question into the store and waits for somebody's answer there.

    The first answer counts. A question that is still open at its end is closed like any other, by an answer that says
    so: whatever comes after it finds it taken. A run that is taken up again goes on with the same question.
    """

    store: Store
    by: str
    timeout: timedelta = TIMEOUT
    clock: Callable[[], datetime] = now

    async def ask(self, question: Question) -> PersonReply:
        until = self._put(question)
        pause = FIRST_LOOK_SECONDS
        while (said := _answer_to(self.store, question.key)) is None:
            left = (until - self.clock()).total_seconds()
            if left > 0:
                await asyncio.sleep(min(pause, left))
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                because = "nobody answered in time"
                self.store.append([_answer(question, "timed out", because=because, by=self.by, at=until)])
        answer, who = said.body["answer"], f"{said.by} said {said.body['answer']}: {said.body['because']}"
        if answer == "timed out":
            return PersonReply(False, f"nobody answered until {until.isoformat(timespec='seconds')}")
        if said.body["about"] != question.digest:
            return PersonReply(False, f"{who}; but to another question")
        if said.at >= until:
            return PersonReply(False, f"{who}; but too late")
        return PersonReply(answer == "yes", who)

    def _put(self, question: Question) -> datetime:
        """Until when it may be answered: as it was said when it was first asked."""
        at = self.clock()
        body = {**question.body(), "until": (at + self.timeout).isoformat()}
        fact = Fact(kind="question", key=question.key, subject=question.run, at=at, by=self.by, body=body)
        self.store.append([fact])
        return find(self.store, question.key).until


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """A question in the store, by whose run and when it was asked, and its answer, if there is one."""

    question: Question
    by: str
    at: datetime
    until: datetime
    answer: Fact | None

    def status(self, at: datetime) -> Literal["open", "yes", "no", "timed out"]:
        if self.answer:
            said: Literal["yes", "no", "timed out"] = self.answer.body["answer"]
            return said
        return "open" if at < self.until else "timed out"


def questions(store: Store) -> Iterator[QuestionRecord]:
    """Every question that was ever put into the store, the oldest first."""
    answers = {fact.key: fact for fact in store.facts(Query(kind="answer"))}
    return (_asked(fact, answers.get(fact.key)) for fact in store.facts(Query(kind="question")))


def find(store: Store, start: str) -> QuestionRecord:
    """The question whose key begins so. Raises NotFound."""
    found = list(store.facts(Query(kind="question", key_from=start, limit=2))) if start else []
    if len(found) != 1:
        told = "begins several questions. Give more characters" if found else "is no question of this store"
        raise NotFound(f"{shown(start)} {told}. `seedbed confirm list` shows those that are open")
    return _asked(found[0], _answer_to(store, found[0].key))


def answer(
    store: Store, asked: QuestionRecord, yes: bool, *, because: str, by: str, at: datetime | None = None
) -> Fact:
    """Record what somebody says. Raises RunError if they give no reason, are late, or somebody was quicker."""
    question, at = asked.question, at or now()
    place = f"question {question.key[:10]}"
    if not because.strip():
        raise RunError(str(Problem(place, "no reason", "why", "Say what you looked at.")))
    fact = _answer(question, "yes" if yes else "no", because=because, by=by, at=at)
    late = at >= asked.until and asked.answer is None
    if late or not store.append([fact]):
        said = None if late else _answer_to(store, question.key)
        if said is None or said.body["answer"] == "timed out":
            found, expected = "its time is over", f"an answer before {asked.until.isoformat(timespec='seconds')}"
        else:
            found, expected = f"that {said.by} said {said.body['answer']}", "a question that is open"
        raise RunError(str(Problem(place, found, expected, "The run has gone on without you.")))
    return fact


def _answer(question: Question, said: str, *, because: str, by: str, at: datetime) -> Fact:
    # Answers are chained and so never sealed: what is asked is named by its digest, and stands in the question alone.
    body = {"answer": said, "because": because, "action": question.action, "about": question.digest}
    return Fact(kind="answer", key=question.key, subject=question.run, at=at, by=by, body=body)


def _answer_to(store: Store, key: str) -> Fact | None:
    return next(iter(store.facts(Query(kind="answer", key=key))), None)


def _asked(fact: Fact, said: Fact | None) -> QuestionRecord:
    told = dict(fact.body)
    until = datetime.fromisoformat(told.pop("until"))
    return QuestionRecord(Question(key=fact.key, run=fact.subject, **told), fact.by, fact.at, until, said)


def _late(timeout: timedelta) -> str:
    return f"nobody answered within {timeout.total_seconds():g} s"
