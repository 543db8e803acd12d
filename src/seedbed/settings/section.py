"""Section: one part of the workspace file, and the problems that people read when it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from seedbed.errors import Problem, SettingsError, in_words, shown
from seedbed.plugins import suggestion
from seedbed.settings.secrets import ROTATE, secrets


class Section(BaseModel):
    """A mapping with known keys. Nothing is converted by guessing, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, serialize_by_alias=True, defer_build=True
    )

    example: ClassVar[str] = ""
    """How the section is written, for the message about a value that is not a mapping."""
    short_form: ClassVar[Mapping[str, Any]] = {}
    """The JSON Schema of a shorter way to write it, such as a number for the only key that most people set."""

    @classmethod
    def read(cls, value: object, at: str) -> Self:
        """A value as this section. Raises SettingsError with every problem, each with its path below `at`."""
        try:
            return cls.model_validate(value)
        except ValidationError as wrong:
            raise SettingsError(problems(wrong, cls, value, at)) from None

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        written = handler(schema)
        if cls.short_form:
            full = handler.resolve_ref_schema(written)
            mapping = dict(full)
            full.clear()
            full["anyOf"] = [dict(cls.short_form), mapping]
        return written


class Missing(Problem):
    """A key that is missing. Another layer of the settings may still add it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What an error message says it expected in place of a wrong value.

    The message quotes a `shown` value, and names only the type of a `typed` one. It repeats nothing of a value that is
    `hidden`, which may hold a secret, or `secret`, which may be one.
    """

    text: str
    quote: Literal["shown", "typed", "hidden", "secret"] = "shown"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(handler(source), self.quote, custom_error_message=self.text)


def require(holds: Callable[[Any], object]) -> Callable[[Any], Any]:
    """A validator for the values of which `holds` is true. `Expected` around it says what others should be."""

    def validate(value: Any) -> Any:
        if not holds(value):
            raise ValueError("refused")
        return value

    return validate


def refusal(*wrong: Problem) -> PydanticCustomError:
    """The error that a validator raises to report problems, each with its path below the place it validates."""
    return PydanticCustomError("problems", "several problems", {"problems": wrong})


def problems(wrong: ValidationError, section: type[BaseModel], value: object, at: str = "") -> list[Problem]:
    """What is wrong with a value that `section` refused. Secrets are not quoted."""
    hidden = [problem.path for problem in secrets(value, at)]
    return [problem for each in wrong.errors(include_url=False) for problem in _problems(each, section, hidden, at)]


def _problems(each: ErrorDetails, section: type[BaseModel], hidden: Iterable[str], at: str) -> Iterator[Problem]:
    keys = [key for key in each["loc"] if key != "[key]"]  # pydantic marks a wrong key by it
    path, kind, value = join(at, *keys), each["type"], each["input"]
    if kind == "problems":
        yield from (replace(problem, path=join(path, problem.path)) for problem in each["ctx"]["problems"])
    elif kind == "extra_forbidden":
        yield unknown_key(path, str(keys[-1]), _names(_section_at(section, keys[:-1])))
    elif kind == "missing":
        yield Missing(path, "nothing", _expected(_section_at(section, keys[:-1]), str(keys[-1])))
    else:
        holds_secret = any(place == path or place.startswith((f"{path}.", f"{path}[")) for place in hidden)
        is_secret = kind == "secret" and isinstance(value, str) and value != ""
        quoted = "a secret written out" if is_secret else "a secret" if holds_secret else _quote(kind, value)
        yield Problem(path, quoted, _words(each, section, keys), ROTATE if is_secret else _near(each))


def _quote(kind: str, value: object) -> str:
    if kind == "typed":
        return type(value).__name__
    if kind in ("hidden", "secret"):
        return "something else" if value else "nothing"
    return shown(value)


def unknown_key(path: str, key: str, known: Iterable[str]) -> Problem:
    """The problem of an unknown key, with the known keys and a suggestion."""
    known = list(known)
    return Problem(path, "an unknown key", f"one of: {', '.join(known)}", suggestion(key, known))


def join(path: str, *keys: int | str) -> str:
    """A path with further keys and indices: `alerts` and 0 and `slack` give `alerts[0].slack`."""
    for key in keys:
        text = f"[{key}]" if isinstance(key, int) else key
        path += text if not path or text.startswith("[") or not text else f".{text}"
    return path


def _words(each: ErrorDetails, section: type[BaseModel], keys: list[int | str]) -> str:
    if each["type"] == "model_type":
        below = _section_at(section, keys)
        if below is not None and (example := getattr(below, "example", "")):
            return f"a mapping such as {example}"
    return in_words(each["type"], each["msg"], each.get("ctx", {}))


def _near(each: ErrorDetails) -> str:
    """A suggestion for a misspelt word, where only a few words are allowed."""
    if each["type"] != "literal_error" or not isinstance(each["input"], str):
        return ""
    return suggestion(each["input"], each["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", "))


# Sections by their paths


def _section_at(section: type[BaseModel], keys: Iterable[int | str]) -> type[BaseModel] | None:
    kind: Any = section
    for key in keys:
        kind = next((below for each in _alternatives(kind) if (below := _below(each, key)) is not None), None)
    return next((each for each in _alternatives(kind) if isinstance(each, type) and issubclass(each, BaseModel)), None)


def _alternatives(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            yield from _alternatives(each)
    else:
        yield kind


def _below(kind: Any, key: int | str) -> Any:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = _fields(kind).get(str(key))
        return field.annotation if field else None
    arguments = get_args(kind)
    if get_origin(kind) is dict:
        return arguments[1]
    return arguments[0] if get_origin(kind) in (list, tuple) else None


def _fields(section: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields by their keys in the file, without those that no file may set."""
    return {field.alias or name: field for name, field in section.model_fields.items() if not field.exclude}


def _names(section: type[BaseModel] | None) -> list[str]:
    return list(_fields(section)) if section else []


def _expected(section: type[BaseModel] | None, key: str) -> str:
    field = _fields(section).get(key) if section else None
    return next((each.text for each in (field.metadata if field else ()) if isinstance(each, Expected)), "a value")
