"""Model cards: what each model is, can do and costs, read from the `models:` part of seedbed.yaml.

```yaml
models:
  fast:   {use: embedded, args: {template: raw, max_tokens: 8}, can: [classification]}
  strong: {use: openai, args: {model: large, api_key: {env: OPENAI_API_KEY}}, skill: {reasoning: 0.9}, then: [fast]}
```
Reading cards imports no model library and loads no weights; a model is built when it is first spoken to.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedbed.errors import Problem, SettingsError, shown

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["OURS", "Card", "Model", "Registry"]

OURS = {
    "embedded": "seedbed.models.providers.embedded.EmbeddedChat",
    "openai": "seedbed.models.providers.openai.OpenAIChat",
    "scripted": "seedbed.models.providers.scripted.ScriptedChat",
    "table": "seedbed.models.providers.recorded.RecordedChat",
}
"""Short names for the models that come with seedbed."""

_FREE = {name for short in ("embedded", "scripted", "table") for name in (short, OURS[short])}
"""Those that answer inside this process, so that nobody asks to be paid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What is known of a model before it speaks.

    `then` names the models that answer in its place, in this order, if it cannot. The two prices are for prompt and
    completion tokens; None leaves them to be looked up. An answer may take `timeout_seconds` in all; one that takes
    longer than this share of the latest ones is asked for a second time (`hedge`), which costs. `skill` says how good
    it is at a type of task, from 0 to 1.

    In place of secrets, arguments hold references as the workspace file has them. Whoever writes a secret out all the
    same shall not see it again: arguments are kept out of its `repr` and of every error message.
    """

    use: str
    args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    can: tuple[str, ...] = ()
    skill: Mapping[str, float] = field(default_factory=dict)
    then: tuple[str, ...] = ()
    usd_per_million: tuple[float, float] | None = None
    context_tokens: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    timeout_seconds: float = 120.0
    hedge: float | None = None

    def masters(self, capability: str) -> bool:
        """Whether the card says that it can do this."""
        return capability in self.can or capability in self.skill


@dataclass(frozen=True)
class Model:
    """A named LangChain chat model and its card. `folder` is where the files lie that its arguments refer to."""

    name: str
    card: Card
    folder: Path = Path()

    def price(self, prompt_tokens: int = 0) -> tuple[float, float] | None:
        """Dollars per million prompt and completion tokens, for a prompt that long; None if nobody knows.

        The card decides; models inside this process are free; others are looked up by their class and arguments.
        """
        if self.card.usd_per_million is not None:
            return self.card.usd_per_million
        if self.card.use in _FREE:
            return (0.0, 0.0)
        from seedbed.models.prices import look_up

        return look_up(self.card.use, self.card.args, prompt_tokens)

    @cached_property
    def chat(self) -> BaseChatModel:
        """The LangChain model, built on first use with the secrets its arguments refer to.

        Raises SettingsError if the card does not lead to one.
        """
        from langchain_core.language_models import BaseChatModel

        path = OURS.get(self.card.use, self.card.use)
        kind = self._find(path)
        if not (isinstance(kind, type) and issubclass(kind, BaseChatModel)):
            raise self._wrong("use", path, "a LangChain chat model class")
        args = dict(self._revealed)
        if "folder" in kind.model_fields:  # it reads files, whose paths are seen from the workspace file
            args.setdefault("folder", self.folder)
        try:
            return kind(**args)
        except Exception as error:  # noqa: BLE001 - raised anew without its cause, which may quote the arguments
            remedy = "Correct args, or set what it asks for"
            raise self._wrong("args", _told(error), f"arguments that {path} accepts", remedy) from None

    def discreet(self, text: str) -> str:
        """A text without the secrets of this model, which its provider may quote in an error."""
        from pydantic import SecretStr

        from seedbed.settings import without_secrets

        kept = [value.get_secret_value() for value in vars(self.chat).values() if isinstance(value, SecretStr)]
        known = set(_texts(without_secrets(self.card.args)))
        for secret in {*kept, *(text for text in _texts(self._revealed) if text not in known)}:
            text = text.replace(secret, "…") if secret else text
        return text

    @cached_property
    def _revealed(self) -> dict[str, Any]:
        from seedbed.settings import revealed

        return dict(revealed(self.card.args, os.environ, f"models.{self.name}.args", self.folder))

    def _find(self, path: str) -> object:
        module, _, name = path.rpartition(".")
        try:
            return getattr(importlib.import_module(module), name)
        except ImportError as error:
            package = (error.name or module).partition(".")[0].replace("_", "-")
            raise self._wrong(
                "use", path, "a class that can be imported", f"Run: pip install {package}, or correct the path"
            ) from error
        except AttributeError as error:
            raise self._wrong("use", path, f"a class in {module}", "Check its spelling") from error

    def _wrong(self, key: str, found: str, expected: str, remedy: str = "") -> SettingsError:
        return SettingsError([Problem(f"models.{self.name}.{key}", found, expected, remedy)])


class Registry:
    """The models of a workspace by name; iterating gives the names."""

    def __init__(self, models: Mapping[str, Any], source: str = "") -> None:
        """Read the `models:` mapping of `source`. Raises SettingsError with everything that is wrong in it."""
        if not isinstance(models, Mapping):
            raise SettingsError([Problem("models", shown(models), "a mapping of names to cards")], source)
        self._models: dict[str, Model] = {}
        problems: list[Problem] = []
        for name, card in models.items():
            try:
                self._models[name] = Model(name, _read(f"models.{name}", card), Path(source).parent)
            except SettingsError as error:
                problems.extend(error.problems)
        problems += _wrong_fallbacks({name: model.card.then for name, model in self._models.items()}, list(models))
        if problems:
            raise SettingsError(problems, source)

    def __getitem__(self, name: str) -> Model:
        try:
            return self._models[name]
        except KeyError:
            known = ", ".join(self._models) or "none"
            raise SettingsError(
                [Problem("models", f"no model named {shown(name)}", f"one of: {known}", "Add it, or use a known name")]
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def best(self, capability: str) -> Model:
        """The model that is most skilled in something, as the cards say; of equals the cheaper one."""
        return max(self._able(capability), key=lambda it: (it.card.skill.get(capability, 0.0), -_dearness(it)))

    def cheapest(self, capability: str) -> Model:
        """The cheapest model that can do something. One whose price nobody knows counts as the dearest."""
        return min(self._able(capability), key=_dearness)

    def _able(self, capability: str) -> list[Model]:
        able = [model for model in self._models.values() if model.card.masters(capability)]
        if not able:
            known = dict.fromkeys(word for it in self._models.values() for word in (*it.card.can, *it.card.skill))
            expected = f"one of: {', '.join(known) or 'none'}"
            remedy = "Add it to can or skill of a model"
            raise SettingsError([Problem("models", f"no model that can {shown(capability)}", expected, remedy)])
        return able


def _dearness(model: Model) -> float:
    price = model.price()
    return math.inf if price is None else sum(price)


def _wrong_fallbacks(fallbacks: Mapping[str, tuple[str, ...]], names: Iterable[str]) -> Iterator[Problem]:
    known = list(names)
    for name, then in fallbacks.items():
        for other in then:
            if other not in known:
                yield Problem(f"models.{name}.then", shown(other), f"one of: {', '.join(map(str, known))}")
    circular: set[str] = set()
    for name in fallbacks:
        way = _way_back(name, fallbacks)
        if way and not circular & set(way):
            circular.update(way)
            yield Problem(f"models.{name}.then", " → ".join(way), "fallbacks that do not lead back")


def _way_back(start: str, fallbacks: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The shortest way from a model over its fallbacks to itself, if there is one."""
    ways, seen = [[start]], set[str]()
    for way in ways:  # grows while it is read
        for other in fallbacks.get(way[-1], ()):
            if other == start:
                return [*way, other]
            if other not in seen:
                seen.add(other)
                ways.append([*way, other])
    return []


