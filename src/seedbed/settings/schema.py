"""The JSON Schema of the workspace file, so that editors complete its keys and mark what does not fit.

`python -m seedbed.settings.schema` writes it to `seedbed.schema.json` beside this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from seedbed import documents
from seedbed.settings.settings import ONLY_IN_FILE, Environment, Settings

SCHEMA_FILE = Path(__file__).with_name("seedbed.schema.json")


def schema() -> dict[str, Any]:
    """The schema of the file, with its `environments`."""
    document = _tidy(Settings.model_json_schema())
    known = {name: value for name, value in document["properties"].items() if name != "source"}
    section = {name: value for name, value in known.items() if name not in {"environment", *ONLY_IN_FILE}}
    document["$defs"]["EnvironmentSection"] = {
        "description": "Settings that override the rest of the file in one environment.",
        "anyOf": [{"type": "object", "properties": section, "additionalProperties": False}, {"type": "null"}],
    }
    environments = {name: {"$ref": "#/$defs/EnvironmentSection"} for name in get_args(Environment)}
    known["environments"] = {"type": "object", "properties": environments, "additionalProperties": False}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "seedbed.yaml, the seedbed workspace file",
        "type": "object",
        "properties": known,
        "additionalProperties": False,
        "$defs": document["$defs"],
    }


def _tidy(value: Any, are_names: bool = False) -> Any:
    """Leave out titles, which repeat keys, and defaults, which pydantic does not write as the file would."""
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if not isinstance(value, dict):
        return value
    left_out = () if are_names else ("title", "default")
    return {key: _tidy(item, key == "properties") for key, item in value.items() if key not in left_out}


if __name__ == "__main__":
    SCHEMA_FILE.write_text(documents.to_json(schema()), encoding="utf-8")
