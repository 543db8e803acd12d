"""Settings: the workspace file, overridden by the chosen environment and by SEEDBED_ variables."""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from seedbed import documents
from seedbed.errors import Problem, SettingsError, shown
from seedbed.plugins import suggestion, unknown
from seedbed.settings.alerts import AlertSettings, check_names
from seedbed.settings.channels import ChannelSettings, Reviewers
from seedbed.settings.judges import JudgeSettings
from seedbed.settings.models import Card, check_fallbacks
from seedbed.settings.secrets import is_reference, reveal, secrets
from seedbed.settings.section import Expected, Missing, Section, join, problems, refusal, require, unknown_key
from seedbed.settings.tools import ToolSource
from seedbed.settings.values import REFERENCE_SCHEMA, Period, PositiveCount, Quota

Environment: TypeAlias = Literal["dev", "staging", "production"]
RESERVED = frozenset({"SEEDBED_KEY", "SEEDBED_NEW_KEY", "SEEDBED_DEBUG"})
"""Variables that are not settings: the keys of an encrypted store, and the switch for tracebacks."""
ONLY_IN_FILE = frozenset({"channels", "metrics", "reviewers", "signers"})
"""What decides whether a release is allowed, with the judges that gates name: no variable overrides it, because that
would leave no trace, and no environment, because a variable chooses it."""


class LimitSettings(Section):
    """What a workspace lets happen at most, whatever a model, a task or a program does.

    `concurrent_runs` and `run_time` have no limit by default; a run that takes longer fails, and can be resumed. With
    `unknown_prices: allow` a limit in money holds for the calls whose price is known; the others are counted as of
    unknown price.
    """

    concurrent_runs: PositiveCount | None = None
    run_time: Period | None = None
    unknown_prices: Literal["refuse", "allow"] = "refuse"


_URL = re.compile(r"https?://[^/\s]+/\S")


class TelemetrySettings(Section):
    """What leaves the process. Default: nothing.

    Logs of at least a `level` go to the error stream, to a file or to a URL, metrics to Prometheus or to a URL, and
    spans to a URL.
    """

    logs: Annotated[
        bool | str,
        AfterValidator(require(lambda logs: logs != "")),
        Expected("true, false, the path of a file, or a URL"),
    ] = False
    level: Literal["debug", "info", "warning", "error"] = "info"
    metrics: Annotated[
        bool | str,
        AfterValidator(require(lambda metrics: isinstance(metrics, bool) or _URL.match(metrics))),
        Expected("true, false, or a URL such as http://localhost:4318/v1/metrics"),
    ] = False
    spans: Annotated[
        str | None,
        AfterValidator(require(lambda url: url is None or _URL.match(url))),
        Expected("a URL such as http://localhost:4318/v1/traces"),
    ] = None


class ConfirmSettings(Section):
    """How a person is asked when a rule requires it, and how long to wait; no answer counts as no.

    Default: `seedbed run` asks at its terminal; nothing else asks.
    """

    how: Literal["prompt", "queue", "nobody"] | None = None
    timeout: Annotated[Period, Field(le=timedelta(weeks=52)), Expected(f"{documents.A_TIME}, and at most 52 weeks")] = (
        timedelta(minutes=5)
    )


def _is_executor(value: object) -> bool:
    known = re.fullmatch(r"loop|processes|ray(:\S+)?|[1-9]\d{0,3}", str(value))
    return known is not None and not isinstance(value, bool)


def _check_metric_name(name: str) -> str:
    if not re.fullmatch(r"[^\W\d][\w-]*", name):
        raise refusal(Problem("", f"the name {shown(name)}", "a word"))
    return name


_URL_SCHEMA = WithJsonSchema({"anyOf": [{"type": "string"}, REFERENCE_SCHEMA]})
_URLS = ("store", "cache", "signing_key")


def _is_public_key(text: str) -> bool:
    try:
        return text.startswith("ed25519:") and len(b64decode(text.removeprefix("ed25519:"), validate=True)) == 32
    except ValueError:
        return False


