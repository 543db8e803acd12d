"""Settings: the workspace file, overridden by the environment chosen and by SEEDBED_ variables.

Secrets never stand in the file: where one is needed the file says `{env: NAME}` or `{file: PATH}`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator, model_validator
from pydantic_core import PydanticCustomError

from seedbed import documents
from seedbed.errors import Problem, SettingsError, shown

Environment = Literal["dev", "staging", "production"]
RESERVED = frozenset({"SEEDBED_KEY", "SEEDBED_NEW_KEY", "SEEDBED_DEBUG"})
"""Variables that are not settings: the keys of an encrypted store, and a wish to see tracebacks."""

_SECRET_NAME = re.compile(
    r"(?i)((api|access|account|subscription|master|private|signing)[_-]?key|secret|credential"
    r"|passw(or)?d|passphrase|(?<![a-z])pass|authorization|(?P<count>token))s?$"
)
"""Names that call for a secret. As a number, `count` is something else: max_tokens."""
_SECRET_VALUE = re.compile(r"^(Bearer\s+)?(sk|pk|rk|ghp|gho|xox[abp]|AKIA|AIza|eyJ)[-_A-Za-z0-9.]{16,}$")
_SERVER_KEY = re.compile(r"(^|\.)(tools\[\d+\]\.mcp\.key|alerts\[\d+\]\.(pagerduty\.key|slack\.url))$")
_URL_PASSWORD = re.compile(
    r"(?i)^\w[\w+.-]*://([^/@\s:]*:(?!\d+/)[^@\s]+@|\S*[?&]\w*(password|secret|token|api_?key)=[^&\s])"
)

_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "dict_type": "a mapping",
    "list_type": "a list",
    "model_type": "a mapping",
}


class Quota(BaseModel):
    """How much may happen within 24 hours; nothing given means no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    runs_per_day: int | None = Field(default=None, ge=0)
    usd_per_day: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Telemetry(BaseModel):
    """What is told to the outside: logs to the error stream or a file, metrics, spans to a URL. Else nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    logs: bool | str = False
    metrics: bool = False
    spans: str | None = None

    @field_validator("logs", mode="before")
    @classmethod
    def _check_logs(cls, value: object) -> object:
        if isinstance(value, bool) or (isinstance(value, str) and value):
            return value
        raise PydanticCustomError("logs", "true, false or the path of a file")

    @field_validator("spans", mode="before")
    @classmethod
    def _check_spans(cls, value: object) -> object:
        if value is None or (isinstance(value, str) and re.match(r"https?://[^/\s]+/\S", value)):
            return value
        raise PydanticCustomError("spans", "a URL such as http://localhost:4318/v1/traces")


class Confirmation(BaseModel):
    """How a person is asked where a rule wants it, and for how long; no answer is a no.

    Unless told how, `seedbed run` asks at its terminal, and everything else asks nobody.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    how: Literal["prompt", "queue", "nobody"] | None = None
    timeout: timedelta = timedelta(minutes=5)

    @field_validator("timeout", mode="before")
    @classmethod
    def _check_timeout(cls, value: object) -> timedelta:
        found = documents.duration(value)
        if found and found <= timedelta(weeks=52):
            return found
        raise PydanticCustomError("timeout", f"{documents.A_TIME}, and at most 52 weeks")

    @field_serializer("timeout")
    def _written(self, value: timedelta) -> str:
        return f"{value.total_seconds():f} seconds"


class McpServer(BaseModel):
    """A server of tools: a program that is started, or one that listens at a URL.

    With a `name`, its tools are called name_tool. What it does not mark as reading only, and `reads` does not name,
    changes the world. It is given no variables but the usual ones and those that `env` names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = ""
    command: list[str] = []
    env: list[str] = []
    url: str = ""
    key: str | dict[str, str] | None = Field(default=None, repr=False)
    reads: list[str] = []
    timeout_seconds: float = Field(default=60.0, gt=0, allow_inf_nan=False)

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if value and not re.match(r"https?://[^/\s]", value):
            raise PydanticCustomError("url", "a URL such as http://127.0.0.1:8080/mcp")
        return value

    @field_validator("key")
    @classmethod
    def _check_key(cls, value: object) -> object:
        if isinstance(value, dict) and not _is_reference(value):
            raise PydanticCustomError("key", "{env: NAME} or {file: PATH}")
        return value

    @model_validator(mode="after")
    def _check_place(self) -> McpServer:
        if bool(self.command) == bool(self.url):
            raise PydanticCustomError("place", "either a command to start it with or the url it listens at")
        if (self.key and self.command) or (self.env and self.url):
            raise PydanticCustomError("place", "a key for a url, env for a command")
        return self

    @property
    def label(self) -> str:
        """How it is called in a message."""
        return f"MCP server {self.name or self.url or shown(' '.join(self.command))}"


class ToolSource(BaseModel):
    """Where tools come from: a function, which stands alone as module:function, or a server of them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    function: str | None = None
    mcp: McpServer | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_source(cls, value: object) -> object:
        if isinstance(value, str) and re.match(r"[\w.]+:\w+$", value):
            return {"function": value}
        if not isinstance(value, dict) or not value:
            raise PydanticCustomError("source", "module:function, or mcp with a server")
        return value


