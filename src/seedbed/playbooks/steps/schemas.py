"""Schemas: JSON Schema, for the arguments of tools, structured answers and metrics.

A step's `output` is JSON Schema, a short form of it, or the path of a pydantic class. The library that checks values is
loaded when it is first needed: that takes a quarter of a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from pydantic import WithJsonSchema

from seedbed import expressions
from seedbed.errors import PlaybookError, Problem, shown
from seedbed.playbooks.prompts import fields
from seedbed.plugins import load
from seedbed.storage.store import Json, canonical

KEYWORDS = frozenset(
    {
        "$schema",
        "$id",
        "$ref",
        "$defs",
        "title",
        "description",
        "default",
        "examples",
        "type",
        "enum",
        "const",
        "format",
    }
    | {"properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "allOf", "not", "pattern"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"}
    | {"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"}
)
"""A mapping with no other keys is JSON Schema; any other one names the fields of an answer."""

REPAIRS = 2

OUTPUT_SCHEMA = WithJsonSchema({"type": ["object", "string"]})
"""What an editor accepts: the short form and the path of a class become JSON Schema when a playbook is loaded."""

MOST_SAID = 500
"""So many characters say what is wrong with a value."""

TRIES = 1_000
"""So many beginnings of JSON objects in an answer are tried: each takes as long as the answer is."""


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
    return [Problem(each.json_path, shown(each.instance), _message(each)) for each in errors]


def _message(error: Any) -> str:
    """What is wrong, with no more of the value than is shown: a model chose how long it is."""
    whole = repr(error.instance)
    message: str = error.message.replace(whole, shown(error.instance)) if len(whole) > 60 else error.message
    return message[:MOST_SAID]


def misfit(value: object, schema: Mapping[str, Any], path: str) -> str:
    """The first place where a value does not fit, in words; empty if it fits. `path` is what the value is called.

    A value that cannot be checked does not fit: tools of a server may come with any schema, and models say anything.
    """
    try:
        canonical(value)
        expect_quick(schema, value)
        for each in misfits(value, schema):
            return f"{path}{each.path[1:]}: found {each.found}; {each.expected}"
    except Exception as wrong:  # noqa: BLE001 - each kind of broken schema raises its own
        return f"{path}: {str(wrong)[:MOST_SAID]}"
    return ""


def expect_quick(schema: Any, value: Any) -> None:
    """Raise ValueError if a pattern of a schema takes too long on a text of a value."""
    parts = list(_parts(schema))
    patterns = {each["pattern"] for each in parts if isinstance(each, Mapping) and isinstance(each.get("pattern"), str)}
    for each in parts:
        patterns |= set(each.get("patternProperties") or ()) if isinstance(each, Mapping) else set()
    for pattern in sorted(patterns):
        for part in _parts(value):
            for within in part if isinstance(part, dict) else [part]:
                if isinstance(within, str):
                    expressions.find(pattern, within)


def _parts(value: Any) -> Iterator[Any]:
    """A JSON value and all values in it."""
    yield value
    for each in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _parts(each)


@lru_cache(maxsize=1_000)
def _validator(schema: str) -> Any:
    """With an empty registry it fetches nothing from the network."""
    document = json.loads(schema)
    kind = _jsonschema().validators.validator_for(document, _jsonschema().Draft202012Validator)
    return kind(document, registry=import_module("referencing").Registry())


@cache
def _jsonschema() -> Any:
    return import_module("jsonschema")


# Output


def expand_outputs(document: Any) -> tuple[Any, list[Problem]]:
    """A document of a playbook with the JSON Schema of every `output`; and what is wrong with them."""
    problems: list[Problem] = []

    def expand(item: Any, path: str) -> Any:
        if not isinstance(item, Mapping):
            return item
        if isinstance(inner := item.get("together"), list | tuple):
            steps = [expand(step, f"{path}.together[{place}]") for place, step in enumerate(inner)]
            return {**item, "together": steps}
        if item.get("output") is None:
            return item
        try:
            return {**item, "output": to_schema(item["output"])}
        except PlaybookError as wrong:
            problems.extend(
                Problem(f"{path}.output", each.found, each.expected, each.remedy) for each in wrong.problems
            )
        except ValueError as wrong:
            problems.append(
                Problem(f"{path}.output", str(wrong), "JSON Schema of an object, or fields with their types")
            )
        return {name: value for name, value in item.items() if name != "output"}

    if isinstance(document, Mapping) and isinstance(steps := document.get("steps"), list | tuple):
        document = {**document, "steps": [expand(item, f"steps[{place}]") for place, item in enumerate(steps)]}
    return document, problems


def to_schema(output: Any) -> Json:
    """The JSON Schema of an answer. Raises ValueError, or PlaybookError for a class that cannot be loaded."""
    if isinstance(output, str):
        kind = load(output, "output", expected="module:Class", error=PlaybookError)
        if not hasattr(kind, "model_json_schema"):
            raise ValueError(f"{output}, which is no pydantic model")
        output = kind.model_json_schema()
    schema: Json = _schema(output)
    check_schema(schema)
    if schema.get("type") != "object":
        raise ValueError(f"a schema of {shown(schema.get('type', 'anything'))}")
    _check_references(schema)
    return schema


def _check_references(schema: Json) -> None:
    """Raise ValueError for a reference that leads nowhere, or out of the schema."""
    resource = import_module("referencing.jsonschema").DRAFT202012.create_resource(schema)
    resolver = import_module("referencing").Registry().with_resource("", resource).resolver()
    for part in _parts(schema):
        if isinstance(part, Mapping) and isinstance(reference := part.get("$ref"), str):
            try:
                resolver.lookup(reference)
            except Exception:  # noqa: BLE001 - it has several kinds of them
                raise ValueError(f"$ref {shown(reference)}, which leads to nothing in the schema") from None


def _schema(value: Any) -> Json:
    """A type by its name, a list of one, JSON Schema, or fields with their types."""
    if isinstance(value, str):
        return {"type": value}
    if isinstance(value, list | tuple) and len(value) == 1:
        return {"type": "array", "items": _schema(value[0])}
    if not isinstance(value, Mapping) or not value:
        raise ValueError(shown(value))
    if value.keys() <= KEYWORDS:
        return dict(value)
    named = {str(name): _schema(each) for name, each in value.items()}
    return {"type": "object", "properties": named, "required": list(named), "additionalProperties": False}


def read_answer(text: str, schema: Mapping[str, Any]) -> tuple[Any, str]:
    """The first JSON object in an answer, and why it does not fit the schema; the reason is empty if it does."""
    decoder, place = json.JSONDecoder(), -1
    for _ in range(TRIES):
        if (place := text.find("{", place + 1)) < 0:
            break
        try:
            value, _ = decoder.raw_decode(text, place)
        except json.JSONDecodeError as wrong:  # what was read is no object of its own but part of a broken one
            place = max(place, wrong.pos - 1)
            continue
        except (ValueError, RecursionError):  # an integer of thousands of digits, or nested too deeply
            break
        problem = misfit(value, schema, "answer")
        return (None, problem) if problem else (value, "")
    return None, f"answer: found no JSON object in {shown(text, 200)}"


def within(value: Any, path: str) -> Any:
    """The part of a value at a path such as `items.0.name`; None if there is none."""
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list | tuple) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def field_problems(path: str, text: str, outputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Fields in a prompt that the answers of steps cannot have."""
    for each in fields(text):
        schema = outputs.get(each.name)
        if isinstance(schema, Mapping) and (known := _missing(schema, each.path)) is not None:
            yield Problem(path, f"{each}, which the answer has not", f"one of its fields: {', '.join(known) or 'none'}")


def _missing(schema: Any, path: str) -> list[str] | None:
    """The fields that there are where a path leads nowhere; None if it may lead somewhere."""
    inner = schema
    for name in path.split("."):
        if not isinstance(inner, Mapping) or inner.keys() & {"$ref", "anyOf", "oneOf", "allOf"}:
            return None
        if inner.get("type") == "array" and name.isdigit():
            inner = inner.get("items")
        elif name in (properties := inner.get("properties") or {}):
            inner = properties[name]
        else:
            return sorted(properties)
    return None
