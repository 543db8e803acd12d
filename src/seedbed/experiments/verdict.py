"""Verdict: the answer of a comparison. Ranking: the verdicts of several candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from seedbed.documents import html_table
from seedbed.errors import NotFound, SeedbedError, StoreDamaged, shown
from seedbed.experiments.experiment import Experiment, Mode
from seedbed.experiments.hacking_signs import Sign, signs
from seedbed.experiments.replay.coverage import ReplayedRuns
from seedbed.experiments.slices import Slices
from seedbed.plugins import load, optional
from seedbed.stats.arrays import Direction
from seedbed.stats.multiplicity import e_bh, holm
from seedbed.storage.store import Digest, Fact, Json, Query, Store, short

if TYPE_CHECKING:
    import pandas as pd

Finding: TypeAlias = Literal["superior", "non-inferior", "equivalent", "inferior", "futile", "inconclusive", "invalid"]
"""The result of a comparison. Only `superior` means that the candidate is better; `invalid` means nothing."""

ExperimentState: TypeAlias = Literal["running", "completed", "aborted"]

NOT_STORED = ("is_final", "ranking", "replays", "slices")
"""Fields of a verdict that are not part of the recorded fact."""

FEW_CANDIDATES = 10
"""Up to this many candidates, the chance of any false winner is limited; for more, the share of false winners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer of a comparison: which two playbooks, on which tasks, by which registered rule, how sure."""

    experiment: Digest
    control: Digest
    candidate: Digest
    dataset: Digest
    metric: str
    finding: Finding
    tasks: int
    """How many units were read: tasks, or sources where tasks share them."""
    at_most: int
    wins: int
    ties: int
    losses: int
    control_mean: float
    candidate_mean: float
    difference: float
    """Candidate minus control, whether higher or lower is better."""
    low: float | None
    high: float | None
    """A 95 % interval of the difference that holds although the test ended as soon as it was sure. In old verdicts that
    of a number of tasks fixed in advance."""
    p: float | None
    alpha: float
    outcomes: str
    """One sign for each unit in registered order: + better, = equal, - worse."""
    rule: str = ""
    guarantee: str = ""
    """What the rule guarantees of its error rates."""
    because: str = ""
    """Why it is invalid, if it is."""
    aborted: bool = False
    """Whether somebody stopped it by hand."""
    estimate: float | None = None
    """How much better the candidate is, corrected for the early stop, with its own interval."""
    estimate_low: float | None = None
    estimate_high: float | None = None
    at_least: float | None = None
    """If it is superior: by how much at least, with the error rate of the test. It is above 0."""
    scores: tuple[tuple[float, float], ...] = ()
    """The scores of the control and the candidate on each unit, in registered order."""
    failed: tuple[str, ...] = ()
    """The cells that counted as failures, by their keys."""
    unscored: tuple[str, ...] = ()
    """Those of them through no fault of the agent: no answer came, or a completed run got no score. They count against
    the candidate."""
    observed: tuple[float, float] | None = None
    """The means of the control and the candidate over what was scored, if anything is missing."""
    missing: Json = field(default_factory=dict, hash=False)
    """If anything is missing: how much of the `control` and of the `candidate`, the `p` of Fisher's exact test that
    both lose answers equally often, and the `tipping` point: how many of the missing answers, the first ones, may go
    against the candidate if the others go for it, and it is still superior; None if it never is."""
    evidence: Digest = ""
    """The digest of all cells that were read, of their runs and of the answers in them, in registered order."""
    e: float | None = None
    """The e-value that the candidate is better, where the rule is betting: by what factor its wealth has grown."""
    better: Direction = "higher"
    """Which scores are better."""
    cost_usd: float = 0.0
    unpriced: int = 0
    """What all runs that were read cost, including those paid for before, and how many calls have no known price."""
    judges: Json = field(default_factory=dict, hash=False)
    """The agreement of the judges in the metric with people, as known at that time."""
    replay: Json = field(default_factory=dict, hash=False)
    """Of a verdict about replays: how many past runs could be replayed, and the digest of their sample."""
    mode: Mode = ""
    """Whether it may release the candidate: only a confirmatory one may."""
    why: str = ""
    """Why it is exploratory, if it is."""
    attempt: int = 0
    """Which attempt to replace the control it is, from 1; 0 if it is none."""
    warning: str = ""
    """Why to expect little of its interval, if there is a reason."""
    spent: float | None = None
    """How much of its error rate an exact test has used up."""
    hacking: Json = field(default_factory=dict, hash=False)
    """Signs that the gain does not come from answering the tasks, each with the gain that remains without it."""
    live: Json = field(default_factory=dict, hash=False)
    """Of a live verdict, whose units are pairs of outcomes: the source of the outcomes, how many units each arm had and
    how many of them have an outcome, and the digest of the list of all facts that were read."""

    is_final: bool = field(default=True, compare=False)
    """Whether it is the recorded answer; a live comparison that is not decided yet also returns what it has so far."""
    ranking: Ranking | None = field(default=None, compare=False, repr=False)
    """Of the best of several candidates: all of them."""
    replays: ReplayedRuns | None = field(default=None, compare=False, repr=False)
    """Of a verdict about replays that was just given: how far they can be trusted, and which runs were left out."""
    slices: Slices | None = field(default=None, compare=False, repr=False)
    """What the tasks that were run after it say of each tag, if any were. It stays what it is because of them."""

    @property
    def things(self) -> str:
        """What its units are."""
        return "pairs of outcomes" if self.live else "tasks"

    @property
    def gain(self) -> float:
        """How much better the candidate did."""
        return self.difference if self.better == "higher" else -self.difference

    @property
    def signs(self) -> list[Sign]:
        """Signs of reward hacking that its outputs were searched for."""
        return signs(self.hacking)

    @property
    def remaining(self) -> str:
        """Its gain, and what remains of it without each sign that was found or that more than half of it may come from;
        empty if there is none."""
        some = [
            sign
            for sign in self.signs
            if sign.is_found or (sign.is_seen and self.gain > 0 and sign.gain < self.gain / 2)
        ]
        without = ", ".join(f"without {sign.name} {sign.gain:+.3f}" for sign in some)
        return f"{self.gain:+.3f}; {without}" if some else ""

    def __str__(self) -> str:
        if self.finding == "invalid":
            return f"invalid: {self.because}, experiment {short(self.experiment)}"
        known = self.low is not None and self.high is not None
        interval = f"95% {self.low:+.3f} to {self.high:+.3f}" if known else f"too few {self.things} for an interval"
        read = f"{self.tasks} {self.things}" if self.live else f"{self.tasks} of {self.at_most} tasks"
        bound = "" if self.at_least is None else f", at least {self.at_least:+.3f} better"
        return (
            f"{self.finding}: {self.control_mean:.3f} → {self.candidate_mean:.3f} "
            f"({self.difference:+.3f}, {interval}{bound}) "
            f"after {read}, W {self.wins} T {self.ties} L {self.losses}, "
            f"experiment {short(self.experiment)}"
        )

    def __repr__(self) -> str:
        return f"<Verdict {self}>"

    def _repr_html_(self) -> str:
        interval = "" if self.low is None or self.high is None else f" (95 %: {self.low:+.3f} to {self.high:+.3f})"
        rows = [
            (f"{self.metric} of {short(self.control)}", f"{self.control_mean:.3f}"),
            (f"{self.metric} of {short(self.candidate)}", f"{self.candidate_mean:.3f}"),
            ("difference", f"{self.difference:+.3f}{interval}; {self.better} is better"),
            ("better, same, worse", f"{self.wins:,}, {self.ties:,}, {self.losses:,} of {self.tasks:,} {self.things}"),
            ("rule", f"{self.rule}, error rate {self.alpha:g}"),
        ]
        if self.at_least is not None:
            rows.insert(3, ("at least", f"{self.at_least:+.3f} better"))
        if self.warning:
            rows.append(("warning", self.warning))
        title = f"{short(self.candidate)} against {short(self.control)}: {self.finding}"
        note = f"Experiment {short(self.experiment)}"
        return html_table(title, rows if self.tasks else [("because", self.because)], note=note)

    def export(
        self, to: str | Path, *, store: Store | None = None, names: tuple[str, str] | None = None
    ) -> str | bytes | Path:
        """The verdict as `json`, `md` or `html`; or, if `to` is a path with such an ending, the file it was written to.
        Its store adds everything that it is based on. `names` are those of the control and the candidate."""
        write = load("seedbed.reports.experiment.report:export", "export")
        report: str | bytes | Path = write(self, to, store=store, names=names)
        return report

    def figures(self, *, store: Store | None = None) -> Mapping[str, Any]:
        """The figures of its report by their titles. Each shows itself in a notebook, and `save(path)` writes it to a
        file: .svg, .png or .pdf."""
        drawn: Mapping[str, Any] = load("seedbed.reports.experiment.report:figures", "figures")(self, store=store)
        return drawn

    def to_json(self) -> str:
        return str(self.export("json"))

    def to_pandas(self) -> pd.DataFrame:
        """The units that were read, a row each in registered order. Raises SettingsError without pandas."""
        pandas = optional("pandas", extra="frames", needed_for="to_pandas()")
        rows = [(sign, *pair) for sign, pair in zip(self.outcomes, self.scores, strict=False)]
        frame: pd.DataFrame = pandas.DataFrame(rows, columns=["outcome", "control", "candidate"])
        return frame

    def body(self) -> Json:
        body = asdict(replace(self, ranking=None, replays=None, slices=None))
        for name in (*NOT_STORED, *([] if self.unpriced else ["unpriced"])):
            del body[name]
        listed = {"scores": [list(pair) for pair in self.scores], "failed": list(self.failed)}
        return {**body, **listed, "unscored": list(self.unscored), "observed": self.observed and list(self.observed)}

    def document(self) -> Json:
        """The recorded body, and what is known of each tag."""
        return {**self.body(), "slices": self.slices and self.slices.body()}

    @classmethod
    def from_body(cls, body: Json) -> Verdict:
        try:
            scores = tuple((before, after) for before, after in body["scores"])
            lists = {"scores": scores, "failed": tuple(body["failed"]), "unscored": tuple(body["unscored"])}
            signs(body.get("hacking", {}))
            return cls(**{**body, **lists, "observed": (means := body.get("observed")) and (means[0], means[1])})
        except (LookupError, TypeError, ValueError, AttributeError):
            raise StoreDamaged(f"found {shown(body)}; expected a whole verdict. Restore it from a copy") from None

    @classmethod
    def recall(cls, store: Store, experiment: Digest) -> Verdict:
        """The recorded verdict, with what was recorded last of its tags."""
        for fact in store.facts(Query(kind="verdict", key=experiment)):
            return replace(cls.from_body(fact.body), slices=Slices.newest(store, experiment))
        raise NotFound(f"experiment {short(experiment)} has no verdict in this store. Run the comparison first")


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """One of several candidates: its verdict, its p-value among all, and whether it is better when all are counted."""

    verdict: Verdict
    adjusted: float
    better: bool


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates by estimated gain, with one error rate `alpha` for all of them together.

    "holm" limits the chance that any candidate is wrongly called better, "e-bh" the expected share of such candidates
    among those called better. Both hold although all are compared with the same control on the same tasks.
    """

    control: Literal["holm", "e-bh"]
    alpha: float
    candidates: tuple[RankedCandidate, ...]

    def document(self) -> Json:
        rows = [{**each.verdict.body(), "adjusted": each.adjusted, "better": each.better} for each in self.candidates]
        return {"control": self.control, "alpha": self.alpha, "candidates": rows}


