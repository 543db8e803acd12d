"""Secrets: the workspace file holds none. It says `{env: NAME}` or `{file: PATH}` where one is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from seedbed.errors import Problem, SettingsError

A_REFERENCE = "{env: NAME} or {file: PATH}"
ROTATE = "Take it out of the file and rotate it; a file that held it once may have been copied."

_SECRET_NAME = re.compile(
    r"(?i)((api|access|account|subscription|master|private|signing)[_-]?key|secret|credential"
    r"|passw(or)?d|passphrase|(?<![a-z])pass|authorization|(?P<count>token))s?$"
)
"""Names of secrets. Names that match `count` hold a secret only as text: max_tokens is a number."""
_SECRET_VALUE = re.compile(r"^(Bearer\s+)?(sk|pk|rk|ghp|gho|xox[abp]|AKIA|AIza|eyJ)[-_A-Za-z0-9.]{16,}$")
_SECRET_PATH = re.compile(r"(^|\.)(tools\[\d+\]\.mcp\.key|alerts\[\d+\]\.(pagerduty\.key|slack\.url))$")
_URL_PASSWORD = re.compile(
    r"(?i)^\w[\w+.-]*://([^/@\s:]*:(?!\d+/)[^@\s]+@|\S*[?&]\w*(password|secret|token|api_?key)=[^&\s])"
)


def secrets(value: object, path: str = "", name: str = "") -> Iterator[Problem]:
    """Every place where a secret is written out. The problems do not quote it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from secrets(item, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from secrets(item, f"{path}[{index}]", name)
    elif _is_secret(value, name) or (isinstance(value, str) and _SECRET_PATH.search(path)):
        yield Problem(path, "a secret written out", A_REFERENCE, ROTATE)


def without_secrets(value: Any, name: str = "") -> Any:
    """`value` with nothing in the place of its secrets."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item, name) for item in value]
    return None if _is_secret(value, name) else value


def _is_secret(value: object, name: str) -> bool:
    named = _SECRET_NAME.search(name)
    if isinstance(value, str):
        return bool(value and (named or _SECRET_VALUE.match(value) or _URL_PASSWORD.match(value)))
    return type(value) in (int, float) and named is not None and not named["count"]


def is_reference(value: object) -> bool:
    """Whether a value refers to a secret."""
    if not isinstance(value, Mapping) or value.keys() not in ({"env"}, {"file"}):
        return False
    return all(isinstance(name, str) for name in value.values())


def reveal(value: Any, environ: Mapping[str, str], where: str, folder: Path) -> Any:
    """`value` with each `{env: NAME}` and `{file: PATH}` in it replaced by the secret.

    Raises SettingsError with every reference that leads to nothing.
    """
    problems: list[Problem] = []

    def look_up(value: Any, where: str) -> Any:
        if isinstance(value, list):
            return [look_up(item, f"{where}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        if not is_reference(value):
            return {key: look_up(item, f"{where}.{key}") for key, item in value.items()}
        ((kind, name),) = value.items()
        if kind == "env":
            if name not in environ:
                problems.append(Problem(where, f"no variable {name}", "one in the environment", f"Set {name}."))
            return environ.get(name)
        try:
            return (folder / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as wrong:
            reason = wrong.strerror if isinstance(wrong, OSError) else "not UTF-8 text"
            problems.append(Problem(where, f"{name}: {reason}", "a readable file that holds the secret"))

    result = look_up(value, where)
    if problems:
        raise SettingsError(problems)
    return result
