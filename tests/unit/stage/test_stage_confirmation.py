"""A person is asked by callback, at the terminal or through the store; whatever goes wrong, the answer is no."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seedbed.errors import ActionForbidden, NotFound, RunError
from seedbed.models.cards import Registry
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run_start import RunStart
from seedbed.settings import ConfirmSettings, Settings
from seedbed.stage.confirmation import (
    Callback,
    Nobody,
    Person,
    Prompt,
    Question,
    Questions,
    Queue,
    answer,
    find,
    person,
    question_text,
    questions,
)
from seedbed.stage.stage import Stage, StageOptions
from seedbed.stage.tools import tool, toolbox
from seedbed.storage import open_store
from seedbed.storage.encryption import EncryptedStore, MasterKey
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, UpkeptStore
from seedbed.storage.upkeep import verify
from seedbed.workspace import Workspace

BOOK = Playbook.from_document({"roles": {"writer": {}}, "rules": {"confirm": ["pay"], "never": ["wipe"]}})
ASKED = Question(key="k", run="r", playbook=BOOK.digest, action="pay", because="confirm: pay", arguments={"usd": 7})
SOON = timedelta(seconds=0.02)
LONG = timedelta(seconds=60)

paid: list[Any] = []


@tool(changes=True)
async def pay(usd: float, to: list[str] | None = None) -> str:
    paid.append((usd, to) if to else usd)
    return "paid"


@tool(changes=True)
async def wipe() -> None:
    paid.append("wiped")


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


def stage(confirm: Any, store: UpkeptStore | None = None, *, resume: str = "") -> Stage:
    journal = Journal(store or MemoryStore())
    if resume:
        recorder = Recorder.resume(journal, resume, by="ada")
    else:
        recorder = Recorder(journal, RunStart(BOOK.digest, {}, seed=7, models={}), by="ada")
    return Stage(BOOK, Registry({}).__getitem__, recorder, StageOptions(tools=toolbox([pay, wipe]), confirm=confirm))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UpkeptStore]:
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/seedbed.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    with closing(open_store(url)) as opened:
        yield opened


# By callback


@pytest.mark.parametrize("said", [False, None, 1, "yes", np.True_, [True]])
async def test_anything_but_true_is_a_no(said: object) -> None:
    async def someone(action: str, because: str) -> Any:
        return said

    assert await Callback(someone).ask(ASKED) == (False, "the callback said no")


async def test_a_callback_that_fails_is_a_no_and_it_is_said_why() -> None:
    async def broken(action: str, because: str) -> bool:
        raise ValueError("no line \ud800")

    def not_async(action: str, because: str) -> bool:
        return True

    on = stage(broken)
    assert not await on.confirm("pay", "so")
    assert on.recorder.decisions[0].answered == 'the callback failed: ValueError: "no line ?"'
    assert not (await Callback(not_async).ask(ASKED)).yes  # type: ignore[arg-type]


async def test_a_callback_that_is_late_is_a_no_also_if_it_does_not_want_to_end() -> None:
    ended = asyncio.Event()

    async def stubborn(action: str, because: str) -> bool:
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue
        return True

    said = await Callback(stubborn, SOON).ask(ASKED)
    assert said == (False, "nobody answered within 0.02 s")
    ended.set()


async def test_a_run_that_is_cancelled_asks_no_longer() -> None:
    asking, ended = asyncio.Event(), asyncio.Event()

    async def someone(action: str, because: str) -> bool:
        asking.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return True

    waiting = asyncio.create_task(stage(someone).call("pay", usd=7))
    await asking.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await ended.wait()
    assert paid == []


async def test_what_a_person_saw_is_what_is_done() -> None:
    people = ["ann"]

    async def meddling(action: str, because: str, arguments: dict[str, Any]) -> bool:
        assert (action, arguments) == ("pay", {"usd": 7, "to": ["ann"]})
        arguments["usd"] = 7_000
        people.append("mallory")  # which the program gave, and may change meanwhile
        return True

    await stage(meddling).call("pay", usd=7, to=people)
    assert paid == [(7, ["ann"])]


async def test_the_answer_for_one_thing_is_never_given_for_another_when_a_run_goes_on() -> None:
    async def someone(action: str, because: str, arguments: dict[str, Any]) -> bool:
        return bool(arguments["usd"] == 7)

    store = MemoryStore()
    on = stage(someone, store)
    await on.recorder.start()
    await on.call("pay", usd=7)
    with pytest.raises(ActionForbidden):
        await on.call("pay", usd=8)
    again = stage(Nobody(), store, resume=on.recorder.id)
    with pytest.raises(ActionForbidden):
        await again.call("pay", usd=8)  # first this time
    assert await again.call("pay", usd=7) == "paid"
    assert paid == [7]


async def test_nobody_is_asked_for_what_must_never_be_done() -> None:
    async def yes(action: str, because: str) -> bool:
        raise AssertionError("somebody was asked")

    on = stage(yes)
    assert not await on.confirm("wipe", "so")
    (decision,) = on.recorder.decisions
    assert (decision.point, decision.action, decision.because) == ("may wipe", "forbidden", "never: wipe")


# Who is asked


def test_who_is_given_goes_before_the_settings() -> None:
    async def someone(action: str, because: str) -> bool:
        return True

    store, queue = MemoryStore(), ConfirmSettings.model_validate({"how": "queue", "timeout": "2 hours"})
    assert person(someone, queue, store, "ada") == Callback(someone, timedelta(hours=2))
    assert person(None, queue, store, "ada") == Queue(store, "ada", timedelta(hours=2))
    assert person(Prompt("ada"), queue, store, "ada") == Prompt("ada")
    assert isinstance(person(None, ConfirmSettings(how="prompt"), store, "ada"), Prompt)
    for how in (None, "nobody"):
        assert isinstance(person(None, ConfirmSettings(how=how), store, "ada"), Nobody)


async def test_a_workspace_asks_as_its_settings_say(store: UpkeptStore) -> None:
    told = {"by": "ada", "confirm": {"how": "queue", "timeout": "1 second"}}
    space = Workspace(Settings.model_validate(told), store)
    async with space.runs.recording(BOOK) as on:
        asking = asyncio.create_task(on.confirm("pay", "so"))
        await answered(store, True, by="bob")
        assert await asking
    space.resources.confirm = Nobody()
    async with space.runs.recording(BOOK) as on:
        assert not await on.confirm("pay", "so")


# At the terminal


class Terminal:
    """Somebody at a keyboard, and what they see."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.keyboard, self.line = pty.openpty()
        self.stdin = os.fdopen(self.line, "r")
        self.stderr = os.fdopen(os.dup(self.line), "w")
        self._patch = patch

    def sit(self) -> None:
        """Have it be that of the process; from within a test, because pytest takes both streams before each."""
        self._patch.setattr("sys.stdin", self.stdin)
        self._patch.setattr("sys.__stderr__", self.stderr)

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())
        select.select([self.line], [], [], 10)  # until it has come through

    def see(self, text: str) -> str:
        seen = ""
        while text not in seen:
            assert select.select([self.keyboard], [], [], 10)[0], seen
            seen += os.read(self.keyboard, 4096).decode()
        return seen

    def close(self) -> None:
        self.stdin.close()
        self.stderr.close()
        os.close(self.keyboard)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal(monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("typed", "yes"), [("yes\n", True), (" Y\n", True), ("\n", False), ("yes please\n", False), ("\x04", False)]
)
async def test_a_person_at_the_terminal_sees_what_is_to_be_done_and_types_yes(
    terminal: Terminal, typed: str, yes: bool
) -> None:
    terminal.sit()
    asking = asyncio.create_task(Prompt("ada", LONG).ask(ASKED))
    seen = await asyncio.to_thread(terminal.see, "[no] ")
    assert 'wants to pay {"usd":7} (confirm: pay)' in seen
    await asyncio.to_thread(terminal.type, typed)
    assert await asking == (yes, f"ada said {'yes' if yes else 'no'} at the terminal")


