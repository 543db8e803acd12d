"""The judges that a workspace file declares, so that they can be named like any other metric.

```yaml
metrics:
  helpful: {judge: rubric, model: strong, rubric: "Does it answer what was asked?"}
  same: {judge: reference, model: strong}
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeAlias, get_args

from seedbed.errors import Problem, SeedbedError, SettingsError, shown
from seedbed.evaluation.judges.judge import JudgeContext
from seedbed.evaluation.judges.rubrics import DebateQuality, Quality, Reference, Rubric
from seedbed.evaluation.metrics.metric import names
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.stage.runner import Runner
from seedbed.storage.store import Json

Declared: TypeAlias = Rubric | Reference | DebateQuality

KINDS: Mapping[str, tuple[type[Declared], tuple[str, ...]]] = {
    "rubric": (Rubric, ("rubric", "scale")),
    "reference": (Reference, ()),
    "debate_quality": (DebateQuality, ("part",)),
}
"""Each judge with the keys that are its own."""

SHARED = ("judge", "model", "max_tokens", "cut_at")


def judges(runner: Runner) -> dict[str, Declared]:
    """The judges of a workspace by their names. Raises SettingsError with all that is wrong with any of them."""

    async def once(run: str, playbook: Playbook, inputs: Json, seed: int, ledger: Ledger) -> Run:
        runner.library.keep(playbook, because="judge")
        return await runner.perform_once(run, playbook, inputs, seed, ledger=ledger)

    court, taken, models = JudgeContext(once, runner.model_identities), names(), {*runner.models}
    problems: list[Problem] = []
    found: dict[str, Declared] = {}
    for name, about in runner.settings.metrics.items():
        wrong = [*_problems(name, about, taken, models)]
        if not wrong:
            try:
                found[name] = _judge(name, about, court)
            except SeedbedError as refused:
                wrong.append(Problem(f"metrics.{name}", str(refused), "a judge"))
        problems += wrong
    if problems:
        raise SettingsError(problems, runner.settings.source)
    return found


def _judge(name: str, about: Mapping[str, Any], court: JudgeContext) -> Declared:
    kind, _ = KINDS[about["judge"]]
    given = {key: value for key, value in about.items() if key not in ("judge", "rubric")}
    if "rubric" in about:
        given["criteria"] = tuple(_listed(about["rubric"]))
    if "scale" in about:
        given["scale"] = tuple(about["scale"])
    return kind(name=name, perform=court.perform, identify=court.identify, **given)


def _problems(name: str, about: Mapping[str, Any], taken: Container[str], models: Container[str]) -> Iterable[Problem]:
    path = f"metrics.{name}"
    if not re.fullmatch(r"[^\W\d][\w-]*", name):
        yield Problem(path, f"the name {shown(name)}", "a word")
    elif name in taken:
        yield Problem(path, "the name of a metric that there is", "a name of its own")
    judge = about.get("judge")
    if not isinstance(judge, str) or judge not in KINDS:
        found = "nothing" if judge is None else shown(judge)
        yield Problem(f"{path}.judge", found, f"one of: {', '.join(KINDS)}")
        return
    own = KINDS[judge][1]
    if "rubric" in own and "rubric" not in about:
        yield Problem(f"{path}.rubric", "nothing", _VALUES["rubric"][0])
    for key, value in about.items():
        if key not in (*SHARED, *own):
            yield Problem(f"{path}.{key}", "an unknown key", f"one of: {', '.join((*SHARED, *own))}")
        elif key in _VALUES and not _VALUES[key][1](value):
            yield Problem(f"{path}.{key}", shown(value), _VALUES[key][0])
    model = about.get("model", "judge")
    if isinstance(model, str) and model not in models:
        yield Problem(f"{path}.model", f"no model named {shown(model)}", "one of those under models")


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _is_scale(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value)


def _is_rubric(value: object) -> bool:
    return bool(value) and all(map(_is_text, _listed(value)))


_VALUES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "model": ("the name of a model", _is_text),
    "max_tokens": ("a whole number above 0", _is_count),
    "cut_at": ("a whole number above 0", _is_count),
    "rubric": (
        "what is asked: a text, or a list of them",
        _is_rubric,
    ),
    "scale": ("the worst and the best mark, such as [1, 5]", _is_scale),
    "part": (f"one of: {', '.join(get_args(Quality))}", lambda value: value in get_args(Quality)),
}
"""What belongs under a key, and how to tell."""
