"""The values of a playbook: types of its fields, what counts as a number, and mappings that refuse changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NoReturn, TypeGuard, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

K = TypeVar("K")
V = TypeVar("V")

Number = Annotated[float, Field(allow_inf_nan=False)]
Proportion = Annotated[float, Field(ge=0, le=1)]
StepName = Annotated[str, StringConstraints(pattern=r"^[^\W\d]\w*$", max_length=100)]


class Frozen(BaseModel):
    """A part of a document: exact types, no unknown keys, immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=False)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


class ReadOnly(dict[K, V]):
    """A dict that refuses every change; `dict(it)` makes a copy that can be changed."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a playbook cannot be changed; make another one with with_genes or from_document")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[ReadOnly[K, V]], tuple[dict[K, V]]]:
        # By default pickle fills an empty dict key by key, which this one refuses.
        return type(self), (dict(self),)


def freeze(value: Any) -> Any:
    """Make JSON values immutable, all the way down."""
    if isinstance(value, Mapping):
        return ReadOnly({key: freeze(item) for key, item in value.items()})
    return tuple(map(freeze, value)) if isinstance(value, list | tuple) else value


def thaw(value: Any) -> Any:
    """Copy immutable JSON values into plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    return [thaw(item) for item in value] if isinstance(value, list | tuple) else value


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text within a value, with its place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from texts(item, f"{path}[{index}]")


def tidy(value: Any) -> Any:
    """Write 2.0 as 2, as people would."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: tidy(item) for key, item in value.items()}
    return [tidy(item) for item in value] if isinstance(value, list) else value
