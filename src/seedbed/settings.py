"""Settings: the workspace file, overridden by the environment chosen and by SEEDBED_ variables.

Secrets never stand in the file: where one is needed the file says `{env: NAME}` or `{file: PATH}`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seedbed import documents
from seedbed.errors import Problem, SettingsError, shown

ENVIRONMENTS = ("dev", "staging", "production")
RESERVED = frozenset({"SEEDBED_KEY"})
"""Variables that are not settings: the master key of an encrypted store."""

_SECRET_NAME = re.compile(r"(?i)(api[_-]?key|secret|passw(or)?d|token|credential|private[_-]?key)s?$")
_SECRET_VALUE = re.compile(r"^(sk|pk|rk|ghp|gho|xox[abp]|AKIA|AIza|eyJ)[-_A-Za-z0-9.]{16,}$")
_URL_PASSWORD = re.compile(r"^\w[\w+.-]*://[^/@\s:]*:[^/@\s]+@")


class Quota(BaseModel):
    """How much may happen within 24 hours; nothing given means no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs_per_day: int | None = Field(default=None, ge=0)
    usd_per_day: float | None = Field(default=None, ge=0)


class Settings(BaseModel):
    """What a workspace is made of. Models and channels are checked by the parts that use them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str = "sqlite:///seedbed.db"
    by: str = ""
    environment: str = "dev"
    encrypted: bool = False
    models: dict[str, dict[str, Any]] = {}
    channels: dict[str, dict[str, Any]] = {}
    quota: Quota = Quota()
    source: str = Field(default="", exclude=True)

    @classmethod
    def load(cls, path: Path | str, environ: Mapping[str, str] | None = None) -> Settings:
        """Read a workspace file. Raises SettingsError with everything that is wrong with it."""
        path = Path(path)
        environ = os.environ if environ is None else environ
        document = documents.read(path, SettingsError)
        if not isinstance(document.value, dict):
            raise SettingsError([Problem("document", "no settings", "a mapping with store, models, …")], str(path))
        problems = list(secrets(document.value))
        if problems:
            raise SettingsError(_placed(problems, document), str(path))
        values = _with_variables(document.value, environ)
        values = _with_environment(values, document)
        try:
            return cls.model_validate({**values, "source": str(path)})
        except ValidationError as wrong:
            raise SettingsError(_placed(_problems(wrong), document), str(path)) from None

    def path(self, name: str) -> Path:
        """A path in the settings as seen from the workspace file."""
        return Path(self.source).parent / name


def secrets(value: object, path: str = "") -> Iterator[Problem]:
    """Every place where a secret is written out. The value itself is never quoted."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            inner = f"{path}.{key}" if path else str(key)
            if _SECRET_NAME.search(str(key)) and isinstance(item, str) and item:
                yield _secret(inner)
            else:
                yield from secrets(item, inner)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from secrets(item, f"{path}[{index}]")
    elif isinstance(value, str) and (_SECRET_VALUE.match(value) or _URL_PASSWORD.match(value)):
        yield _secret(path)


def _secret(path: str) -> Problem:
    remedy = "Take it out of the file and rotate it; a file that held it once may have been copied."
    return Problem(path, "a secret written out", "{env: NAME} or {file: PATH}", remedy)


def revealed(value: Any, environ: Mapping[str, str], where: str, folder: Path) -> Any:
    """`value` with each `{env: NAME}` and `{file: PATH}` in it replaced by what it stands for."""
    if isinstance(value, Mapping):
        if value.keys() == {"env"} and isinstance(name := value["env"], str):
            if name not in environ:
                raise SettingsError([Problem(where, f"no variable {name}", "one in the environment", f"Set {name}.")])
            return environ[name]
        if value.keys() == {"file"} and isinstance(name := value["file"], str):
            try:
                return (folder / name).read_text().strip()
            except OSError as wrong:
                found = f"{name}: {wrong.strerror}"
                raise SettingsError([Problem(where, found, "a readable file that holds the secret")]) from None
        return {key: revealed(item, environ, f"{where}.{key}", folder) for key, item in value.items()}
    if isinstance(value, list):
        return [revealed(item, environ, f"{where}[{index}]", folder) for index, item in enumerate(value)]
    return value


def _with_variables(values: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """SEEDBED_STORE sets store; SEEDBED_QUOTA__RUNS_PER_DAY sets quota.runs_per_day; values are YAML."""
    result = dict(values)
    for name in sorted(environ):
        if not name.startswith("SEEDBED_") or name in RESERVED:
            continue
        *parents, last = name.removeprefix("SEEDBED_").lower().split("__")
        if (parents or [last])[0] not in Settings.model_fields:
            continue
        value = documents.parse(environ[name], name, SettingsError).value
        inner = result
        for parent in parents:
            inner[parent] = dict(inner.get(parent) or {})
            inner = inner[parent]
        inner[last] = value
    return result


def _with_environment(values: dict[str, Any], document: documents.Document) -> dict[str, Any]:
    """The section of the chosen environment laid over the rest."""
    sections = values.pop("environments", None) or {}
    chosen = values.get("environment", "dev")
    problems = []
    if not isinstance(sections, dict):
        raise SettingsError([Problem("environments", shown(sections), "a mapping")], document.source)
    for name in [*sections, chosen]:
        if name not in ENVIRONMENTS:
            problems.append(Problem("environment", shown(name), f"one of {', '.join(ENVIRONMENTS)}"))
    if problems:
        raise SettingsError(_placed(problems, document), document.source)
    for key, value in (sections.get(chosen) or {}).items():
        below = values.get(key)
        values[key] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
    return values


def _problems(wrong: ValidationError) -> Iterator[Problem]:
    for each in wrong.errors(include_url=False):
        path = ".".join(map(str, each["loc"]))
        if each["type"] == "extra_forbidden":
            known = [name for name in Settings.model_fields if name != "source"]
            yield Problem(path, "an unknown key", f"one of: {', '.join(known)}, environments")
        else:
            yield Problem(path, shown(each["input"]), each["msg"].removeprefix("Input should be "))


def _placed(problems: Iterator[Problem] | list[Problem], document: documents.Document) -> list[Problem]:
    lines = document.lines
    return [
        Problem(f"{p.path} (line {lines[p.path]})" if p.path in lines else p.path, p.found, p.expected, p.remedy)
        for p in problems
    ]
