"""Messages: what a turn was asked. What it shares with earlier turns of its run is held and stored once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, overload

from seedbed.errors import StoreDamaged
from seedbed.storage.store import Fact, Json, canonical, from_micros, micros

SpeakerText = tuple[str, str] | tuple[str, str, Json]
"""A speaker and a text. What a message is beside its text comes third: the `calls` of tools that an assistant asks for,
with what is `native` to its provider; or the `call` that a tool answers, and whether it `failed`."""

UNSAID: Json = {
    "confidence": None,
    "notices": [],
    "uncounted_tokens": 0,
    "unpriced": 0,
    "waited_seconds": 0.0,
    "calls": [],
    "toolset": "",
    "options": {},
    "value": None,
    "native": None,
    "cached_tokens": 0,
    "finish_reason": "",
    "started": None,
    "ended": None,
}
"""The fields of a turn that are stored only where they say something."""

QUOTED = 40
"""From how many characters on an answer is worth a reference, where a later message ends with it."""


class _Node:
    """A message after certain others; `turn` is the turn that was first to have it."""

    __slots__ = ("before", "message", "place", "turn")

    def __init__(self, before: _Node | None, message: SpeakerText, turn: str) -> None:
        self.before = before
        self.message = message
        self.place: int = before.place + 1 if before else 1
        self.turn = turn


class Messages(Sequence[SpeakerText]):
    """Messages in their order, each with its speaker. It equals every other sequence of the same."""

    __slots__ = ("_last",)

    def __init__(self, last: _Node | None = None) -> None:
        self._last = last

    @classmethod
    def of(cls, messages: Iterable[SpeakerText]) -> Messages:
        last = None
        for message in messages:
            last = _Node(last, message, "")
        return cls(last)

    def __iter__(self) -> Iterator[SpeakerText]:
        return iter(self._all())

    def __len__(self) -> int:
        return self._last.place if self._last else 0

    @overload
    def __getitem__(self, at: int) -> SpeakerText: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[SpeakerText, ...]: ...
    def __getitem__(self, at: int | slice) -> SpeakerText | tuple[SpeakerText, ...]:
        return self._all()[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == (*other,)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:  # a copy node by node would recurse too deep
        return Messages.of, (self._all(),)

    def _all(self) -> tuple[SpeakerText, ...]:
        messages, node = [], self._last
        while node:
            messages.append(node.message)
            node = node.before
        return (*reversed(messages),)


class MessageHistory:
    """The messages of the turns of one run, as a tree: turns that begin alike share what they begin with.

    A turn's fact has `after: [turn, n]` if it goes on from the first n messages of an earlier turn, where the answer
    counts as the message after the last; its `messages` are then only those that follow. A message that ends with the
    answer of an earlier turn is stored as [speaker, what comes before the answer, turn], where "" is the turn it goes
    on from. `ran` is when it ended, in microseconds since 1970, and how long it took.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[_Node | None, SpeakerText | str], _Node] = {}
        self._turns: dict[str, _Node] = {}
        self._endings: dict[str, str] = {}
        """The turn of each answer that may be quoted, by how it ends."""

    def add(self, key: str, body: Json) -> None:
        """Add a turn that was stored under this key, so that later ones can go on from it."""
        name = _name(key)
        last = self._walk(body["messages"], name)
        answer = str(body["text"])
        self._turns[name] = self._next(last, _answer(body), name)
        if len(answer) >= QUOTED:
            self._endings[answer[-QUOTED:]] = name

    def messages(self, body: Json) -> Messages:
        """The messages of a turn that was added."""
        return Messages(self._walk(body["messages"], ""))

    def shorten(self, body: Json) -> Json:
        """The body of a turn as it is stored: without what earlier turns have, and without what says nothing."""
        node = None
        for message in body["messages"]:
            known = self._nodes.get((node, _words(message)))
            if known is None:
                break
            node = known
        stored = {name: value for name, value in body.items() if name not in UNSAID or value != UNSAID[name]}
        if body.get("started") and body.get("ended"):
            started, ended = (micros(datetime.fromisoformat(stored.pop(name))) for name in ("started", "ended"))
            stored["ran"] = [ended, ended - started]
        after = node.turn if node else ""
        if node:
            stored["after"] = [after, node.place]
        fresh = body["messages"][node.place if node else 0 :]
        return {**stored, "messages": [self._cite(after, *each) for each in fresh]}

    def restore(self, key: str, stored: Json) -> Json:
        """The whole body of a stored turn, which is added. Raises StoreDamaged."""
        body = self.expand(stored)
        self.add(key, body)
        return body

    def expand(self, stored: Json) -> Json:
        """The whole body of a stored turn whose predecessors were added. Raises StoreDamaged."""
        body = {**UNSAID, **stored}
        if ran := body.pop("ran", None):
            body |= {"started": from_micros(ran[0] - ran[1]).isoformat(), "ended": from_micros(ran[0]).isoformat()}
        after, shared = body.pop("after", ("", 0))
        node = self._answer(after) if shared else None
        while node and node.place > shared:
            node = node.before
        cited = [
            each
            if isinstance(each[-1], dict)
            else [each[0], each[1] + "".join(self._answer(turn or after).message[1] for turn in each[2:])]
            for each in stored["messages"]
        ]
        return {**body, "messages": [*map(list, Messages(node)), *cited]}

    def _cite(self, after: str, speaker: str, text: str, *more: Json) -> list[Any]:
        """A message as it is stored, in a turn after that one."""
        if more:
            return [speaker, text, *more]
        turn = self._endings.get(text[-QUOTED:])
        if turn and text.endswith(answer := self._turns[turn].message[1]):
            return [speaker, text.removesuffix(answer), "" if turn == after else turn]
        return [speaker, text]

    def _answer(self, turn: str) -> _Node:
        if turn not in self._turns:
            raise StoreDamaged(f"a turn goes on from {turn}, which is not there. Restore the store from a copy")
        return self._turns[turn]

    def _walk(self, messages: Iterable[Sequence[Any]], turn: str) -> _Node | None:
        node = None
        for message in messages:
            node = self._next(node, message, turn)
        return node

    def _next(self, node: _Node | None, message: Sequence[Any], turn: str) -> _Node:
        place = node, _words(message)
        known = self._nodes.get(place)
        if known is None:
            known = self._nodes[place] = _Node(node, (*message,), turn)
        return known


