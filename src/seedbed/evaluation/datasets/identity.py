"""What a task is: the key that tasks which ask the same have in common."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from seedbed.evaluation.datasets.dataset import Case, Task
from seedbed.redaction import redact
from seedbed.storage.store import Digest, digest

_LOOK_ALIKES = str.maketrans("аеорсухіјѕԁһвкмнт", "aeopcyxijsdhbkmht")
_CONTROLS = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n"}
_ENDS = " \t\n\"'“”‘’«»`.,;:!?"


def task_key(inputs: Mapping[str, Any], used: Collection[str] | None = None, case: Case = "fold") -> Digest:
    """The same for inputs that ask the same: case, white space, invisible characters, the form of letters, quotes and
    punctuation at the ends make no difference, nor whether a number is a text.

    `used` names the inputs that count, if a playbook does not read them all: what it never sees changes nothing. With
    `case="keep"` upper and lower case differ.
    """
    counted = {name: _normal(value, case) for name, value in inputs.items() if used is None or name in used}
    return digest("task key", counted)


def unit_of(task: Task) -> str:
    """The same for tasks that tell as much together as one of them: those of one source, or that ask the same."""
    return task.source or task_key(task.inputs)


def normal_text(text: str, case: Case = "fold") -> str:
    """A text without what makes no difference to what it asks: case, blanks, invisible characters, codes for others."""
    if "&" in text:
        text = html.unescape(text)
    if "%" in text:
        text = unquote(text)
    if text.isascii():  # the same, ten times as fast: there may be very many runs to look through
        whole = text.translate(_CONTROLS)
        return " ".join((whole if case == "keep" else whole.casefold()).split()).strip(_ENDS)
    plain = unicodedata.normalize("NFKC", text)
    visible = (each for each in plain if each in "\t\n" or unicodedata.category(each) not in ("Cf", "Cc"))
    whole = "".join(visible)
    words = (_latin(word) for word in (whole if case == "keep" else whole.casefold()).split())
    return " ".join(words).strip(_ENDS)


def _normal(value: Any, keeping: Case = "fold") -> Any:
    match value:
        case Mapping():
            return {str(name): _normal(each, keeping) for name, each in value.items()}
        case str():  # records of runs have no secrets, and must be recognised
            return normal_text(redact(value), keeping)
        case list() | tuple():
            return [_normal(each, keeping) for each in value]
        case float() if value.is_integer():
            return str(int(value))
        case None:
            return None
        case _:
            return normal_text(str(value), keeping)


def _latin(word: str) -> str:
    """A word that mixes Latin with Cyrillic letters, all in Latin: such a mix only serves to look like another word."""
    if word.isascii() or not re.search("[a-z]", word):
        return word
    return word.translate(_LOOK_ALIKES)


def text_of(inputs: Mapping[str, Any], used: Collection[str] | None = None, case: Case = "fold") -> str:
    """All that inputs ask as one text, without what makes no difference. `used` and `case` are as in `task_key`."""
    return " \n ".join(_strings(_normal({name: inputs[name] for name in inputs if used is None or name in used}, case)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(each)
