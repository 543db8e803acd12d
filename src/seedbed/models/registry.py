"""Model cards: what each model is, can do and costs, read from the `models:` part of seedbed.yaml.

```yaml
models:
  fast:   {use: embedded, args: {template: raw, max_tokens: 8}, can: [classification]}
  strong: {use: langchain_openai.ChatOpenAI, args: {model: large}, can: [reasoning], usd_per_million: [3, 15]}
```
Reading cards imports no model library and loads no weights; a model is built when it is first spoken to.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedbed.errors import Problem, SettingsError, shown
from seedbed.settings import revealed

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["Card", "Model", "Registry"]

OURS = {
    "embedded": "seedbed.models.local.EmbeddedChat",
    "scripted": "seedbed.models.scripted.ScriptedChat",
}
"""Short names for the models that come with seedbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What is known of a model before it speaks. The two prices are for prompt and completion tokens.

    In place of secrets, arguments hold references as the workspace file has them. Whoever writes a secret out all the
    same shall not see it again: arguments are kept out of its `repr` and of every error message.
    """

    use: str
    args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    can: tuple[str, ...] = ()
    usd_per_million: tuple[float, float] = (0.0, 0.0)
    context_tokens: int | None = None


@dataclass(frozen=True)
class Model:
    """A named LangChain chat model and its card. `folder` is where the files lie that hold its secrets."""

    name: str
    card: Card
    folder: Path = Path()

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
        args = revealed(self.card.args, os.environ, f"models.{self.name}.args", self.folder)
        try:
            return kind(**args)
        except Exception as error:  # noqa: BLE001 - raised anew without its cause, which may quote the arguments
            remedy = "Correct args, or set what it asks for"
            raise self._wrong("args", _told(error), f"arguments that {path} accepts", remedy) from None

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


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


_KEYS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "use": (
        f"{', '.join(OURS)}, or the path of a chat model class: package.Class",
        lambda use: isinstance(use, str) and (use in OURS or re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", use)),
    ),
    "args": (
        "a mapping of arguments by name",
        lambda args: isinstance(args, Mapping) and all(isinstance(name, str) for name in args),
    ),
    "can": (
        "a list of capabilities: [reasoning, analysis]",
        lambda can: isinstance(can, list | tuple) and all(isinstance(word, str) for word in can),
    ),
    "usd_per_million": (
        "two prices, of prompt and completion tokens: [0.2, 0.8]",
        lambda prices: isinstance(prices, list | tuple) and len(prices) == 2 and all(map(_is_price, prices)),
    ),
    "context_tokens": ("a whole number above zero", lambda tokens: type(tokens) is int and tokens > 0),
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
        return "; ".join(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}" for wrong in wrongs)
    return f"{type(error).__name__}: {shown(str(error), 300)}"