def rank(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of the best of several candidates, with the ranking of all, whose errors together are controlled:
    at the sum of their error rates."""
    alpha = round(math.fsum(each.alpha for each in verdicts), 15)
    few = len(verdicts) <= FEW_CANDIDATES
    if few:
        corrected = holm([1.0 if each.finding == "invalid" or each.p is None else each.p for each in verdicts], alpha)
    else:
        corrected = e_bh([0.0 if each.finding == "invalid" or each.e is None else each.e for each in verdicts], alpha)
    ranked = map(RankedCandidate, verdicts, corrected.p, corrected.rejected)
    by_gain = sorted(ranked, key=lambda each: (each.better, each.verdict.gain), reverse=True)
    return replace(by_gain[0].verdict, ranking=Ranking("holm" if few else "e-bh", alpha, tuple(by_gain)))


def in_words(verdict: Verdict, rule: Json, names: tuple[str, str] | None = None, things: str = "") -> str:
    """The finding by the registered rule, for people who know no statistics.

    `names` are the names of the control and the candidate, by default their digests; `things` are the units.
    """
    old, new = names or (short(verdict.control), short(verdict.candidate))
    least, margin = rule.get("d0") or 0.0, rule.get("margin") or 0.0
    above = f" by more than {least:g}" if least else ""
    goal = ", which was to be shown" if rule.get("goal") == "non-inferior" else ""
    return {
        "superior": f"{new} is better than {old}{above}",
        "non-inferior": f"{new} is not worse than {old} by more than {margin:g}{goal}",
        "equivalent": f"{new} and {old} differ by less than {margin:g}",
        "inferior": f"{new} is worse than {old}",
        "futile": f"{new} is not better than {old} by {least + (rule.get('effect') or 0.0):g}, as was hoped for",
        "inconclusive": f"{verdict.tasks:,} {things or verdict.things} do not show whether {new} is better than {old}",
        "invalid": verdict.because,
    }[verdict.finding]


def missing_in_words(verdict: Verdict) -> str:
    """What is missing, whether one side misses more, and whether that matters; empty if nothing is."""
    if verdict.observed is None:
        return ""
    (control, candidate), count = verdict.observed, len(verdict.unscored)
    scores = "1 score" if count == 1 else f"{count:,} scores"
    text = f"{scores}, counted against the candidate; of the others {control:.3f} → {candidate:.3f}"
    if not (missing := verdict.missing):
        return text
    sides = f"{missing['control']:,} of the control, {missing['candidate']:,} of the candidate"
    text = f"{text}; {sides} (Fisher p {missing['p']:.2g})"
    if verdict.finding == "invalid":
        return text
    if verdict.finding == "superior":
        return f"{text}; superior even if all of them go against it"
    if (most := missing["tipping"]) is None:
        return f"{text}; not superior however they go"
    return f"{text}; superior if at most {most:,} of them go against it"


def verdicts(store: Store, candidate: Digest) -> list[Verdict]:
    """Every verdict about a candidate, oldest first."""
    return [Verdict.from_body(fact.body) for fact in store.facts(Query(kind="verdict", subject=candidate))]


def lost_comparison(store: Store, candidate: Digest) -> Verdict | None:
    """The newest verdict by which a candidate failed, if no confirmatory one has found it superior since."""
    lost = None
    for fact in store.facts(Query(kind="verdict", subject=candidate)):
        if fact.body["finding"] in ("inferior", "futile"):
            lost = fact
        elif fact.body["finding"] == "superior" and fact.body.get("mode") == "confirmatory":
            lost = None
    return Verdict.from_body(lost.body) if lost else None


def register(store: Store, plan: Experiment, *, by: str, clock: Callable[[], datetime]) -> None:
    """Register an experiment, and record that it was begun."""
    key = store.put("experiment", plan.content())
    body = {"control": plan.control, "dataset": plan.dataset, "channel": plan.channel, "alpha": plan.rule["alpha"]}
    body |= {"mode": plan.mode, "attempt": plan.attempt}
    store.append([Fact(kind="comparison", key=key, subject=plan.candidate, at=clock(), by=by, body=body)])


def record_verdict(store: Store, verdict: Verdict, *, by: str, clock: Callable[[], datetime]) -> Verdict:
    """Record a verdict. The first one of an experiment counts, and is returned."""
    fact = Fact(
        kind="verdict",
        key=verdict.experiment,
        subject=verdict.candidate,
        at=clock(),
        by=by,
        body=verdict.body(),
        value=verdict.difference,
    )
    store.append([fact])
    return Verdict.recall(store, verdict.experiment)


@dataclass(frozen=True, slots=True)
class ExperimentStatus:
    """An experiment that was begun, and its state."""

    experiment: Experiment
    begun: Fact
    status: ExperimentState
    verdict: Verdict | None


def experiments(store: Store) -> Iterator[ExperimentStatus]:
    """All experiments that were begun, newest first, with their state."""
    for begun in store.facts(Query(kind="comparison", newest=True)):
        yield experiment_status(store, begun.key)


def experiment_status(store: Store, experiment: Digest) -> ExperimentStatus:
    """The state of an experiment, by its digest. Raises NotFound."""
    begun = next(iter(store.facts(Query(kind="comparison", key=experiment))), None)
    if begun is None:
        raise NotFound(f"no experiment {shown(experiment)} was begun in this store. Run the comparison first")
    known = None
    with suppress(NotFound):
        known = Verdict.recall(store, experiment)
    status: ExperimentState = "running" if known is None else "aborted" if known.aborted else "completed"
    return ExperimentStatus(Experiment.from_content(store.get(experiment)), begun, status, known)


def find_experiment(store: Store, beginning: str) -> Digest:
    """The whole digest of an experiment, from its first characters. Raises SeedbedError."""
    start = beginning if beginning.startswith("b2:") else f"b2:{beginning}"
    keys = [fact.key for fact in store.facts(Query(kind="comparison", key_from=start, limit=2))]
    if len(keys) != 1:
        problem = "begins several experiments" if keys else "is not an experiment in this store"
        raise SeedbedError(f"{shown(beginning)} {problem}; expected one. `seedbed experiment list` shows them")
    return keys[0]
