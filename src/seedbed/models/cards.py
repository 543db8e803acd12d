"""Models by name, each built from its card when it is first used.

Reading cards imports no model library and loads no weights. Python code may register a live LangChain model in place
of a card: `Registry({"fast": ChatOpenAI(model="small")})`.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import SecretStr, ValidationError

from seedbed.errors import Problem, SettingsError, in_words, shown
from seedbed.models.prices import look_up
from seedbed.plugins import load, suggestion, unknown
from seedbed.settings import Card, reveal, without_secrets
from seedbed.settings.models import OURS, OutputWay, check_fallbacks
from seedbed.settings.section import join, unknown_key

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from pydantic_core import ErrorDetails

ChatModel: TypeAlias = "BaseChatModel"
"""A live LangChain chat model."""

BASE_FIELDS = ("cache", "callbacks", "custom_get_token_ids", "metadata", "name", "rate_limiter", "tags", "verbose")
"""Fields of every LangChain model that do not affect its answers."""

SET_THEM = "Correct args, or set what it asks for."

_FREE = {OURS[name] for name in ("embedded", "scripted", "table")}
"""Models that answer inside this process, at no cost."""


@dataclass(frozen=True)
class Model:
    """A named LangChain chat model and its card.

    `folder` is the folder of the files that its arguments refer to. `live` is a model that Python code built itself.
    """

    name: str
    card: Card
    folder: Path = Path()
    live: BaseChatModel | None = None

    @property
    def is_here(self) -> bool:
        """Whether it answers inside this process, and counts its tokens itself."""
        return self.card.class_path in _FREE

    def price(self, prompt_tokens: int = 0) -> tuple[float, float] | None:
        """Dollars per million prompt and completion tokens, for a prompt of that length; None if it is unknown.

        The card decides; models inside this process are free; others are looked up by their class and arguments.
        """
        if self.card.usd_per_million is not None:
            return self.card.usd_per_million
        if self.is_here:
            return (0.0, 0.0)
        return look_up(self.card.use, self.card.args, prompt_tokens)

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """The cost of a call in US dollars; None if the price is unknown."""
        price = self.price(prompt_tokens)
        if price is None:
            return None
        read, written = price
        return (prompt_tokens * read + completion_tokens * written) / 1_000_000

    @cached_property
    def chat(self) -> BaseChatModel:
        """The LangChain model, built on first use with the secrets its arguments refer to.

        Raises SettingsError if the card does not lead to one.
        """
        if self.live is not None:
            return self.live
        kind = self._load_class()
        if kind.model_config.get("extra") != "forbid":  # others say it themselves, with all else that is wrong
            self.expect_arguments()
        args = dict(self._arguments)
        if "folder" in kind.model_fields:  # it reads files, whose paths are relative to the workspace file
            args.setdefault("folder", self.folder)
        try:
            return kind(**args)
        except Exception as error:  # noqa: BLE001 - raised anew without its cause, which may quote the arguments
            expected = f"arguments that {self.card.class_path} accepts"
            if isinstance(error, ValidationError):
                at = f"models.{self.name}.args"
                raise SettingsError(_wrong_arguments(error, kind, args, at, expected)) from None
            failure = f"{type(error).__name__}: {shown(str(error), 300)}"
            raise self._error("args", failure, expected, SET_THEM) from None

    def lacking(self, needs: Iterable[str], *, calls_tools: bool) -> list[str]:
        """What it cannot do of what a call needs. Its class decides whether tools reach the model behind it."""
        missing = [need for need in needs if not self.card.masters(need)]
        return [*missing, "tool calls"] if calls_tools and not self._binds_tools else missing

    @cached_property
    def _binds_tools(self) -> bool:
        kind = type(self.live) if self.live is not None else self._load_class()
        return kind.bind_tools is not _base_class().bind_tools

    @cached_property
    def output_way(self) -> OutputWay:
        """How it is asked for a structured answer: as its card says, or in the best way that its class declares."""
        profile: Mapping[str, Any] = self.chat.profile or {}
        best: OutputWay = "native" if profile.get("structured_output") else "tool" if self._binds_tools else "prompted"
        return self.card.output or best

    @cached_property
    def bound(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """What it was prepared to be offered, by digest and choice: preparing takes a while."""
        return {}

    def expect_arguments(self) -> None:
        """Refuse arguments that the class would ignore, without building it. Raises SettingsError."""
        if self.live is None and (known := _argument_names(self._load_class())):
            at, remedy = f"models.{self.name}.args", "Write it under model_kwargs." * ("model_kwargs" in known)
            wrong = [unknown_key(join(at, name), name, known) for name in self.card.args if name not in known]
            if wrong:
                raise SettingsError(replace(each, remedy=each.remedy or remedy or SET_THEM) for each in wrong)

    def redact(self, text: str) -> str:
        """A text without the secrets of this model, which its provider may quote in an error."""
        secrets = {value.get_secret_value() for value in vars(self.chat).values() if isinstance(value, SecretStr)}
        secrets |= {*_texts(self._arguments)} - {*_texts(without_secrets(self.card.args))}
        for secret in secrets:
            text = text.replace(secret, "…") if secret else text
        return text

    @cached_property
    def _arguments(self) -> dict[str, Any]:
        return dict(reveal(self.card.args, os.environ, f"models.{self.name}.args", self.folder))

    def _load_class(self) -> type[BaseChatModel]:
        path = self.card.class_path
        module, _, name = path.rpartition(".")
        try:
            kind = getattr(import_module(module), name)
        except ImportError as error:
            package = (error.name or module).partition(".")[0].replace("_", "-")
            remedy = f"Run: pip install {package}, or correct the path"
            raise self._error("use", path, "a class that can be imported", remedy) from error
        except AttributeError as error:
            remedy = suggestion(name, dir(sys.modules[module])) or "Check its spelling"
            raise self._error("use", path, f"a class in {module}", remedy) from error
        if not (isinstance(kind, type) and issubclass(kind, _base_class())):
            raise self._error("use", path, "a LangChain chat model class")
        return kind

    def _error(self, key: str, *problem: str) -> SettingsError:
        return SettingsError([Problem(f"models.{self.name}.{key}", *problem)])


class Registry:
    """The models of a workspace by name; iterating gives the names."""

    def __init__(self, models: Mapping[str, Any], source: str = "") -> None:
        """Read the `models:` mapping of `source`; a value is a card or a live LangChain model.

        Raises SettingsError with everything that is wrong in it.
        """
        if not isinstance(models, Mapping):
            raise SettingsError([Problem("models", shown(models), "a mapping of names to cards")], source)
        self._models: dict[str, Model] = {}
        problems: list[Problem] = []
        for name, card in models.items():
            try:
                self._models[name] = _read_model(name, card, Path(source).parent)
            except SettingsError as error:
                problems.extend(error.problems)
        problems += check_fallbacks({name: model.card.then for name, model in self._models.items()}, list(models))
        if problems:
            raise SettingsError(problems, source)

    def require_portable(self) -> None:
        """Raise SettingsError if there are live models, which other processes cannot build from the settings."""
        expected, remedy = "a card, from which other processes build it", "Use parallel: loop, or write a card for it."
        problems = [
            Problem(f"models.{name}", f"a live {type(model.live).__name__}", expected, remedy)
            for name, model in self._models.items()
            if model.live is not None
        ]
        if problems:
            raise SettingsError(problems)

    def __getitem__(self, name: str) -> Model:
        try:
            return self._models[name]
        except KeyError:
            remedy = "Add it under models in the workspace file, or use a known name."
            raise SettingsError([unknown("models", name, self._models, remedy, kind="model")]) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def best(self, capability: str) -> Model:
        """The model with the highest declared skill in a capability; of equals the cheaper one."""
        return max(self._able(capability), key=lambda it: (it.card.skill.get(capability, 0.0), -_total_price(it)))

    def cheapest(self, capability: str) -> Model:
        """The cheapest model with a capability. An unknown price counts as the highest."""
        return min(self._able(capability), key=_total_price)

    def _able(self, capability: str) -> list[Model]:
        able = [model for model in self._models.values() if model.card.masters(capability)]
        if not able:
            known = dict.fromkeys(word for it in self._models.values() for word in (*it.card.can, *it.card.skill))
            expected = f"one of: {', '.join(known) or 'none'}"
            remedy = "Add it to can or skill of a model"
            raise SettingsError([Problem("models", f"no model that can {shown(capability)}", expected, remedy)])
        return able


def fallback_chain(models: Callable[[str], Model], *names: str) -> list[Model]:
    """Each named model, followed by its fallbacks and then theirs; each once."""
    known: dict[str, Model] = {}
    for first in names:
        waiting = deque([first])
        while waiting:
            name = waiting.popleft()
            if name not in known:
                known[name] = models(name)
                waiting.extend(known[name].card.then)
    return list(known.values())


def _base_class() -> type[BaseChatModel]:
    """LangChain's class, loaded when a model is built: it takes a while, and most commands need no model."""
    kind: type[BaseChatModel] = load("langchain_core.language_models:BaseChatModel", "models")
    return kind


