"""GEPA: the reflective search of the `gepa` package, with our cells, our budget and our record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from seedbed.errors import ModelUnavailable, PlaybookError, Problem, SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.learning.lessons import PoorCase
from seedbed.evolution.optimizers.external.adapter import ExternalOptimizer, SearchBridge, TrialRequest, TrialResult
from seedbed.evolution.optimizers.reflection import Propose
from seedbed.evolution.protocols import Search
from seedbed.evolution.variation.checks import LIMITS, Limits, problems
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.dialogue.dialogue import told
from seedbed.storage.store import Digest, Json

Texts: TypeAlias = Mapping[str, str]

HOPELESS = float("-inf")
"""The score of what is not worth a run: it cannot be better than anything."""


class GEPA(ExternalOptimizer):
    """Each candidate is edited by what it shows on `batch` tasks that may be read; if the edit is better on the same
    tasks, it is tried on all that decide. Parents are drawn from those that are best at some task.

    Edits are written by a model, asked as the package asks it, or proposed by a function as for Reflection. With
    `merge` two candidates that are good at different tasks also have a child. A candidate whose tasks all reach
    `perfect` is not edited. Runs that are known are free, so a search tries more than the package alone would.
    """

    package = extra = "gepa"

    def __init__(
        self,
        *,
        model: str = "strong",
        propose: Propose | None = None,
        batch: int = 3,
        merge: bool = False,
        perfect: float = 1.0,
        max_tokens: int = 4_000,
        limits: Limits = LIMITS,
    ) -> None:
        counts = {"batch": batch, "max_tokens": max_tokens}
        if wrong := [Problem(name, str(count), "at least 1") for name, count in counts.items() if count < 1]:
            raise SettingsError(wrong, "GEPA")
        by = {"propose": _named(propose)} if propose else {"model": model}
        self.identity: Json = {"optimizer": "gepa", **by, **counts, "merge": merge, "perfect": perfect}
        self.identity |= {"limits": asdict(limits)}
        self._propose, self._limits = propose, limits
        role = {"model": model, "max_tokens": max_tokens}
        self._writer = Playbook.from_document(
            {"roles": {"writer": role}, "steps": [{"name": "text", "role": "writer", "prompt": "{prompt}"}]}
        )

    def begin(self, search: Search) -> None:
        """Get ready for a search. Raises PlaybookError without a text that may evolve; SettingsError without the
        package, tasks to read or anyone to propose."""
        super().begin(search)
        self._count = 0
        if not _texts(search.start):
            raise PlaybookError([Problem("genes", "no text that may evolve", "at least one", "Unlock one.")])
        if not search.reflect:
            raise SettingsError([Problem("reflect", "no tasks", "some tasks that may be read")], "GEPA")
        if self._propose is None and search.perform is None:
            raise SettingsError([Problem("perform", "nobody", "a workspace to ask a model in")], "GEPA")

    def work(self) -> Callable[[SearchBridge], None]:
        search, limits = self._search, self._limits
        start, read, decide = search.start, list(search.reflect), list(search.pool.select)
        seed, perfect = int(search.chance("gepa").integers(2**31)), float(self.identity["perfect"])
        options = {"reflection_minibatch_size": self.identity["batch"], "use_merge": self.identity["merge"]}
        by_model = self._propose is None

        def run(line: SearchBridge) -> None:
            from gepa.api import optimize

            adapter: Any = _Adapter(start, line, limits, perfect)
            by = {"reflection_lm": adapter.written} if by_model else {"custom_candidate_proposer": adapter.proposed}
            optimize(
                seed_candidate=_texts(start),
                trainset=read,
                valset=decide,
                adapter=adapter,
                perfect_score=perfect,
                stop_callbacks=lambda state: line.ended.is_set(),
                logger=_Silent(),
                track_best_outputs=False,
                seed=seed,
                **by,
                **options,
            )

        return run

    async def answered(self, question: _Write | _Edit) -> str | None:
        self._count += 1
        return await (self._written(question) if isinstance(question, _Write) else self._edited(question))

    async def _written(self, question: _Write) -> str:
        """What a model writes. What it will not say, or cannot end, is no text."""
        assert self._search.perform
        inputs = {"prompt": question.prompt.encode(errors="replace").decode()}
        try:
            run = await self._search.perform(f"gepa/{self._count}", self._writer, inputs)
        except ModelUnavailable as unavailable:
            # Anything else may pass, and would make another search of this one when it is taken up again.
            if unavailable.why not in ("refused", "context"):
                raise
            return ""
        return "" if any(turn.finish_reason == "length" for turn in run.turns) else told(run.output)

    async def _edited(self, question: _Edit) -> str | None:
        assert self._propose
        gene, chance = genes(question.parent)[question.path], self._search.chance("gepa", "edit", self._count)
        texts = self._propose(question.parent, gene, question.poor, (), chance)
        return next(iter(await texts if inspect.isawaitable(texts) else texts), None)


@dataclass(frozen=True, slots=True)
class _Write:
    prompt: str


@dataclass(frozen=True, slots=True)
class _Edit:
    parent: Playbook
    path: str
    poor: Sequence[PoorCase]


class _Adapter:
    """What the package evaluates is tried in the search. Its tasks are Tasks where they may be read, else names."""

    propose_new_texts = None

    def __init__(self, start: Playbook, line: SearchBridge, limits: Limits, perfect: float) -> None:
        self._start, self._line, self._limits, self._perfect = start, line, limits, perfect
        self._made: dict[Digest, Texts] = {start.digest: _texts(start)}
        self._parent: Digest | None = None
        self._poor: list[PoorCase] = []

    def evaluate(self, batch: Sequence[Task | str], candidate: Texts, capture_traces: bool = False) -> Any:
        from gepa.core.adapter import EvaluationBatch

        playbook = self._playbook(candidate)
        if playbook is None:
            return EvaluationBatch([""] * len(batch), [HOPELESS] * len(batch), [None] * len(batch))
        tasks = tuple(task if isinstance(task, str) else task.id for task in batch)
        results = self._line.tried(TrialRequest(playbook, tasks, *self._origin(playbook, candidate)))
        answers = [result.cell.answer if result.cell else "" for result in results]
        traces = list(zip(batch, results, strict=True)) if capture_traces else None
        return EvaluationBatch(answers, [result.score for result in results], traces)

    def make_reflective_dataset(self, candidate: Texts, batch: Any, components: Sequence[str]) -> dict[str, Any]:
        playbook = self._playbook(candidate)
        self._parent = playbook.digest if playbook else None
        self._poor = [_case(*each) for each in batch.trajectories if each[1].score < self._perfect]
        shown = [_record(_case(*each)) for each in batch.trajectories]
        return dict.fromkeys(components, shown)

    def written(self, prompt: Any) -> str:
        return str(self._line.asked(_Write(str(prompt))))

    def proposed(self, candidate: Texts, shown: object, components: Sequence[str]) -> dict[str, str]:
        parent = self._playbook(candidate)
        assert parent
        found = {path: self._line.asked(_Edit(parent, path, self._poor)) for path in components}
        return {path: text for path, text in found.items() if text is not None}

    def _playbook(self, candidate: Texts) -> Playbook | None:
        """The start with these texts; None if it is not worth a run."""
        try:
            made = with_genes(self._start, dict(candidate))
        except PlaybookError:
            return None
        is_start = made.digest == self._start.digest
        return made if is_start or not problems(self._start, made, self._limits) else None

    def _origin(self, playbook: Playbook, candidate: Texts) -> tuple[tuple[Digest, ...], str]:
        """Its parents and how it was made: an edit of the candidate that was last reflected on, or else a merger."""
        if playbook.digest in self._made:
            return (), "varied"
        parent, self._parent = self._parent, None
        if parent:
            before = self._made[parent]
            found, how = [parent], f"edited {', '.join(path for path in candidate if candidate[path] != before[path])}"
        else:
            holders = (
                next((each for each, texts in self._made.items() if texts[path] == candidate[path]), None)
                for path in candidate
            )
            found, how = [each for each in dict.fromkeys(holders) if each], "merged"
        self._made[playbook.digest] = dict(candidate)
        return tuple(found), how


class _Silent:
    def log(self, message: str) -> None:
        return None


def _case(task: Task, result: TrialResult) -> PoorCase:
    cell = result.cell
    return PoorCase(task, cell.value, cell.reason, cell.answer, result.run) if cell else PoorCase(task, result.score)


def _record(case: PoorCase) -> dict[str, Any]:
    """A case as the package shows it to whoever writes."""
    scored = "not scored" if case.score is None else f"score {case.score:.3g}"
    wanted = "" if case.task.expected is None else f" Expected: {told(case.task.expected)}"
    return {
        "Inputs": told(dict(case.task.inputs)),
        "Generated Outputs": case.answer,
        "Feedback": f"{scored}. {case.reason}{wanted}".strip(),
    }


def _texts(playbook: Playbook) -> dict[str, str]:
    """The texts that may be edited. A step without a prompt is told the task, which no words can replace."""
    known = {path: gene.value for path, gene in genes(playbook).items() if gene.kind == "text"}
    return {path: text for path, text in known.items() if text.strip() or path.startswith("roles.")}


def _named(propose: Propose) -> str:
    named = propose if hasattr(propose, "__qualname__") else type(propose)
    return f"{named.__module__}:{named.__qualname__}"