class Settings(Section):
    """The whole workspace file. Constructing it raises SettingsError with every problem.

    In a file, `store` and `cache` can also be `{env: NAME}` or `{file: PATH}`, since their URLs may contain a password.
    """

    store: Annotated[str, _URL_SCHEMA] = "sqlite:///seedbed.db"
    cache: Annotated[
        str,
        AfterValidator(require(lambda url: not url or re.match(r"(rediss?|unix)://\S", url))),
        _URL_SCHEMA,
        Expected("a URL such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock"),
    ] = Field(default="", repr=False)
    by: str = ""
    environment: Environment = "dev"
    encrypted: bool = False
    signers: dict[
        str,
        Annotated[
            str,
            AfterValidator(require(_is_public_key)),
            Expected("a public key such as ed25519:…, as `seedbed evidence key` prints it"),
        ],
    ] = Field(default_factory=dict)
    """The public keys of people who sign what they register, approve and release."""
    signing_key: Annotated[str, _URL_SCHEMA] = Field(default="", repr=False)
    """The private key of the person who works here; usually the variable SEEDBED_SIGNING_KEY."""
    models: dict[str, Card] = Field(default_factory=dict)
    metrics: dict[Annotated[str, AfterValidator(_check_metric_name)], JudgeSettings] = Field(default_factory=dict)
    channels: dict[str, ChannelSettings] = Field(default_factory=dict)
    reviewers: Reviewers = Field(default_factory=dict)
    """Reviewers for all channels, and their roles; a channel can name others."""
    alerts: list[AlertSettings] = Field(default_factory=list)
    tools: list[ToolSource] = Field(default_factory=list)
    programs: list[str] = Field(default_factory=list)
    """Patterns of the programs that playbooks should name, such as `desk:*`. Default: any."""
    confirm: ConfirmSettings = Field(default_factory=ConfirmSettings)
    parallel: Annotated[
        int | str,
        AfterValidator(require(_is_executor)),
        Expected("loop, processes, a number of processes, ray, or ray://HOST:PORT"),
    ] = "loop"
    quota: Quota = Field(default_factory=Quota)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    source: str = Field(default="", exclude=True)

    @model_validator(mode="wrap")
    @classmethod
    def _report(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as wrong:
            raise SettingsError(problems(wrong, cls, value)) from None

    @field_validator("alerts")
    @classmethod
    def _check_alerts(cls, alerts: list[AlertSettings]) -> list[AlertSettings]:
        if wrong := list(check_names(alerts)):
            raise refusal(*wrong)
        return alerts

    @classmethod
    def load(
        cls, path: Path | str, environ: Mapping[str, str] | None = None, *, models: Iterable[str] = ()
    ) -> Settings:
        """Read a workspace file. Raises SettingsError with everything that is wrong with it.

        `models` names models that code adds to those of the file.
        """
        document = documents.read(path, SettingsError)
        if not isinstance(document.value, dict):
            raise SettingsError([Problem("document", "no settings", "a mapping with store, models, …")], str(path))
        environ = os.environ if environ is None else environ
        values = {key: value for key, value in document.value.items() if key != "environments"}
        sections, variables = document.value.get("environments") or {}, _variables(environ)
        wrong = [*secrets(document.value), *_check_layer(values), *_check_environments(sections)]
        for name, (keys, value) in variables.items():
            layer = _check_layer(_with({}, keys, value))
            wrong += [replace(problem, path=name) for problem in layer if not isinstance(problem, Missing)]
        # Another layer may add what this one leaves out.
        added = {keys[0] for keys, _ in variables.values()} | {key for each in _mappings(sections) for key in each}
        wrong = [each for each in wrong if not isinstance(each, Missing) or _first_key(each.path) not in added]
        if not wrong:
            try:
                settings = cls._merge(values, sections, variables, environ, str(path))
                wrong = list(settings.check_names(models))
            except SettingsError as refused:
                wrong = list(refused.problems)
            if not wrong:
                return settings
        raise SettingsError(_place(wrong, document), str(path))

    @classmethod
    def _merge(
        cls, values: dict[str, Any], sections: Any, variables: _Variables, environ: Mapping[str, str], source: str
    ) -> Settings:
        _, environment = variables.get("SEEDBED_ENVIRONMENT", ([], values.get("environment", "dev")))
        for key, value in (sections.get(environment) or {}).items():
            above = isinstance(value, dict) and not is_reference(value)
            values[key] = {**values.get(key, {}), **value} if above else value
        for keys, value in variables.values():
            values = _with(values, keys, value)
        for name in _URLS:
            if is_reference(values.get(name)):
                values[name] = reveal(values[name], environ, name, Path(source).parent)
        return cls.model_validate({**values, "source": source})

    def check_names(self, models: Iterable[str] = ()) -> Iterator[Problem]:
        """Every name in the settings that does not exist: a fallback, a judge's model or a reviewer's role."""
        known = [*self.models, *models]
        yield from check_fallbacks({name: card.then for name, card in self.models.items()}, known)
        for name, judge in self.metrics.items():
            if judge.model not in known:
                yield unknown(f"metrics.{name}.model", judge.model, known, kind="model")
        for name in self.channels:
            yield from self.channel(name).check_roles(f"channels.{name}")

    def channel(self, name: str) -> ChannelSettings:
        """The settings of a channel, with the reviewers of the workspace unless it names its own."""
        channel = self.channels.get(name) or ChannelSettings()
        return channel if channel.reviewers is not None else channel.model_copy(update={"reviewers": self.reviewers})

    def path(self, name: str) -> Path:
        """A path in the settings, relative to the workspace file."""
        return Path(self.source).parent / name


# Layers


_Variables: TypeAlias = dict[str, tuple[list[str], Any]]


def _variables(environ: Mapping[str, str]) -> _Variables:
    """SEEDBED_STORE sets store; SEEDBED_QUOTA__RUNS_PER_DAY sets quota.runs_per_day. What is not text is YAML."""
    variables: _Variables = {}
    ours = [name for name in sorted(environ) if name.startswith("SEEDBED_") and not _is_reserved(name)]
    known = {name: field for name, field in Settings.model_fields.items() if not field.exclude}
    unknown = [name for name in ours if _keys(name)[0] not in known]
    if unknown:
        names = [f"SEEDBED_{name.upper()}" for name in known if name not in ONLY_IN_FILE]
        raise SettingsError(
            Problem(
                name,
                "a variable that sets nothing",
                f"one of: {', '.join(names)}",
                suggestion(name.partition("__")[0], names) or "Unset it, or correct its name.",
            )
            for name in unknown
        )
    if weakening := [name for name in ours if _keys(name)[0] in ONLY_IN_FILE]:
        remedy = "What a release has to pass is written in the file, where everybody sees a change."
        raise SettingsError(
            Problem(name, f"a variable for {_keys(name)[0]}", "it only in the workspace file", remedy)
            for name in weakening
        )
    for name in ours:
        keys = _keys(name)
        is_text = known[keys[0]].annotation is str and len(keys) == 1
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


def _first_key(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _mappings(sections: object) -> Iterator[dict[str, Any]]:
    for section in sections.values() if isinstance(sections, dict) else ():
        if isinstance(section, dict):
            yield section


def _check_environments(sections: object) -> Iterator[Problem]:
    """What is wrong with the sections of all environments, not only of the chosen one."""
    if not isinstance(sections, dict):
        yield Problem("environments", shown(sections), "a mapping of environments to settings")
        return
    known = get_args(Environment)
    for name, section in sections.items():
        path = f"environments.{name}"
        if name not in known:
            yield Problem(path, "an unknown environment", f"one of: {', '.join(known)}", suggestion(name, known))
        elif not isinstance(section, dict | None):
            yield Problem(path, shown(section), "a mapping of settings")
        else:
            layer = {key: value for key, value in (section or {}).items() if key not in ONLY_IN_FILE}
            for problem in _check_layer(layer, without=("environment",)):
                yield replace(problem, path=join(path, problem.path))
            for key in (section or {}).keys() & ONLY_IN_FILE:
                expected = "it outside of environments: a release passes the same gates in all of them"
                remedy = "Name one channel for each environment, or keep a workspace file for each."
                yield Problem(join(path, key), f"{key} of one environment", expected, remedy)


def _check_layer(layer: dict[str, Any], without: tuple[str, ...] = ()) -> Iterator[Problem]:
    """What is wrong with one layer by itself, apart from secrets that are written out."""
    known = [name for name, field in Settings.model_fields.items() if not field.exclude and name not in without]
    for name in layer.keys() & {"source", *without}:
        yield unknown_key(name, name, known)
    checked = {name: value for name, value in layer.items() if name not in ("source", *without)}
    try:
        Settings.model_validate({**checked, **{name: "" for name in _URLS if is_reference(layer.get(name))}})
    except SettingsError as wrong:
        written_out = {problem.path for problem in secrets(layer)}
        for problem in wrong.problems:
            if problem.path not in written_out or problem.found != "a secret written out":
                has_password = problem.path in _URLS and "@" in str(layer.get(problem.path))
                yield replace(problem, found="a secret") if has_password else problem


def _place(wrong: Iterable[Problem], document: documents.Document) -> list[Problem]:
    def place(path: str) -> str:
        return f"{path} (line {document.lines[path]})" if path in document.lines else path

    return [replace(each, path=place(each.path)) for each in wrong]