async def test_what_was_typed_before_the_question_is_no_answer(terminal: Terminal) -> None:
    terminal.sit()
    terminal.type("yes\n")
    assert await Prompt("ada", SOON).ask(ASKED) == (False, "nobody answered within 0.02 s")


async def test_questions_are_asked_one_at_a_time(terminal: Terminal) -> None:
    terminal.sit()
    prompt = Prompt("ada", LONG)
    asking = [asyncio.create_task(prompt.ask(ASKED)) for _ in range(2)]
    for typed in ("yes\n", "no\n"):
        seen = await asyncio.to_thread(terminal.see, "[no] ")
        assert seen.count("wants to pay") == 1
        await asyncio.to_thread(terminal.type, typed)
    assert [(await each).yes for each in asking] == [True, False]


async def test_without_a_terminal_the_answer_is_no() -> None:
    assert await Prompt("ada", LONG).ask(ASKED) == (False, "there was no terminal to ask at")


def test_what_models_wrote_cannot_command_the_terminal() -> None:
    sly = Question(
        key="k", run="r", playbook="p", action="pay\r\x1b[2K", because="so\u202e", arguments={"to": "\x9b2J\n"}
    )
    assert question_text(sly).isprintable()


# By a queue in the store


async def waits(store: UpkeptStore) -> str:
    """The key of the question that waits in the store, as soon as one does."""
    while not (found := [each for each in questions(store) if each.answer is None]):
        await asyncio.sleep(0.01)
    return found[0].question.key