def _is_number(value: object, low: float, high: float = math.inf) -> bool:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return fits and low <= value <= high  # type: ignore[operator]


def _is_words(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


_KEYS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "use": (
        f"{', '.join(OURS)}, or the path of a chat model class: package.Class",
        lambda use: isinstance(use, str) and (use in OURS or re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", use)),
    ),
    "args": (
        "a mapping of arguments by name",
        lambda args: isinstance(args, Mapping) and all(isinstance(name, str) for name in args),
    ),
    "can": ("a list of capabilities: [reasoning, analysis]", _is_words),
    "skill": (
        "how good it is at types of tasks, from 0 to 1: {reasoning: 0.9}",
        lambda skill: (
            isinstance(skill, Mapping) and all(isinstance(k, str) and _is_number(v, 0, 1) for k, v in skill.items())
        ),
    ),
    "then": ("a list of the models to ask if this one cannot answer: [fast]", _is_words),
    "usd_per_million": (
        "two prices, of prompt and completion tokens: [0.2, 0.8]",
        lambda prices: (
            isinstance(prices, list | tuple) and len(prices) == 2 and all(_is_number(price, 0) for price in prices)
        ),
    ),
    "context_tokens": ("a whole number above zero", _is_count),
    "requests_per_minute": ("a whole number above zero", _is_count),
    "tokens_per_minute": ("a whole number above zero", _is_count),
    "timeout_seconds": ("a number above zero", lambda seconds: _is_number(seconds, 0) and seconds > 0),
    "hedge": ("a share of the answers, such as 0.95", lambda share: _is_number(share, 0.5, 1) and share < 1),
}
"""The keys of a card: what belongs there, in words and as a check."""


def _read(path: str, card: object) -> Card:
    if not isinstance(card, Mapping):
        raise SettingsError([Problem(path, type(card).__name__, f"a mapping with the keys {', '.join(_KEYS)}")])
    problems = [] if "use" in card else [Problem(f"{path}.use", "nothing", _KEYS["use"][0])]
    for key, value in card.items():
        if key not in _KEYS:
            problems.append(Problem(f"{path}.{key}", "an unknown key", f"one of: {', '.join(_KEYS)}"))
            continue
        expected, fits = _KEYS[key]
        if not fits(value):
            found = type(value).__name__ if key == "args" else shown(value)
            problems.append(Problem(f"{path}.{key}", found, expected))
    if problems:
        raise SettingsError(problems)
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in card.items()}
    return Card(**fields)


def _told(error: Exception) -> str:
    """What an error says about arguments, without quoting them."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        wrongs = error.errors(include_input=False, include_url=False)
        told = (f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg'].removeprefix('Value error, ')}" for wrong in wrongs)
        return "; ".join(each.removeprefix(": ") for each in told)
    return f"{type(error).__name__}: {shown(str(error), 300)}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value
