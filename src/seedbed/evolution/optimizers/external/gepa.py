"""GEPA: the reflective search of the `gepa` package, with seedbed's cells, budget and records."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from seedbed import plugins
from seedbed.errors import PlaybookError, Problem, SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.learning.lessons import PoorCase
from seedbed.evolution.optimizers.external.adapter import ExternalOptimizer, SearchBridge, TrialRequest, TrialResult
from seedbed.evolution.optimizers.reflection import Propose, ask_model, name_proposer
from seedbed.evolution.protocols import Search, at_least, check_settings
from seedbed.evolution.variation.checks import LIMITS, Limits, build_child, problems
from seedbed.evolution.variation.edits import editable_texts
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.storage.store import Digest, Json

if TYPE_CHECKING:
    from gepa.core.adapter import EvaluationBatch

Texts: TypeAlias = Mapping[str, str]
TaskResults: TypeAlias = "EvaluationBatch[tuple[Task, TrialResult], str]"

HOPELESS = float("-inf")
"""The score of a candidate that is not worth a run."""


class GEPA(ExternalOptimizer):
    """Edits each candidate by its results on `batch` tasks that may be read. An edit that is better on these tasks is
    tried on all select tasks. Parents are drawn from the candidates that are best at some task.

    A model writes the edits, asked in the package's words, or a function proposes them, as for Reflection. With `merge`
    two candidates that are good at different tasks also have a child. A candidate that scores `perfect` on all its
    tasks is not edited. Known runs are free, so a search tries more candidates than the package alone would.
    """

    package = "gepa"

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
        check_settings("gepa", batch=at_least(1, batch), max_tokens=at_least(1, max_tokens))
        by = {"propose": name_proposer(propose)} if propose else {"model": model}
        self.identity: Json = {
            "optimizer": "gepa",
            **by,
            "batch": batch,
            "max_tokens": max_tokens,
            "merge": merge,
            "perfect": perfect,
            "limits": asdict(limits),
        }
        self._propose, self._limits = propose, limits
        role = {"model": model, "max_tokens": max_tokens}
        self._writer = Playbook.from_document(
            {"roles": {"writer": role}, "steps": [{"name": "text", "role": "writer", "prompt": "{prompt}"}]}
        )

    def begin(self, search: Search) -> None:
        """Begin a search. Raises PlaybookError without a text that may evolve; SettingsError without the package, tasks
        to read, or a model or function that proposes."""
        super().begin(search)
        self._count = 0
        if not editable_texts(search.start):
            raise PlaybookError([Problem("genes", "no text that may evolve", "at least one", "Unlock one.")])
        if self._propose is None and search.perform is None:
            remedy = "Give it a function that proposes, or search in a workspace, which has models."
            raise SettingsError([Problem("optimizer gepa", "no model to ask", "one", remedy)])

    def work(self) -> Callable[[SearchBridge], None]:
        search, limits = self._search, self._limits
        start, read, select = search.start, list(search.reflect), list(search.pool.select)
        seed, perfect = int(search.chance("gepa").integers(2**31)), float(self.identity["perfect"])
        batch, merge, by_model = self.identity["batch"], self.identity["merge"], self._propose is None
        gepa = plugins.optional("gepa.api", extra="gepa", needed_for="optimizer gepa")

        def run(bridge: SearchBridge) -> None:
            adapter = _GepaAdapter(start, bridge, limits, perfect)
            gepa.optimize(
                seed_candidate=_values(start),
                trainset=read,
                valset=select,
                adapter=adapter,
                perfect_score=perfect,
                stop_callbacks=lambda state: bridge.ended.is_set(),
                logger=_Silent(),
                track_best_outputs=False,
                seed=seed,
                reflection_lm=adapter.write if by_model else None,
                custom_candidate_proposer=None if by_model else adapter.propose,
                reflection_minibatch_size=batch,
                use_merge=merge,
            )

        return run

    async def answer(self, question: _Write | _Edit) -> str | None:
        self._count += 1
        return await (self._write(question) if isinstance(question, _Write) else self._edit(question))

    async def _write(self, question: _Write) -> str:
        """What the model writes; an empty text if it refuses or is cut off."""
        inputs = {"prompt": question.prompt.encode(errors="replace").decode()}
        run = await ask_model(self._search, f"gepa/{self._count}", self._writer, inputs)
        if run is None or any(turn.finish_reason == "length" for turn in run.turns):
            return ""
        return text_of(run.output)

    async def _edit(self, question: _Edit) -> str | None:
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


class _GepaAdapter:
    """Evaluates the package's candidates in the search. A task is a Task if it may be read, and otherwise its id."""

    propose_new_texts = None

    def __init__(self, start: Playbook, bridge: SearchBridge, limits: Limits, perfect: float) -> None:
        self._start, self._bridge, self._limits, self._perfect = start, bridge, limits, perfect
        self._made: dict[Digest, Texts] = {start.digest: _values(start)}
        self._parent: Digest | None = None
        self._poor: list[PoorCase] = []
        package = plugins.optional("gepa.core.adapter", extra="gepa", needed_for="optimizer gepa")
        self._batch: Callable[..., TaskResults] = package.EvaluationBatch

    def evaluate(self, batch: Sequence[Task | str], candidate: Texts, capture_traces: bool = False) -> TaskResults:
        playbook = self._playbook(candidate)
        if playbook is None:
            return self._batch([""] * len(batch), [HOPELESS] * len(batch), [None] * len(batch))
        tasks = tuple(task if isinstance(task, str) else task.id for task in batch)
        results = self._bridge.try_playbook(TrialRequest(playbook, tasks, *self._origin(playbook, candidate)))
        answers = [result.cell.answer if result.cell else "" for result in results]
        traces = list(zip(batch, results, strict=True)) if capture_traces else None
        return self._batch(answers, [result.score for result in results], traces)

    def make_reflective_dataset(
        self, candidate: Texts, batch: TaskResults, components: Sequence[str]
    ) -> dict[str, Any]:
        playbook = self._playbook(candidate)
        self._parent = playbook.digest if playbook else None
        traces = batch.trajectories or []
        self._poor = [_case(*each) for each in traces if each[1].score < self._perfect]
        records = [_record(_case(*each)) for each in traces]
        return dict.fromkeys(components, records)

    def write(self, prompt: Any) -> str:
        return str(self._bridge.ask(_Write(str(prompt))))

    def propose(self, candidate: Texts, records: object, components: Sequence[str]) -> dict[str, str]:
        parent = self._playbook(candidate)
        assert parent
        texts = {path: self._bridge.ask(_Edit(parent, path, self._poor)) for path in components}
        return {path: text for path, text in texts.items() if text is not None}

    def _playbook(self, candidate: Texts) -> Playbook | None:
        """The start with these texts; None if it is not worth a run."""
        made = build_child(self._start, candidate)
        fits = made and (made.digest == self._start.digest or not problems(self._start, made, self._limits))
        return made if fits else None

    def _origin(self, playbook: Playbook, candidate: Texts) -> tuple[tuple[Digest, ...], str]:
        """Its parents and how it was made: an edit of the candidate that was last reflected on, or else a merger."""
        if playbook.digest in self._made:
            return (), "varied"
        parent, self._parent = self._parent, None
        if parent:
            before, parents = self._made[parent], [parent]
            how = f"edited {', '.join(path for path in candidate if candidate[path] != before[path])}"
        else:
            holders = (
                next((each for each, texts in self._made.items() if texts[path] == candidate[path]), None)
                for path in candidate
            )
            parents, how = [each for each in dict.fromkeys(holders) if each], "merged"
        self._made[playbook.digest] = dict(candidate)
        return tuple(parents), how


class _Silent:
    def log(self, message: str) -> None:
        return None


def _case(task: Task, result: TrialResult) -> PoorCase:
    cell = result.cell
    return PoorCase(task, cell.value, cell.reason, cell.answer, result.run) if cell else PoorCase(task, result.score)


def _record(case: PoorCase) -> dict[str, Any]:
    """A case as the package shows it to its model."""
    scored = "not scored" if case.score is None else f"score {case.score:.3g}"
    wanted = "" if case.task.expected is None else f" Expected: {text_of(case.task.expected)}"
    return {
        "Inputs": text_of(dict(case.task.inputs)),
        "Generated Outputs": case.answer,
        "Feedback": f"{scored}. {case.reason}{wanted}".strip(),
    }


def _values(playbook: Playbook) -> dict[str, str]:
    return {path: gene.value for path, gene in editable_texts(playbook).items()}
