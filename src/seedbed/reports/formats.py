"""Writing a report: in a format by its name, or to a file whose ending names the format.

Results have a method `export` that ends here. They live below this package and may not import it, so they load the
module for their noun by its path (`seedbed.plugins.load`): the one inversion of the layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from seedbed.errors import Problem, SettingsError
from seedbed.files import write_private
from seedbed.plugins import suggestion
from seedbed.redaction import redact

Noun = TypeVar("Noun")

ALIASES = {"markdown": "md", "htm": "html"}


def export(noun: Noun, writers: Mapping[str, Callable[[Noun], str | bytes]], to: str | Path) -> str | bytes | Path:
    """What the writer of the format `to` makes of a noun, or the path of the file that it was written to.

    Raises SettingsError for a format that has no writer.
    """
    name = ALIASES.get(str(to), str(to))
    if isinstance(to, str) and name in writers:
        return _without_secrets(writers[name](noun))
    path = Path(to)
    ending = path.suffix.lower().removeprefix(".")
    format_name = ALIASES.get(ending, ending)
    if format_name not in writers:
        name = ending or str(to)
        expected = f"one of: {', '.join(writers)}, or a file that ends in one of them"
        raise SettingsError([Problem("format", name, expected, suggestion(name, writers))])
    write_private(path, _without_secrets(writers[format_name](noun)))
    return path


def _without_secrets(content: str | bytes) -> str | bytes:
    """Records of before secrets were taken out of them may hold some."""
    return redact(content) if isinstance(content, str) else content


def finite(value: Any) -> Any:
    """A value as JSON can hold it: times in ISO 8601, what is not a finite number as null."""
    if isinstance(value, Mapping):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value
