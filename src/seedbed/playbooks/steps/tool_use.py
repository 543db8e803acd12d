"""Tool use: what a playbook says about the tools that its models call: which, in which words, and how often."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints

from seedbed.errors import Problem
from seedbed.playbooks.rules import matches
from seedbed.playbooks.values import Frozen, ReadOnly

MOST_CALL_ROUNDS = 50

ToolWords = Annotated[str, StringConstraints(max_length=20_000)]


class ToolText(Frozen):
    """What models are told of a tool and of its arguments, in place of the tool's own words."""

    about: ToolWords = ""
    arguments: Annotated[dict[str, ToolWords], AfterValidator(ReadOnly)] = Field(default_factory=ReadOnly)


class CallLimits(Frozen):
    """How a step calls tools: in at most so many rounds, at most so many reading calls at a time; then the model must
    answer, or the step fails."""

    at_most: Annotated[int, Field(ge=1, le=MOST_CALL_ROUNDS)] = 12
    parallel: Annotated[int, Field(ge=1, le=50)] = 4
    then: Literal["answer", "fail"] = "answer"


def chosen(patterns: Collection[str], tools: Collection[str]) -> list[str]:
    """The tools that names and patterns choose, sorted."""
    return sorted(tool for tool in tools if any(matches(pattern, tool) for pattern in patterns))


def tool_problems(document: Mapping[str, Any], steps: Iterator[tuple[str, Mapping[str, Any]]]) -> Iterator[Problem]:
    """Limits on calls where there is nothing to call."""
    roles = document.get("roles")
    for path, step in steps:
        role = roles.get(step.get("role")) if isinstance(roles, Mapping) else None
        named = step["tools"] if "tools" in step else role.get("tools") if isinstance(role, Mapping) else None
        if "calls" in step and not named:
            yield Problem(f"{path}.calls", "limits on calls and no tools", "tools to call", "Name them under tools.")
