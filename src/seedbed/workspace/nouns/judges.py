"""space.judges: metrics that ask a model, and how far they agree with people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from seedbed.errors import Problem, SettingsError
from seedbed.evaluation.judges import labels
from seedbed.evaluation.judges.agreement import AGREEMENT, JudgeAgreement, agreements, calibrate, deciding, distrust
from seedbed.evaluation.judges.declared import DeclaredJudge
from seedbed.evaluation.judges.labels import LabelledAnswer
from seedbed.evaluation.metrics.metric import Score
from seedbed.plugins import unknown
from seedbed.storage.store import Json
from seedbed.workspace.execution import Execution
from seedbed.workspace.resources import Resources


@dataclass(frozen=True)
class JudgeTrust:
    """The agreement with people that counts for a judge, and why releases may not rest on it, if so."""

    agreement: JudgeAgreement | None
    refusal: Problem | None
    at_least: float = AGREEMENT


class Judges:
    """The judges under `metrics` in the workspace file, by name; iterating gives the names."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._execution = Execution(resources)

    def __iter__(self) -> Iterator[str]:
        return iter(self._execution.judges)

    def __len__(self) -> int:
        return len(self._execution.judges)

    def __getitem__(self, name: str) -> DeclaredJudge:
        judges = self._execution.judges
        if name not in judges:
            remedy = "Declare it under metrics in the workspace file."
            raise SettingsError([unknown("judge", name, judges, remedy)])
        return judges[name]

    def agreements(self, name: str) -> list[JudgeAgreement]:
        """Every check of a judge against people's labels, oldest first."""
        return list(agreements(self._resources.store, self[name]))

    def trust(self, name: str, at_least: float | None = None) -> JudgeTrust:
        """Whether releases may rest on a judge: whether the lower end of its kappa reaches `at_least`."""
        needed = AGREEMENT if at_least is None else at_least
        counts = deciding(self.agreements(name))
        return JudgeTrust(counts, distrust(counts, needed, name=name), needed)

    @staticmethod
    def size(file: Path) -> int:
        """How many labels a file has. Raises DatasetError."""
        return len(labels.read_labels(file))

    async def check(
        self, name: str, file: Path, on_event: Callable[[int, int], None] | None = None
    ) -> tuple[JudgeAgreement, list[Json]]:
        """Let a judge score what people have labelled, and store how far they agree; also where they do not.

        `on_event` receives how many labels are done, and how many there are.
        """
        judge, labelled = self[name], labels.read_labels(file)
        scores: list[Score] = []

        def scored(item: LabelledAnswer, score: Score) -> None:
            scores.append(score)
            if on_event:
                on_event(len(scores), len(labelled))

        agreement = await calibrate(judge, list(labelled.values()), watch=scored)
        stored = agreement.record(self._resources.store, self._resources.by)
        pairs = zip(labelled.items(), scores, strict=True)
        return stored, _disagreements({place: (item, score) for (place, item), score in pairs})


def _disagreements(scored: Mapping[str, tuple[LabelledAnswer, Score]]) -> list[Json]:
    """Where the judge says something else than people, or nothing: the farthest from them first."""
    differing = [
        {
            "place": place,
            "label": item.label,
            "score": score.value,
            "answer": item.run.output,
            "reason": score.reason,
        }
        for place, (item, score) in scored.items()
        if score.value is None or abs(score.value - (item.label or 0.0)) > 1e-6
    ]
    return sorted(differing, key=lambda each: -2.0 if each["score"] is None else -abs(each["score"] - each["label"]))