async def answered(store: UpkeptStore, yes: bool, by: str = "bob") -> Fact:
    return answer(store, find(store, await waits(store)), yes, because="looked at it", by=by)


@pytest.mark.parametrize("yes", [True, False])
async def test_somebody_answers_what_waits_in_the_store(store: UpkeptStore, yes: bool) -> None:
    on = stage(Queue(store, "ada", LONG), store)
    await on.recorder.start()
    calling = asyncio.create_task(on.call("pay", usd=7))
    asked = find(store, (await waits(store))[:6])
    assert (asked.question.run, asked.question.playbook, asked.by) == (on.recorder.id, BOOK.digest, "ada")
    told = (asked.question.action, asked.question.arguments, asked.question.because)
    assert told == ("pay", {"usd": 7}, "confirm: pay")
    assert asked.until - asked.at == LONG
    await answered(store, yes)
    (done,) = await asyncio.gather(calling, return_exceptions=True)
    assert isinstance(done, ActionForbidden) is not yes
    assert paid == ([7] if yes else [])
    (decision,) = recall(store, on.recorder.id).decisions
    assert decision.answered == f"bob said {'yes' if yes else 'no'}: looked at it"
    assert find(store, asked.question.key).status(datetime.now(UTC)) == ("yes" if yes else "no")


async def test_nobody_answers_in_time_and_later_it_is_too_late(store: UpkeptStore) -> None:
    on = stage(Queue(store, "ada", SOON), store)
    with pytest.raises(ActionForbidden, match="nobody confirmed"):
        await on.call("pay", usd=7)
    assert on.recorder.decisions[0].answered.startswith("nobody answered until ")
    (asked,) = questions(store)
    assert asked.status(asked.at) == "timed out"
    for moment in (asked.at, asked.until, None):  # whatever their clock says
        with pytest.raises(RunError, match="its time is over"):
            answer(store, asked, True, because="sorry", by="bob", at=moment)


async def test_an_answer_that_was_given_too_late_does_not_count() -> None:
    store = MemoryStore()
    on = stage(Queue(store, "ada", SOON), store)
    asked = Questions(on.recorder.id, BOOK.digest).next("pay", "confirm: pay", {"usd": 7})
    body = {"answer": "yes", "because": "sorry", "action": "pay", "about": asked.digest}
    late = datetime.now(UTC) + LONG
    store.append([Fact(kind="answer", key=asked.key, subject=asked.run, at=late, by="bob", body=body)])
    with pytest.raises(ActionForbidden):
        await on.call("pay", usd=7)
    assert on.recorder.decisions[0].answered == "bob said yes: sorry; but too late"


async def test_of_those_who_answer_at_once_the_first_counts(store: UpkeptStore) -> None:
    on = stage(Queue(store, "ada", LONG), store)
    calling = asyncio.create_task(on.confirm("pay", "so"))
    asked = find(store, await waits(store))
    together, told = threading.Barrier(4), list[Fact | RunError]()

    def say(number: int) -> None:
        together.wait()
        try:
            told.append(answer(store, asked, number % 2 == 0, because="so", by=f"person {number}"))
        except RunError as wrong:
            told.append(wrong)

    await asyncio.gather(*(asyncio.to_thread(say, number) for number in range(4)))
    (first,) = [each for each in told if isinstance(each, Fact)]
    others = [str(each) for each in told if isinstance(each, RunError)]
    assert len(others) == 3
    assert all(f"found that {first.by} said {first.body['answer']}" in each for each in others)
    assert await calling is (first.body["answer"] == "yes")
    assert on.recorder.decisions[0].answered.startswith(first.by)


