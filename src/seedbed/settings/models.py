"""Model cards: what each model is, can do and costs, under `models` in the workspace file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from seedbed.errors import Problem, shown
from seedbed.plugins import suggestion, unknown
from seedbed.settings.section import Expected, Section, refusal
from seedbed.settings.values import PositiveCount

OURS = {
    "embedded": "seedbed.models.providers.embedded.EmbeddedChat",
    "openai": "seedbed.models.providers.openai.OpenAIChat",
    "scripted": "seedbed.models.providers.scripted.ScriptedChat",
    "table": "seedbed.models.providers.recorded.RecordedChat",
}
"""The classes of the models that come with seedbed, by their short names."""


A_CLASS = f"{', '.join(OURS)}, or the path of a chat model class: package.Class"


def _expect_class(use: str) -> str:
    if use not in OURS and not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", use):
        raise refusal(Problem("", shown(use), A_CLASS, suggestion(use, OURS)))
    return use


OutputWay = Literal["native", "tool", "prompted"]
"""How a structured answer is asked for: by the provider's own JSON mode, as a call of a tool, or in words."""

_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Skill = Annotated[float, Field(ge=0, le=1)]


class Card(Section):
    """A model: how to build it, what it can do, what it costs, and its limits.

    `then` names its fallbacks, in order. The two prices are for prompt and completion tokens; if absent, prices are
    looked up. An answer can take up to `timeout_seconds` in total. A call that takes longer than the share `hedge` of
    recent answers is sent a second time, which costs extra. `skill` rates the model on a type of task, from 0 to 1.
    `output` says how it gives structured answers; default: as its provider declares.

    `args` never appear in `repr` or in error messages, since users may write a secret there instead of a reference.
    """

    example = "{use: embedded, can: [reasoning]}"

    use: Annotated[Annotated[str, Expected(A_CLASS)], AfterValidator(_expect_class)]
    args: Annotated[dict[str, Any], Expected("a mapping of arguments by name", "typed")] = Field(
        default_factory=dict, repr=False
    )
    can: Annotated[tuple[str, ...], Field(strict=False), Expected("a list of capabilities: [reasoning, analysis]")] = ()
    skill: Annotated[dict[str, _Skill], Expected("how good it is at types of tasks, from 0 to 1: {reasoning: 0.9}")] = (
        Field(default_factory=dict)
    )
    then: Annotated[
        tuple[str, ...], Field(strict=False), Expected("a list of the models to ask if this one cannot answer: [fast]")
    ] = ()
    usd_per_million: (
        Annotated[
            tuple[_Price, _Price],
            Field(strict=False),
            Expected("two prices, of prompt and completion tokens: [0.2, 0.8]"),
        ]
        | None
    ) = None
    context_tokens: PositiveCount | None = None
    requests_per_minute: PositiveCount | None = None
    tokens_per_minute: PositiveCount | None = None
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False), Expected("a number above zero")] = 120.0
    hedge: Annotated[float, Field(ge=0.5, lt=1), Expected("a share of the answers, such as 0.95")] | None = None
    output: Annotated[OutputWay, Expected("native, tool or prompted")] | None = None

    @property
    def class_path(self) -> str:
        return OURS.get(self.use, self.use)

    def masters(self, capability: str) -> bool:
        """Whether the card says that the model can do this."""
        return capability in self.can or capability in self.skill


def check_fallbacks(fallbacks: Mapping[str, Iterable[str]], names: Iterable[str]) -> Iterator[Problem]:
    """Every fallback that is not a model, and every cycle of fallbacks once."""
    known = list(map(str, names))
    for name, then in fallbacks.items():
        for other in then:
            if other not in known:
                yield unknown(f"models.{name}.then", other, known)
    circular: set[str] = set()
    for name in fallbacks:
        cycle = _shortest_cycle(name, fallbacks)
        if cycle and not circular & set(cycle):
            circular.update(cycle)
            yield Problem(f"models.{name}.then", " → ".join(cycle), "fallbacks that do not lead back")


def _shortest_cycle(start: str, fallbacks: Mapping[str, Iterable[str]]) -> list[str]:
    """The shortest path from a model along its fallbacks back to itself; empty if there is none."""
    paths, seen = [[start]], set[str]()
    for path in paths:  # grows while it is read
        for other in fallbacks.get(path[-1], ()):
            if other == start:
                return [*path, other]
            if other not in seen:
                seen.add(other)
                paths.append([*path, other])
    return []
