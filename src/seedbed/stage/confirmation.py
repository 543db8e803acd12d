"""Confirmation: ways to ask a person whether an action may be taken. If anything goes wrong, the answer is no."""

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
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, TextIO, TypeAlias, runtime_checkable

from seedbed.errors import NotFound, Problem, RunError, shown
from seedbed.runs.run_start import json_copy
from seedbed.settings import ConfirmSettings
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical, digest, now, short

Confirm: TypeAlias = Callable[..., Awaitable[bool]]
"""An async function that asks a person: it receives the action and why it is asked. One with a parameter `arguments`
receives those too, or None where they are not known. Only True is a yes."""

TIMEOUT = ConfirmSettings().timeout

FIRST_LOOK_SECONDS = 0.05
"""When to check first for an answer; then less and less often."""

LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person. Its key is unique, and the same whenever the run is resumed."""

    key: str
    run: str
    playbook: Digest
    action: str
    because: str
    arguments: Json | None
    """The arguments of the action; None if they are not known."""

    @property
    def digest(self) -> Digest:
        """Covers everything that a yes agrees to."""
        return digest("question", {"run": self.run, **self.body()})

    def body(self) -> Json:
        return {name: getattr(self, name) for name in ("playbook", "action", "because", "arguments")}


class Questions:
    """The questions of a run: the n-th one with the same content has the same key whenever the run is resumed."""

    def __init__(self, run: str, playbook: Digest) -> None:
        self._run, self._playbook = run, playbook
        self._times: Counter[Digest] = Counter()

    def next(self, action: str, because: str, arguments: Mapping[str, Any] | None) -> Question:
        copy = None if arguments is None else json_copy(dict(arguments))
        question = Question(
            key="", run=self._run, playbook=self._playbook, action=action, because=because, arguments=copy
        )
        self._times[question.digest] += 1
        key = digest("question", [question.digest, self._times[question.digest]])[3:35]
        return replace(question, key=key)


class PersonReply(NamedTuple):
    """Yes or no, and who gave the answer, or why there is none."""

    yes: bool
    how: str


@runtime_checkable
class Person(Protocol):
    """A person who can be asked."""

    async def ask(self, question: Question) -> PersonReply: ...


class Nobody:
    """Answers no where no person can be asked."""

    async def ask(self, question: Question) -> PersonReply:
        return PersonReply(False, "there was nobody to ask")


def person(confirm: Confirm | Person | None, settings: ConfirmSettings, store: Store, by: str) -> Person:
    """The person to ask: `confirm` if there is one, otherwise as the settings say."""
    if confirm is not None:
        return confirm if isinstance(confirm, Person) else Callback(confirm, settings.timeout)
    if settings.how == "queue":
        return Queue(store, by, settings.timeout)
    return Prompt(by, settings.timeout) if settings.how == "prompt" else Nobody()


# By callback


@dataclass(frozen=True, slots=True)
class Callback:
    """Asks a function. If it is late, fails, or returns anything but True, the answer is no."""

    confirm: Confirm
    timeout: timedelta = TIMEOUT

    async def ask(self, question: Question) -> PersonReply:
        asking = asyncio.ensure_future(self._call(question))
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may fail after we gave up
        try:
            await asyncio.wait({asking}, timeout=self.timeout.total_seconds())
            if not asking.done():
                return PersonReply(False, _late(self.timeout))
        finally:
            asking.cancel()  # without waiting for it: it may ignore that
        if asking.cancelled():
            return PersonReply(False, "the callback gave up")
        if error := asking.exception():
            how = f"the callback failed: {type(error).__name__}: {shown(str(error), 200)}"
            return PersonReply(False, how.encode(errors="replace").decode())
        yes = asking.result() is True
        return PersonReply(yes, f"the callback said {'yes' if yes else 'no'}")

    async def _call(self, question: Question) -> object:
        if "arguments" in inspect.signature(self.confirm).parameters:
            return await self.confirm(question.action, question.because, arguments=deepcopy(question.arguments))
        return await self.confirm(question.action, question.because)


# At the terminal


@dataclass(frozen=True, slots=True)
class Prompt:
    """Asks at the terminal, one question at a time; what was typed before the question is ignored."""

    by: str
    timeout: timedelta = TIMEOUT
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False, compare=False)

    async def ask(self, question: Question) -> PersonReply:
        async with self._turn:
            screen = sys.__stderr__  # sys.stderr may be a live view, which reads markup in what models wrote
            if screen is None or not (_is_terminal(screen) and _is_terminal(sys.stdin)):
                return PersonReply(False, "there was no terminal to ask at")
            try:
                line = await self._read_line(question, screen)
            except TimeoutError:
                _write(screen, " no: it took too long\n")
                return PersonReply(False, _late(self.timeout))
            except ImportError:
                return PersonReply(False, "terminals of this system cannot be asked")
        yes = line.strip().lower() in ("y", "yes")
        return PersonReply(yes, f"{self.by} said {'yes' if yes else 'no'} at the terminal")

    async def _read_line(self, question: Question, screen: TextIO) -> str:
        termios = import_module("termios")  # which not every system has
        keyboard, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        typed: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            loop.remove_reader(keyboard)
            if not typed.done():
                typed.set_result(os.read(keyboard, 4096).decode(errors="replace"))

        termios.tcflush(keyboard, termios.TCIFLUSH)
        _write(screen, f"{question_text(question)}\nyes or no, within {self.timeout.total_seconds():g} s? [no] ")
        loop.add_reader(keyboard, read)
        try:
            async with asyncio.timeout(self.timeout.total_seconds()):
                return await typed
        finally:
            loop.remove_reader(keyboard)


def question_text(question: Question) -> str:
    """A question as a person reads it. Text that models wrote cannot control the terminal, nor hide in it."""
    arguments = "" if question.arguments is None else f" {canonical(question.arguments)}"
    text = f"run {short(question.run)} wants to {question.action}{arguments} ({question.because})"
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


def _is_terminal(stream: object) -> bool:
    try:
        return bool(getattr(stream, "isatty", bool)())
    except ValueError:  # it is closed
        return False


def _write(screen: TextIO, text: str) -> None:
    screen.write(text)
    screen.flush()


# By a queue in the store


@dataclass(frozen=True, slots=True)
class Queue:
    """Puts the question into the store and waits for an answer there.

    The first answer counts. A question without one in time is closed by an answer that says so; a later answer finds it
    closed. A run that is resumed goes on with the same question.
    """

    store: Store
    by: str
    timeout: timedelta = TIMEOUT
    clock: Callable[[], datetime] = now

    async def ask(self, question: Question) -> PersonReply:
        until = await off_loop(self._put, question)
        pause = FIRST_LOOK_SECONDS
        while (answer := await off_loop(_answer_to, self.store, question.key)) is None:
            left = (until - self.clock()).total_seconds()
            if left > 0:
                await asyncio.sleep(min(pause, left))
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                because = "nobody answered in time"
                late = _answer(question, "timed out", because=because, by=self.by, at=until)
                await off_loop(self.store.append, [late])
        text = answer.body["answer"]
        how = f"{answer.by} said {text}: {answer.body['because']}"
        if text == "timed out":
            return PersonReply(False, f"nobody answered until {until.isoformat(timespec='seconds')}")
        if answer.body["about"] != question.digest:
            return PersonReply(False, f"{how}; but to another question")
        if answer.at >= until:
            return PersonReply(False, f"{how}; but too late")
        return PersonReply(text == "yes", how)

    def _put(self, question: Question) -> datetime:
        """Store the question; returns until when it may be answered, which the first one stored decides."""
        at = self.clock()
        body = {**question.body(), "until": (at + self.timeout).isoformat()}
        fact = Fact(kind="question", key=question.key, subject=question.run, at=at, by=self.by, body=body)
        self.store.append([fact])
        return find(self.store, question.key).until


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """A question in the store: who started its run, when it was asked, until when it is open, and its answer."""

    question: Question
    by: str
    at: datetime
    until: datetime
    answer: Fact | None

    def status(self, at: datetime) -> Literal["open", "yes", "no", "timed out"]:
        if self.answer:
            answer: Literal["yes", "no", "timed out"] = self.answer.body["answer"]
            return answer
        return "open" if at < self.until else "timed out"


def questions(store: Store) -> Iterator[QuestionRecord]:
    """Every question in the store, the oldest first."""
    answers = {fact.key: fact for fact in store.facts(Query(kind="answer"))}
    return (_question_record(fact, answers.get(fact.key)) for fact in store.facts(Query(kind="question")))


def find(store: Store, start: str) -> QuestionRecord:
    """The question whose key begins with `start`. Raises NotFound."""
    matches = list(store.facts(Query(kind="question", key_from=start, limit=2))) if start else []
    if len(matches) != 1:
        wrong = "begins several questions. Give more characters" if matches else "is no question of this store"
        raise NotFound(f"{shown(start)} {wrong}. `seedbed confirm list` shows those that are open")
    return _question_record(matches[0], _answer_to(store, matches[0].key))


def answer(
    store: Store, record: QuestionRecord, yes: bool, *, because: str, by: str, at: datetime | None = None
) -> Fact:
    """Record an answer. Raises RunError if it has no reason, is late, or is not the first."""
    question, at = record.question, at or now()
    place = f"question {question.key[:10]}"
    if not because.strip():
        raise RunError(str(Problem(place, "no reason", "why", "Say what you looked at.")))
    fact = _answer(question, "yes" if yes else "no", because=because, by=by, at=at)
    late = at >= record.until and record.answer is None
    if late or not store.append([fact]):
        first = None if late else _answer_to(store, question.key)
        remedy = "The run has gone on without you."
        if first is None or first.body["answer"] == "timed out":
            expected = f"an answer before {record.until.isoformat(timespec='seconds')}"
            raise RunError(str(Problem(place, "its time is over", expected, remedy)))
        answered = f"that {first.by} said {first.body['answer']}"
        raise RunError(str(Problem(place, answered, "a question that is open", remedy)))
    return fact


def _answer(question: Question, answer: str, *, because: str, by: str, at: datetime) -> Fact:
    # Answers are part of the hash chain and never erased, so they name the question by its digest and do not repeat it.
    body = {"answer": answer, "because": because, "action": question.action, "about": question.digest}
    return Fact(kind="answer", key=question.key, subject=question.run, at=at, by=by, body=body)


def _answer_to(store: Store, key: str) -> Fact | None:
    return next(iter(store.facts(Query(kind="answer", key=key))), None)


def _question_record(fact: Fact, answer: Fact | None) -> QuestionRecord:
    body = fact.body
    question = Question(
        key=fact.key,
        run=fact.subject,
        playbook=body["playbook"],
        action=body["action"],
        because=body["because"],
        arguments=body["arguments"],
    )
    return QuestionRecord(question, fact.by, fact.at, datetime.fromisoformat(body["until"]), answer)


def _late(timeout: timedelta) -> str:
    return f"nobody answered within {timeout.total_seconds():g} s"