_SECTIONS: dict[str, type[BaseModel]] = {"quota": Quota, "telemetry": Telemetry, "tools": ToolSource, "mcp": McpServer}
_SECTIONS |= {"confirm": Confirmation}


_URLS = ("store", "cache")


class Settings(BaseModel):
    """What a workspace is made of. Models, metrics, channels and alerts are checked by the parts that use them.

    In a file `store` and `cache`, whose URLs may hold a password, can be `{env: NAME}` or `{file: PATH}` too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    store: str = "sqlite:///seedbed.db"
    cache: str = Field(default="", repr=False)
    by: str = ""
    environment: Environment = "dev"
    encrypted: bool = False
    models: dict[str, dict[str, Any]] = {}
    metrics: dict[str, dict[str, Any]] = {}
    channels: dict[str, dict[str, Any]] = {}
    reviewers: dict[str, list[str]] = {}
    """Who reviews for all channels, and their roles; a channel may say otherwise."""
    alerts: list[dict[str, Any]] = []
    tools: list[ToolSource] = []
    confirm: Confirmation = Confirmation()
    parallel: int | str = "loop"
    quota: Quota = Quota()
    telemetry: Telemetry = Telemetry()
    source: str = Field(default="", exclude=True)

    @field_validator("parallel", mode="before")
    @classmethod
    def _check_parallel(cls, value: object) -> object:
        if isinstance(value, int | str) and re.fullmatch(r"loop|processes|ray(:\S+)?|[1-9]\d{0,3}", str(value)):
            return value
        raise PydanticCustomError("parallel", "loop, processes, a number of processes, ray, or ray://HOST:PORT")

    @field_validator("cache")
    @classmethod
    def _check_cache(cls, value: str) -> str:
        if value and not re.match(r"(rediss?|unix)://\S", value):
            raise PydanticCustomError("cache", "a URL such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock")
        return value

    @classmethod
    def load(cls, path: Path | str, environ: Mapping[str, str] | None = None) -> Settings:
        """Read a workspace file. Raises SettingsError with everything that is wrong with it."""
        document = documents.read(path, SettingsError)
        if not isinstance(document.value, dict):
            raise SettingsError([Problem("document", "no settings", "a mapping with store, models, …")], str(path))
        values = {key: value for key, value in document.value.items() if key != "environments"}
        sections = document.value.get("environments") or {}
        environ = os.environ if environ is None else environ
        variables = _variables(environ)
        # Nothing in settings depends on anything else there, so each layer can be judged by itself.
        problems = [*secrets(document.value), *_problems(values), *_section_problems(sections)]
        for name, (keys, value) in variables.items():
            problems += [replace(problem, path=name) for problem in _problems(_with({}, keys, value))]
        if problems:
            raise SettingsError(_placed(problems, document), str(path))
        _, environment = variables.get("SEEDBED_ENVIRONMENT", ([], values.get("environment", "dev")))
        for key, value in (sections.get(environment) or {}).items():
            above = isinstance(value, dict) and not _is_reference(value)
            values[key] = {**values.get(key, {}), **value} if above else value
        for keys, value in variables.values():
            values = _with(values, keys, value)
        for name in _URLS:
            if _is_reference(values.get(name)):
                values[name] = revealed(values[name], environ, name, Path(path).parent)
        return cls.model_validate({**values, "source": str(path)})

    def path(self, name: str) -> Path:
        """A path in the settings as seen from the workspace file."""
        return Path(self.source).parent / name


# Secrets


def secrets(value: object, path: str = "", name: str = "") -> Iterator[Problem]:
    """Every place where a secret is written out. The value itself is never quoted."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from secrets(item, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from secrets(item, f"{path}[{index}]", name)
    elif _is_secret(value, name) or (isinstance(value, str) and _SERVER_KEY.search(path)):
        remedy = "Take it out of the file and rotate it; a file that held it once may have been copied."
        yield Problem(path, "a secret written out", "{env: NAME} or {file: PATH}", remedy)


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


