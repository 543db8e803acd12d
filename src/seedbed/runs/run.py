"""Run and its entries: turns, failures, calls of tools, decisions, child runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from seedbed.documents import html_table
from seedbed.errors import amount
from seedbed.plugins import load, optional
from seedbed.runs.messages import SpeakerText
from seedbed.storage.store import Digest, Json, Store, canonical, short

if TYPE_CHECKING:
    import pandas as pd

RunStatus = Literal["running", "completed", "cost_limited", "failed"]
"""A run that was killed stays `running`: nothing recorded its end."""

TIMES = ("started", "ended")


@dataclass(frozen=True, slots=True)
class RunEntry:
    """Something that a run did, stored as a fact with this body.

    `unpriced`, where it is, counts calls of unknown price: `cost_usd` is then the least that it can have cost.
    """

    def body(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedEntry(RunEntry):
    """An entry that took time, in UTC. Older recordings have no times, so entries are compared without them."""

    started: datetime | None = field(default=None, compare=False)
    ended: datetime | None = field(default=None, compare=False)

    @property
    def times(self) -> Json:
        """Those that are known, as JSON has them."""
        return {name: at.isoformat() for name in TIMES if (at := getattr(self, name))}

    def body(self) -> Json:
        return {name: value for name, value in asdict(self).items() if name not in TIMES} | self.times

    @classmethod
    def from_body(cls, body: Json) -> Self:
        return cls(**body | times_of(body))


def times_of(body: Json) -> dict[str, datetime]:
    """When the entry with that body began and ended, as far as that is known."""
    return {name: datetime.fromisoformat(body[name]) for name in TIMES if body.get(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(TimedEntry):
    """One answer of a role: its step, its messages, its model, and what it cost.

    `waited_seconds` were spent waiting for our own limits, apart from the model's `latency_seconds`; `notices` say what
    was not as planned, such as another model answering. `uncounted_tokens` is the most that was used besides the
    reported tokens: by attempts that failed, or where the provider reports none.

    `calls` are the tools that it asks for, each with its id and arguments, of those in the content `toolset`. `value`
    is a structured answer, `options` say how one was asked for.
    """

    step: str
    role: str
    model: str
    messages: Sequence[SpeakerText]
    text: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_seconds: float
    finish_reason: str = ""
    seed: int
    waited_seconds: float = 0.0
    confidence: float | None = None
    notices: tuple[str, ...] = ()
    uncounted_tokens: int = 0
    unpriced: int = 0
    calls: tuple[Json, ...] = ()
    toolset: str = ""
    options: Json = field(default_factory=dict)
    value: Any = None
    native: Json | None = None
    cached_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens + self.uncounted_tokens

    @property
    def is_misfit(self) -> bool:
        """Whether it is an answer that has not the structure that was asked for."""
        return bool(self.options.get("schema")) and self.value is None and not self.calls

    def body(self) -> Json:
        fields = {name: getattr(self, name) for name in self.__slots__}
        lists = {"notices": list(self.notices), "calls": list(self.calls)}
        return {**fields, "messages": [list(each) for each in self.messages], **lists, **self.times}

    @classmethod
    def from_body(cls, body: Json, messages: Sequence[SpeakerText] | None = None) -> Turn:
        """A turn from its body; `messages`, if given, are those of the body in a form that shares memory.

        From a body as it is stored, a turn has only the messages that no earlier turn has.
        """
        if messages is None:
            messages = tuple(
                (*each[:2], *(more for more in each[2:] if isinstance(more, dict))) for each in body["messages"]
            )
        fields = {name: body[name] for name in cls.__slots__ if name in body}
        fields |= {name: tuple(body.get(name, ())) for name in ("notices", "calls")}
        return cls(**{**fields, "messages": messages, **times_of(body)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(RunEntry):
    """A turn without an answer: its step and role, why it failed, and what the attempts cost."""

    step: str
    role: str
    error: str
    cost_usd: float
    tokens: int = 0
    unpriced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(TimedEntry):
    """One use of a tool. One that `changes` the world is never repeated in a replay.

    A model that asked for it did so in the turn of that key, under the id `call`. `how` it was done says if the tool
    itself acted, or a stand-in.
    """

    tool: str
    arguments: Json
    result: Any
    error: str
    changes: bool
    latency_seconds: float
    call: str = ""
    turn: str = ""
    how: Literal["real", "simulated", "sandbox"] = "real"

    def body(self) -> Json:
        unsaid = ("call", ""), ("turn", ""), ("how", "real")
        return {name: value for name, value in TimedEntry.body(self).items() if (name, value) not in unsaid}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(TimedEntry):
    """A decision at a point, its reason, and the chance with which it was made.

    `answered` is for questions to a person: who answered, or why no one did.
    """

    point: str
    action: str
    because: str
    propensity: float | None = None
    confidence: float | None = None
    answered: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child(TimedEntry):
    """A run that another opened: its step, how it ended, and what it cost with all runs below it."""

    run: str
    step: str
    status: RunStatus
    output: Any
    error: str
    tokens: int
    cost_usd: float
    unpriced: int = 0

    @classmethod
    def of(cls, run: Run, step: str, started: datetime, ended: datetime) -> Child:
        """How a run looks from the one that opened it."""
        return cls(
            run=run.id,
            step=step,
            status=run.status,
            output=run.output,
            error=run.error,
            tokens=run.tokens,
            cost_usd=run.cost_usd,
            unpriced=run.unpriced,
            started=started,
            ended=ended,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One performance of a playbook: its inputs, its turns, and its output or error.

    `tokens` and `cost_usd` are those of its turns, its failures and the runs it opened; if `unpriced` of its calls have
    an unknown price, it cost at least that.
    """

    id: str
    playbook: Digest
    inputs: Json
    seed: int
    started: datetime
    status: RunStatus
    output: Any
    error: str
    turns: tuple[Turn, ...]
    tokens: int
    cost_usd: float
    latency_seconds: float
    models: Json
    """The identity of each model by name: its class, arguments and runtime."""
    calls: tuple[Call, ...] = ()
    decisions: tuple[Decision, ...] = ()
    children: tuple[Child, ...] = ()
    failures: tuple[Failure, ...] = ()
    """The turns that were paid for and got no answer."""
    parent: str = ""
    """The run that opened this one, if any."""
    max_cost_usd: float | None = None
    """The limit on costs that it started with."""
    unpriced: int = 0
    replay: Json | None = None
    """For a replay: the run it is `of`, its `mode`, and the counts of its `labels` by kind of step."""
    real_tools: bool = True
    """Whether tools that change the world acted on it; in evaluations simulated tools act."""
    quality: str = ""
    """`maximum` if the best models were wanted for all of it."""

    @property
    def cost(self) -> str:
        """What it cost, as people read it."""
        return amount(self.cost_usd, self.unpriced, "${:.4f}".format)

    @property
    def converged_at(self) -> int | None:
        """The number of the turn at which its last loop converged; None if none did, or it had no rule to hold."""
        loops = [each for each in self.decisions if each.point.endswith(" until")]
        if not loops or loops[-1].action != "converged" or loops[-1].because.startswith("all "):
            return None
        step, spoken = loops[-1].point.removesuffix(" until"), Counter(turn.step for turn in self.turns)
        # Of steps that run together the one with the rule may answer first; all of a round answer equally often.
        loop = {each for each in spoken if spoken[each] == spoken[step] > 1} | {step}
        return max((number for number, turn in enumerate(self.turns, 1) if turn.step in loop), default=None)

    @property
    def ending(self) -> str:
        """How it ended, as people read it: its status, or when it converged."""
        at = self.converged_at if self.status == "completed" else None
        return self.status if at is None else f"converged at turn {at}"

    def __repr__(self) -> str:
        spent = f"{len(self.turns)} turns, {self.tokens:,} tokens, {self.cost}"
        return f"<Run {short(self.id)} {self.ending}, {spent}>"

    def _repr_html_(self) -> str:
        inputs = [(name, _text(value)) for name, value in self.inputs.items()]
        turns = [(f"{turn.step or turn.role} ({turn.model})", turn.text) for turn in self.turns[-10:]]
        end = ("error", self.error) if self.error else ("output", _text(self.output))
        spent = f"{self.tokens:,} tokens, {self.cost}, {self.latency_seconds:.2f} s"
        note = f"Playbook {short(self.playbook)}, {len(self.turns)} turns, {spent}"
        return html_table(f"Run {short(self.id)}: {self.ending}", [*inputs, *turns, end], note=note)

    def export(self, to: str | Path, *, store: Store | None = None) -> str | bytes | Path:
        """The run as `json`, `md`, `html` or `pdf`; or, if `to` is a path with such an ending, the file it was written
        to. Its store adds how its models were chosen."""
        report: str | bytes | Path = load("seedbed.reports.run:export", "export")(self, to, store=store)
        return report

    def to_json(self) -> str:
        return str(self.export("json"))

    def to_pandas(self) -> pd.DataFrame:
        """Its turns, a row each. Raises SettingsError where pandas is not installed."""
        pandas = optional("pandas", extra="frames", needed_for="to_pandas()")
        rows = [{**turn.body(), **{name: getattr(turn, name) for name in TIMES}} for turn in self.turns]
        frame: pd.DataFrame = pandas.DataFrame(rows, columns=[*Turn.__slots__, *TIMES])
        return frame


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)


class RunLabels(NamedTuple):
    """What a caller decides about a run besides what is performed: its id, what it counts against, and whether the
    best models are wanted."""

    id: str = ""
    scopes: tuple[str, ...] = ()
    quality: str = ""


NO_LABELS = RunLabels()


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event of a turn under way, passed to `on_event`.

    A `piece` is the next part of the answer; `discarded` says why the pieces so far are void and the answer begins
    again; `turn` is the whole turn, when it is done; `failed` says why there is none; `call` is a tool's, when done.
    """

    run: str
    step: str
    role: str
    model: str
    depth: int = 0
    """How many runs are above this one."""
    piece: str | None = None
    turn: Turn | None = None
    discarded: str = ""
    failed: str = ""
    call: Call | None = None