def _words(message: Sequence[Any]) -> SpeakerText | str:
    """What tells a message from others."""
    return (message[0], message[1]) if len(message) == 2 else canonical(message)


def _answer(body: Json) -> SpeakerText:
    """The answer of a turn as the message that it is for later turns."""
    more = {name: body[name] for name in ("calls", "native") if body.get(name)}
    return ("assistant", str(body["text"]), more) if more else ("assistant", str(body["text"]))


def without_quotes(stored: Sequence[Any]) -> SpeakerText:
    """A message as it is stored, without the answers that it quotes."""
    return (stored[0], stored[1], stored[2]) if isinstance(stored[-1], dict) else (stored[0], stored[1])


def to_compare(messages: Iterable[Sequence[Any]]) -> list[Json]:
    """Messages as documents by which requests are compared. The ids of calls, which are another time others, become
    ordinals; what is native to a provider is left out."""
    documents, ordinals = [], dict[str, int]()
    for speaker, text, *more in messages:
        document: Json = {"speaker": speaker, "text": text}
        for details in more:
            for each in details.get("calls", ()):
                ordinals[each["id"]] = len(ordinals) + 1
                document.setdefault("calls", []).append({**each, "id": ordinals[each["id"]]})
            if "call" in details:
                document |= {"call": ordinals.get(details["call"], 0), "failed": details.get("failed", False)}
        documents.append(document)
    return documents


def from_compared(document: Json) -> list[Any]:
    """The message that a document compares, with ordinals as the ids of calls."""
    more = {name: value for name, value in document.items() if name not in ("speaker", "text")}
    if "calls" in more:
        more["calls"] = [{**each, "id": str(each["id"])} for each in more["calls"]]
    if "call" in more:
        more["call"] = str(more["call"])
    return [document["speaker"], document["text"], *([more] if more else [])]


def whole_turns(turns: Iterable[Fact]) -> Iterator[Fact]:
    """The facts of all turns of one run, in their order, each with all its messages. Raises StoreDamaged."""
    history = MessageHistory()
    for fact in turns:
        yield replace(fact, body=history.restore(fact.key, fact.body))


def _name(key: str) -> str:
    """What names a turn within its run: its step, its request, and which time."""
    return key.partition("/turn/")[2]