def _argument_names(kind: type[BaseChatModel]) -> list[str]:
    """The arguments that a class takes; empty if that cannot be read, as it has code that reads them itself."""
    usual = _base_class()
    constructor = inspect.signature(kind.__init__).parameters.values() if kind.__init__ is not usual.__init__ else ()
    readers = kind.__pydantic_decorators__.model_validators.items()
    reads = any(each.info.mode != "after" for name, each in readers if not hasattr(usual, name))
    if any(each.kind is each.VAR_KEYWORD for each in constructor) or kind.model_config.get("extra") == "allow":
        return []
    fields = {name: field for name, field in kind.model_fields.items() if name not in BASE_FIELDS}
    if reads and "model_kwargs" not in fields:
        return []
    aliases = [each.alias for each in kind.model_fields.values() if each.alias]
    return [*fields, *aliases, *(name for name in BASE_FIELDS if name in kind.model_fields)]


def _read_model(name: str, card: object, folder: Path) -> Model:
    # A live model cannot exist before its library is loaded, so reading cards alone need not load it.
    if not isinstance(card, Mapping | Card) and "langchain_core" in sys.modules and isinstance(card, _base_class()):
        return Model(name, _describe_live(card), folder, card)
    return Model(name, card if isinstance(card, Card) else Card.read(card, f"models.{name}"), folder)


