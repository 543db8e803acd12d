"""Placeholders: `{name}` in a prompt stands for a task input or an earlier step; `{{name}}` is plain text.

`{name.model}` stands for the model of an earlier step's role, `{name.field}` for a field of its structured answer.
Braces around anything else, such as JSON, stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_PLACEHOLDER = re.compile(r"\{\{(?P<literal>[^\W\d]\w*(?:\.model)?)\}\}|\{(?P<name>[^\W\d]\w*)(?P<model>\.model)?\}")


_FIELD = re.compile(r"(?<!\{)\{(?P<name>[^\W\d]\w*)\.(?P<path>(?!model\})\w+(?:\.\w+)*)\}")


_ALL = re.compile(f"{_PLACEHOLDER.pattern}|{_FIELD.pattern.replace('<name>', '<step>').replace('<path>', '<field>')}")


class Placeholder(NamedTuple):
    name: str
    of_model: bool = False
    path: str = ""

    def __str__(self) -> str:
        return f"{{{self.name}{'.model' if self.of_model else f'.{self.path}' if self.path else ''}}}"


def fields(prompt: str) -> Iterator[Placeholder]:
    """Each `{name.field}`, which is a placeholder if `name` is a step with a structured answer, and else plain text."""
    return iter(dict.fromkeys(Placeholder(m["name"], path=m["path"]) for m in _FIELD.finditer(prompt)))


def placeholders(prompt: str) -> Iterator[Placeholder]:
    """Each placeholder once, in order of appearance."""
    names = (Placeholder(m["name"], bool(m["model"])) for m in _PLACEHOLDER.finditer(prompt) if m["name"])
    return iter(dict.fromkeys(names))


def literals(prompt: str) -> Iterator[str]:
    """The names in double braces, each once."""
    return iter(dict.fromkeys(m["literal"] for m in _PLACEHOLDER.finditer(prompt) if m["literal"]))


def rename(prompt: str, values: Mapping[Placeholder, str]) -> str:
    """Replace those placeholders of a prompt that have a value; everything else stays as it is."""

    def replace(match: re.Match[str]) -> str:
        return values.get(Placeholder(match["name"] or "", bool(match["model"])), match[0])

    return _PLACEHOLDER.sub(replace, prompt)


def fill(prompt: str, values: Mapping[Placeholder, str]) -> str:
    """Replace the placeholders of a prompt. Raises KeyError for one without a value.

    Placeholders in a value are not replaced.
    """

    def replace(match: re.Match[str]) -> str:
        if match["field"]:
            return values.get(Placeholder(match["step"], path=match["field"]), match[0])
        if match["literal"]:
            return f"{{{match['literal']}}}"
        return values[Placeholder(match["name"], bool(match["model"]))]

    return _ALL.sub(replace, prompt)