def revealed(value: Any, environ: Mapping[str, str], where: str, folder: Path) -> Any:
    """`value` with each `{env: NAME}` and `{file: PATH}` in it replaced by what it stands for.

    Raises SettingsError with every one that stands for nothing.
    """
    problems: list[Problem] = []

    def reveal(value: Any, where: str) -> Any:
        if isinstance(value, list):
            return [reveal(item, f"{where}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        if not _is_reference(value):
            return {key: reveal(item, f"{where}.{key}") for key, item in value.items()}
        ((kind, name),) = value.items()
        if kind == "env":
            if name not in environ:
                problems.append(Problem(where, f"no variable {name}", "one in the environment", f"Set {name}."))
            return environ.get(name)
        try:
            return (folder / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as wrong:
            found = f"{name}: {wrong.strerror if isinstance(wrong, OSError) else 'not UTF-8 text'}"
            problems.append(Problem(where, found, "a readable file that holds the secret"))

    result = reveal(value, where)
    if problems:
        raise SettingsError(problems)
    return result


def _is_reference(value: object) -> bool:
    if not isinstance(value, Mapping) or value.keys() not in ({"env"}, {"file"}):
        return False
    return all(isinstance(name, str) for name in value.values())


# Layers


def _variables(environ: Mapping[str, str]) -> dict[str, tuple[list[str], Any]]:
    """SEEDBED_STORE sets store; SEEDBED_QUOTA__RUNS_PER_DAY sets quota.runs_per_day. What is not text is YAML."""
    variables: dict[str, tuple[list[str], Any]] = {}
    ours = [name for name in sorted(environ) if name.startswith("SEEDBED_") and not _is_reserved(name)]
    known = {name: field for name, field in Settings.model_fields.items() if name != "source"}
    unknown = [name for name in ours if _keys(name)[0] not in known]
    if unknown:
        expected = f"one of: {', '.join(f'SEEDBED_{name.upper()}' for name in known)}"
        remedy = "Unset it, or correct its name."
        raise SettingsError([Problem(name, "a variable that sets nothing", expected, remedy) for name in unknown])
    for name in ours:
        keys = _keys(name)
        field = known[keys[0]]
        is_text = field.annotation is str and len(keys) == 1
        value = environ[name] if is_text else documents.parse(environ[name], name, SettingsError).value
        variables[name] = (keys, value)
    return variables


def _is_reserved(variable: str) -> bool:
    return variable in RESERVED or variable.startswith("SEEDBED_TEST_")


def _keys(variable: str) -> list[str]:
    return variable.removeprefix("SEEDBED_").lower().split("__")


def _with(values: Mapping[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    """`values` with one more value, under keys within keys."""
    first, *rest = keys
    below = values.get(first)
    return {**values, first: _with(below if isinstance(below, dict) else {}, rest, value) if rest else value}


def _section_problems(sections: object) -> Iterator[Problem]:
    """What is wrong with any environment's section, not only with that of the chosen one."""
    if not isinstance(sections, dict):
        yield Problem("environments", shown(sections), "a mapping of environments to settings")
        return
    for name, section in sections.items():
        path = f"environments.{name}"
        if name not in get_args(Environment):
            yield Problem(path, "an unknown environment", f"one of: {', '.join(get_args(Environment))}")
        elif not isinstance(section, dict | None):
            yield Problem(path, shown(section), "a mapping of settings")
        else:
            for problem in _problems(section or {}, without=("environment",)):
                yield replace(problem, path=f"{path}.{problem.path}")


def _problems(layer: dict[str, Any], without: tuple[str, ...] = ()) -> Iterator[Problem]:
    known = [name for name in Settings.model_fields if name not in ("source", *without)]
    for name in layer.keys() & {"source", *without}:
        yield Problem(name, "an unknown key", f"one of: {', '.join(known)}")
    try:
        Settings.model_validate({**layer, **{name: "" for name in _URLS if _is_reference(layer.get(name))}})
    except ValidationError as wrong:
        hidden = [problem.path for problem in secrets(layer)]
        for each in wrong.errors(include_url=False):
            path = _path(each["loc"])
            if each["type"] == "extra_forbidden":
                above = [str(name) for name in each["loc"][:-1] if isinstance(name, str)]
                expected = _SECTIONS[above[-1]].model_fields if above else known
                yield Problem(path, "an unknown key", f"one of: {', '.join(expected)}")
            else:
                secret = any(re.match(rf"{re.escape(path)}([.\[]|$)", place) for place in hidden)
                secret = secret or (path in _URLS and "@" in str(each["input"]))
                found = "a secret" if secret else shown(each["input"])
                yield Problem(path, found, _EXPECTED.get(each["type"], each["msg"].removeprefix("Input should be ")))


def _path(keys: Iterable[int | str]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _placed(problems: Iterable[Problem], document: documents.Document) -> list[Problem]:
    lines = document.lines
    return [replace(p, path=f"{p.path} (line {lines[p.path]})") if p.path in lines else p for p in problems]