def _describe_live(model: BaseChatModel) -> Card:
    """The card of a live model: its class, and what its parameters are where they differ from the defaults.

    Secrets, clients and callbacks are left out: a new key or connection does not make it another model.
    """
    kind = type(model)
    hidden = {name for name, value in model if isinstance(value, SecretStr)} | {*BASE_FIELDS}
    values = model.model_dump(
        mode="json", by_alias=True, exclude=hidden, exclude_defaults=True, exclude_none=True, fallback=lambda _: None
    )
    args = {name: value for name, value in without_secrets(values).items() if value is not None}
    return Card.model_construct(use=f"{kind.__module__}.{kind.__qualname__}", args=args)  # a path need not lead there


def _total_price(model: Model) -> float:
    price = model.price()
    return math.inf if price is None else sum(price)


def _wrong_arguments(
    error: ValidationError, kind: type[BaseChatModel], args: Mapping[str, Any], at: str, accepted: str
) -> list[Problem]:
    """What is wrong with the arguments of a model, each at its place and without quoting it."""
    problems: dict[str, Problem] = {}
    for each in error.errors(include_url=False):
        place, value = _place(each, args)
        path = join(at, *place)
        if each["type"] == "extra_forbidden":
            known = [name for name in kind.model_fields if name not in BASE_FIELDS]
            problem = unknown_key(path, str(place[-1]), known if len(place) == 1 else ["those that it has"])
        elif each["type"] == "missing":
            problem = Problem(path, "nothing", "a value", SET_THEM)
        else:
            words = in_words(each["type"], each["msg"].removeprefix("Value error, expected "), each.get("ctx", {}))
            own = words.removeprefix("Value error, ")  # what the model says is wrong
            said = (own, accepted) if own != words else (type(value).__name__, words)
            problem = Problem(path, *said, SET_THEM)
        if path in problems:  # another type that it may have
            problem = replace(problem, expected=f"{problems[path].expected} or {problem.expected}")
        problems[path] = problem
    return list(problems.values())


def _place(each: ErrorDetails, args: Mapping[str, Any]) -> tuple[list[int | str], Any]:
    """Where an argument is wrong, and its value; pydantic puts the types that it tried in between."""
    place: list[int | str] = []
    value: Any = args
    for key in each["loc"]:
        within = key in value if isinstance(value, Mapping) else isinstance(value, list) and isinstance(key, int)
        if within or each["type"] == "missing":
            place.append(key)
            value = value[key] if within else None
    return place, value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value
