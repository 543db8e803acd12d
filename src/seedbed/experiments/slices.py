"""Slices: what becomes of the tasks of each tag after a verdict that may release a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from seedbed.errors import NotFound, Problem, SettingsError, StoreDamaged, shown
from seedbed.experiments.experiment import Unit
from seedbed.stats.sequential.stopping_rule import Answer
from seedbed.stats.slices import SliceFinding
from seedbed.storage.store import Digest, Json, Query, Store, short


@dataclass(frozen=True, slots=True)
class SliceTerms:
    """Tags with at least `least` tasks are looked at. On each, "worse by `margin` or more" is to be ruled out; of the
    tags called worse, on average at most a share `false` is not."""

    margin: float = 0.1
    false: float = 0.1
    least: int = 30

    def __post_init__(self) -> None:
        problems = [Problem("margin", f"{self.margin:g}", "above 0 and below 1")] * (not 0 < self.margin < 1)
        problems += [Problem("false", f"{self.false:g}", "above 0 and below 0.5")] * (not 0 < self.false < 0.5)
        problems += [Problem("least", f"{self.least}", "at least 1")] * (self.least < 1)
        if problems:
            raise SettingsError(problems)

    def key(self, experiment: Digest) -> str:
        """The key of what is recorded of an experiment on these terms."""
        return f"{experiment}@{self.margin:g}@{self.false:g}@{self.least}"

    def tags(self, units: Sequence[Unit]) -> dict[str, list[int]]:
        """The tags with enough tasks, each with the places of its units."""
        places: dict[str, list[int]] = {}
        for place, unit in enumerate(units):
            for tag in sorted({tag for task in unit for tag in task.tags}):
                places.setdefault(tag, []).append(place)
        return {tag: places[tag] for tag in sorted(places) if len(places[tag]) >= self.least}


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceProgress(Answer):
    """How far the tags are decided: `open` of `tags` are not, after `tasks` units in all. The rest is the answer of the
    verdict, which stays."""

    tasks: int
    tags: int
    open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What is known of one tag. The interval of the difference, candidate minus control, holds with 95 % confidence
    wherever it ended: for this tag, not for all tags together."""

    tag: str
    finding: SliceFinding
    tasks: int
    at_most: int
    wins: int
    ties: int
    losses: int
    difference: float
    low: float
    high: float
    p: float | None
    """That of "the candidate is not worse", 1 if it ended so; None if it has not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """What is known of all tags with enough tasks, the worst first."""

    experiment: Digest
    terms: SliceTerms
    tags: tuple[Slice, ...]
    tasks: int
    """How many units were run in all, for the verdict and for the tags."""
    cost_usd: float
    """What the runs after the verdict cost."""
    evidence: Digest = ""
    """The digest of all cells that were read, as in a verdict. Empty if the budget ended before all tags were decided:
    nothing is recorded then."""

    @property
    def worse(self) -> list[Slice]:
        return [each for each in self.tags if each.finding == "worse"]

    @property
    def open(self) -> list[Slice]:
        return [each for each in self.tags if each.finding == "open"]

    def body(self) -> Json:
        return {**asdict(self), "tags": [asdict(each) for each in self.tags]}

    @classmethod
    def from_body(cls, body: Json) -> Slices:
        try:
            tags = tuple(Slice(**each) for each in body["tags"])
            return cls(**{**body, "terms": SliceTerms(**body["terms"]), "tags": tags})
        except (LookupError, TypeError, ValueError):
            raise StoreDamaged(f"found {shown(body)}; expected whole slices. Restore them from a copy") from None

    @classmethod
    def recall(cls, store: Store, experiment: Digest, terms: SliceTerms) -> Slices:
        for fact in store.facts(Query(kind="slices", key=terms.key(experiment))):
            return cls.from_body(fact.body)
        raise NotFound(f"experiment {short(experiment)} has no results by tag on these terms. Compare again")

    @classmethod
    def newest(cls, store: Store, experiment: Digest) -> Slices | None:
        """What was recorded last of an experiment, on whatever terms."""
        facts = store.facts(Query(kind="slices", subject=experiment, newest=True, limit=1))
        return next((cls.from_body(fact.body) for fact in facts), None)
