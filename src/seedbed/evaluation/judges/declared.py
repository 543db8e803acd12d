"""Judges that a workspace file declares; they are named like any other metric.

```yaml
metrics:
  helpful: {judge: rubric, model: strong, rubric: "Does it answer what was asked?"}
  same: {judge: reference, model: strong}
```
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from seedbed.errors import Problem, SettingsError
from seedbed.evaluation.judges.judge import JudgeContext
from seedbed.evaluation.judges.rubrics import SCALE, DebateQuality, Reference, Rubric
from seedbed.evaluation.metrics.registry import names
from seedbed.playbooks.playbook import Playbook
from seedbed.plugins import unknown
from seedbed.runs.run import Run
from seedbed.settings.judges import JudgeSettings
from seedbed.spending.ledger import Ledger
from seedbed.stage.runner import Runner
from seedbed.storage.store import Json

DeclaredJudge: TypeAlias = Rubric | Reference | DebateQuality


def declared_judges(runner: Runner) -> dict[str, DeclaredJudge]:
    """The judges of a workspace by name. Raises SettingsError with every problem of every judge."""

    async def once(run: str, playbook: Playbook, inputs: Json, seed: int, ledger: Ledger) -> Run:
        runner.library.keep(playbook, because="judge")
        return await runner.perform_once(run, playbook, inputs, seed, ledger=ledger)

    context, taken = JudgeContext(once, runner.model_identities), names()
    problems: list[Problem] = []
    for name, about in runner.settings.metrics.items():
        if name in taken:
            problems.append(Problem(f"metrics.{name}", "the name of another metric", "a unique name"))
        if about.model not in runner.models:
            problems.append(unknown(f"metrics.{name}.model", about.model, runner.models, kind="model"))
    if problems:
        raise SettingsError(problems, runner.settings.source)
    return {name: _build(name, about, context) for name, about in runner.settings.metrics.items()}


def _build(name: str, about: JudgeSettings, context: JudgeContext) -> DeclaredJudge:
    judge: DeclaredJudge
    if about.judge == "reference":
        judge = Reference(perform=context.perform, name=name)
    elif about.judge == "debate_quality":
        judge = DebateQuality(perform=context.perform, part=about.part, name=name)
    else:
        criteria, scale = about.rubric or (), about.scale or SCALE
        judge = Rubric(perform=context.perform, criteria=criteria, scale=scale, name=name)
    return replace(
        judge, identify=context.identify, model=about.model, max_tokens=about.max_tokens, cut_at=about.cut_at
    )
