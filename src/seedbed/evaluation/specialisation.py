"""Specialised playbooks and their bases on all corpora: which corpus is hard, what was gained, what transfers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.intervals import mean_gain
from seedbed.evaluation.scorecard import Scorecard, interval_document
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Json


@dataclass(frozen=True, slots=True)
class Specialist:
    """A specialised playbook, its corpus, and the name of its base."""

    name: str
    corpus: str
    base: str
    playbook: Playbook


@dataclass(frozen=True)
class Specialisation:
    """The scorecards of bases and specialists on all corpora, by name and corpus.

    `seen` are the tasks that a specialist was evolved on or has as demos: they do not count for its gain.
    """

    bases: tuple[str, ...]
    specialists: tuple[Specialist, ...]
    corpora: tuple[str, ...]
    cards: Mapping[tuple[str, str], Scorecard]
    seen: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        return next(iter(self.cards.values())).metric

    @property
    def names(self) -> tuple[str, ...]:
        """All playbooks, bases first."""
        return tuple(dict.fromkeys([*self.bases, *(each.name for each in self.specialists)]))

    def difficulty(self, base: str) -> list[tuple[str, Interval]]:
        """The scores of a base on each corpus, the hardest first, those without a score last."""
        scores = [(corpus, self.cards[base, corpus]) for corpus in self.corpora]
        sign = -1.0 if scores[0][1].metric in scores[0][1].lower else 1.0
        intervals = [(corpus, card.interval) for corpus, card in scores]
        return sorted(intervals, key=lambda each: (not each[1].n, sign * each[1].mean if each[1].n else 0.0))

    def gain(self, specialist: Specialist, corpus: str) -> Interval:
        """How much better a specialist is than its base on the tasks of a corpus that it has not seen, paired."""
        one, other = self.cards[specialist.base, corpus], self.cards[specialist.name, corpus]
        return _gain(one, other, self.seen.get((specialist.name, corpus), frozenset()))

    def transfer(self, specialist: Specialist) -> dict[str, Interval]:
        """Its gain on every corpus but its own."""
        return {corpus: self.gain(specialist, corpus) for corpus in self.corpora if corpus != specialist.corpus}

    @property
    def notes(self) -> Iterator[str]:
        for (name, corpus), tasks in self.seen.items():
            if tasks:
                whole = len(self.cards[name, corpus].tasks)
                yield f"{name} has seen {len(tasks)} of {whole} tasks of {corpus}: its gain is over the others only"

    def document(self) -> Json:
        """As JSON, without the cells."""
        lower = any(self.metric in card.lower for card in self.cards.values())
        return {
            "metric": self.metric,
            "better": "lower" if lower else "higher",
            "corpora": list(self.corpora),
            "scores": [
                {
                    "name": name,
                    "playbook": card.playbook,
                    "corpus": corpus,
                    **interval_document(card.interval),
                    "unscored": len(card.unscored),
                    "reused": card.reused,
                    "cost_usd": card.cost_usd,
                }
                for (name, corpus), card in self.cards.items()
            ],
            "difficulty": [
                {"base": base, "corpus": corpus, **interval_document(interval)}
                for base in self.bases
                for corpus, interval in self.difficulty(base)
            ],
            "effects": [_gain_document(self, each, each.corpus) for each in self.specialists],
            "transfer": [
                _gain_document(self, each, corpus) for each in self.specialists for corpus in self.transfer(each)
            ],
        }


EvaluateOnCorpus = Callable[[str, Playbook, str, Dataset], Awaitable[Scorecard]]
"""Scores a playbook, given with its name, on the tasks of a corpus."""

SeenTasks = Callable[[Playbook, Dataset], Iterable[Task]]
"""Returns the tasks that a playbook was evolved on or has as demos."""


async def evaluate_specialisation(
    bases: Mapping[str, Playbook],
    specialists: Sequence[Specialist],
    corpora: Mapping[str, Dataset],
    evaluate: EvaluateOnCorpus,
    seen: SeenTasks | None = None,
) -> Specialisation:
    """Evaluate every base and specialist on every corpus; stored cells cost nothing."""
    playbooks = {**bases, **{each.name: each.playbook for each in specialists}}
    cards = {
        (name, corpus): await evaluate(name, playbook, corpus, tasks)
        for corpus, tasks in corpora.items()
        for name, playbook in playbooks.items()
    }
    known = {
        (each.name, corpus): frozenset(task.id for task in seen(each.playbook, tasks)) if seen else frozenset[str]()
        for each in specialists
        for corpus, tasks in corpora.items()
    }
    return Specialisation(tuple(bases), tuple(specialists), tuple(corpora), cards, known)


def _gain(base: Scorecard, other: Scorecard, seen: frozenset[str]) -> Interval:
    shared = [task for task in base.means if task in other.means and task not in seen]
    if base.playbook == other.playbook and shared:
        return Interval(0.0, 0.0, 0.0, 0.95, len(shared))
    before, after = ([card.means[task] for task in shared] for card in (base, other))
    scores = (after, before) if base.metric in base.lower else (before, after)
    return mean_gain(base.metric, *scores, base.sources(shared))


def _gain_document(results: Specialisation, specialist: Specialist, corpus: str) -> Json:
    seen = len(results.seen.get((specialist.name, corpus), ()))
    about = {"name": specialist.name, "base": specialist.base, "corpus": corpus}
    return {**about, **interval_document(results.gain(specialist, corpus)), "seen": seen}
