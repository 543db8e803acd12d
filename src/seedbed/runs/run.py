"""Run and what it is made of: turns, failures, calls of tools, decisions, other runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seedbed.documents import html_table
from seedbed.plugins import load, optional
from seedbed.storage.store import Digest, Json, Store, canonical, short

if TYPE_CHECKING:
    import pandas as pd

Status = Literal["running", "completed", "cost_limited", "failed"]
"""`running` is also what a run is called that was killed: nobody wrote how it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One contribution: who was asked what by which step, and what came back at what price.

    `waited_seconds` were spent waiting for our own limits, apart from the model's `latency_seconds`; `notices` tell
    the user what was not as planned, such as another model answering. `uncounted_tokens` is the most that nobody
    reported: of tries that failed, or where the provider says nothing.
    """

    step: str
    role: str
    model: str
    messages: tuple[tuple[str, str], ...]
    text: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_seconds: float
    finish_reason: str
    seed: int
    waited_seconds: float = 0.0
    confidence: float | None = None
    notices: tuple[str, ...] = ()
    uncounted_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens + self.uncounted_tokens

    def body(self) -> Json:
        told = {name: getattr(self, name) for name in self.__slots__}
        return {**told, "messages": [list(each) for each in self.messages], "notices": list(self.notices)}

    @classmethod
    def from_body(cls, body: Json) -> Turn:
        messages = tuple((speaker, text) for speaker, text in body["messages"])
        return cls(**{**body, "messages": messages, "notices": tuple(body["notices"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A turn that nobody answered: who was asked by which step, why not, and what the tries cost all the same."""

    step: str
    role: str
    error: str
    cost_usd: float
    tokens: int = 0

    def body(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One use of a tool. `changes` says whether it changed the world, and so is never repeated in a replay."""

    tool: str
    arguments: Json
    result: Any
    error: str
    changes: bool
    latency_seconds: float

    def body(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided at a point, why, and with which chance it would have been decided so.

    `answered` says of a question to a person who answered it, or why nobody did.
    """

    point: str
    action: str
    because: str
    propensity: float | None
    confidence: float | None
    answered: str = ""

    def body(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A run that another opened: by which step, how it ended, and what it took with all that it opened itself."""

    run: str
    step: str
    status: Status
    output: Any
    error: str
    tokens: int
    cost_usd: float

    def body(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One performance: what went in, every turn, what came out, or why nothing did.

    `tokens` and `cost_usd` are those of its turns and of the runs it opened; failures cost too.
    """

    id: str
    playbook: Digest
    inputs: Json
    seed: int
    started: datetime
    status: Status
    output: Any
    error: str
    turns: tuple[Turn, ...]
    tokens: int
    cost_usd: float
    latency_seconds: float
    models: Json
    """What each model name stood for: its class, arguments, price and runtime."""
    calls: tuple[Call, ...] = ()
    decisions: tuple[Decision, ...] = ()
    children: tuple[Child, ...] = ()
    failures: tuple[Failure, ...] = ()
    """The turns that were paid for and not answered."""
    parent: str = ""
    """The run that opened this one, if any."""
    max_cost_usd: float | None = None
    """What it was allowed to cost when it started."""
    replay: Json | None = None
    """Of a replay: `of` which run, in which `mode`, and how many steps of each kind have which of the `labels`."""

    def __repr__(self) -> str:
        spent = f"{len(self.turns)} turns, {self.tokens:,} tokens, ${self.cost_usd:.4f}"
        return f"<Run {self.id[:10]} {self.status}, {spent}>"

    def _repr_html_(self) -> str:
        inputs = [(name, _text(value)) for name, value in self.inputs.items()]
        turns = [(f"{turn.step or turn.role} ({turn.model})", turn.text) for turn in self.turns[-10:]]
        end = ("error", self.error) if self.error else ("output", _text(self.output))
        spent = f"{self.tokens:,} tokens, ${self.cost_usd:.4f}, {self.latency_seconds:.2f} s"
        note = f"Playbook {short(self.playbook)}, {len(self.turns)} turns, {spent}"
        return html_table(f"Run {self.id[:10]}: {self.status}", [*inputs, *turns, end], note=note)

    def export(self, to: str | Path, *, store: Store | None = None) -> str | bytes | Path:
        """The run as `json`, `md`, `html` or `pdf`; or the path of the file that it was written to, if `to` is one that
        ends so. Its store adds how its models were chosen."""
        report: str | bytes | Path = load("seedbed.reports.run:export", "export")(self, to, store=store)
        return report

    def to_json(self) -> str:
        return str(self.export("json"))

    def to_pandas(self) -> pd.DataFrame:
        """Its turns, a row each. Raises SettingsError where pandas is not installed."""
        pandas = optional("pandas", extra="frames", needed_for="to_pandas()")
        frame: pd.DataFrame = pandas.DataFrame([turn.body() for turn in self.turns], columns=list(Turn.__slots__))
        return frame


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)


@dataclass(frozen=True, slots=True)
class RunEvent:
    """What somebody who listens to a run hears of a turn that is under way.

    A `piece` is the next part of the answer; `discarded` says why what was heard so far does not count, as it begins
    anew; `turn` is the whole of it, when it is done; `failed` says why there will be none.
    """

    run: str
    step: str
    role: str
    model: str
    depth: int = 0
    """How many runs are above the one that it is heard of."""
    piece: str | None = None
    turn: Turn | None = None
    discarded: str = ""
    failed: str = ""
