"""Schemas: JSON Schema, for the arguments of tools, structured answers and metrics.

The library is loaded when it is first needed: that takes a quarter of a second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from seedbed.errors import Problem, shown
from seedbed.storage.store import canonical


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError for what is no JSON Schema."""
    validators = _jsonschema().validators
    try:
        validators.validator_for(schema, _jsonschema().Draft202012Validator).check_schema(schema)
    except _jsonschema().SchemaError as wrong:
        raise ValueError(f"schema: {wrong.message}") from None


def misfits(value: object, schema: Mapping[str, Any]) -> list[Problem]:
    """Where a value does not fit a schema, in the order of the places."""
    errors = sorted(_validator(canonical(schema)).iter_errors(value), key=lambda each: str(each.json_path))
    return [Problem(each.json_path, shown(each.instance), each.message) for each in errors]


def misfit(value: object, schema: Mapping[str, Any], path: str) -> str:
    """The first place where a value does not fit, in words; empty if it fits. `path` is what the value is called."""
    for each in misfits(value, schema):
        return f"{path}{each.path[1:]}: found {each.found}; {each.expected}"
    return ""


@lru_cache(maxsize=1_000)
def _validator(schema: str) -> Any:
    """With an empty registry it fetches nothing from the network."""
    document = json.loads(schema)
    kind = _jsonschema().validators.validator_for(document, _jsonschema().Draft202012Validator)
    return kind(document, registry=import_module("referencing").Registry())


@cache
def _jsonschema() -> Any:
    return import_module("jsonschema")