async def test_a_run_that_is_taken_up_again_goes_on_with_the_same_question(store: UpkeptStore) -> None:
    on = stage(Queue(store, "ada", LONG), store)
    await on.recorder.start()
    calling = asyncio.create_task(on.call("pay", usd=7))
    key = await waits(store)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    again = stage(Queue(store, "ada", LONG), store, resume=on.recorder.id)
    calling = asyncio.create_task(again.call("pay", usd=7))
    await answered(store, True)
    assert await calling == "paid"
    assert [each.question.key for each in questions(store)] == [key]
    more = asyncio.create_task(again.call("pay", usd=7))  # the same again is another question
    await answered(store, False)
    with pytest.raises(ActionForbidden):
        await more
    assert len([*questions(store)]) == 2


async def test_what_was_answered_while_nobody_was_at_the_run_holds_and_the_time_is_not_begun_anew() -> None:
    store = MemoryStore()
    then = datetime.now(UTC) - timedelta(hours=1)
    for number, said in enumerate((True, None)):
        asked = Questions(f"{number}" * 32, BOOK.digest).next("pay", "so", None)
        before = asyncio.create_task(Queue(store, "ada", timedelta(minutes=5), lambda: then).ask(asked))
        await waits(store)
        before.cancel()
        if said:
            answer(store, find(store, asked.key), True, because="fine", by="bob", at=then + timedelta(minutes=1))
        assert (await Queue(store, "ada", timedelta(minutes=5)).ask(asked)).yes is bool(said)


async def test_a_yes_to_something_harmless_is_no_yes_to_what_is_done() -> None:
    store = MemoryStore()
    on = stage(Queue(store, "ada", LONG), store)
    asked = Questions(on.recorder.id, BOOK.digest).next("pay", "confirm: pay", {"usd": 7_000})
    shown = {**asked.body(), "arguments": {"usd": 7}, "until": (datetime.now(UTC) + LONG).isoformat()}
    at = datetime.now(UTC)
    store.append([Fact(kind="question", key=asked.key, subject=asked.run, at=at, by="ada", body=shown)])
    calling = asyncio.create_task(on.call("pay", usd=7_000))
    await answered(store, True)
    with pytest.raises(ActionForbidden):
        await calling
    assert "but to another question" in on.recorder.decisions[0].answered


async def test_an_edited_answer_is_found(tmp_path: Path) -> None:
    import sqlite3

    with closing(open_store(f"sqlite:///{tmp_path}/seedbed.db")) as store:
        asking = asyncio.create_task(Queue(store, "ada", LONG).ask(ASKED))
        await answered(store, False)
        assert not (await asking).yes
        assert verify(store).problems == ()
        with closing(sqlite3.connect(tmp_path / "seedbed.db")) as db:
            db.execute("UPDATE facts SET body = replace(body, '\"no\"', '\"yes\"') WHERE kind = 'answer'")
            db.commit()
        assert verify(store).problems


async def test_in_an_encrypted_store_the_arguments_of_a_question_are_sealed() -> None:
    inner = MemoryStore()
    sealed = EncryptedStore(inner, MasterKey(b64encode(bytes(32)).decode()))
    asked = Questions("r", BOOK.digest).next("pay", "so", {"to": "Ann Onymous"})
    asking = asyncio.create_task(Queue(sealed, "ada", LONG).ask(asked))
    await answered(sealed, True)
    assert (await asking).yes
    facts = [fact for kind in ("question", "answer") for fact in inner.facts(Query(kind=kind))]
    assert len(facts) == 2
    assert "Onymous" not in str(facts)


def test_an_answer_needs_a_reason_and_a_question_that_is_there() -> None:
    store = MemoryStore()
    with pytest.raises(NotFound, match="is no question of this store"):
        find(store, "abcdef")
    body = {**ASKED.body(), "until": (datetime.now(UTC) + LONG).isoformat()}
    for key in ("abc1", "abc2"):
        store.append([Fact(kind="question", key=key, subject="r", at=datetime.now(UTC), by="ada", body=body)])
    with pytest.raises(NotFound, match="begins several"):
        find(store, "abc")
    with pytest.raises(RunError, match="found no reason"):
        answer(store, find(store, "abc1"), True, because=" ", by="bob")


def test_whoever_can_be_asked_is_a_person() -> None:
    assert all(isinstance(each, Person) for each in (Nobody(), Prompt("ada"), Queue(MemoryStore(), "ada")))
