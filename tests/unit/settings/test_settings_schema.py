"""The JSON Schema of the workspace file agrees with what seedbed accepts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from seedbed import documents
from seedbed.errors import SettingsError
from seedbed.settings import Settings
from seedbed.settings.schema import SCHEMA_FILE, schema

ROOT = Path(__file__).parents[3]
VALIDATOR = Draft202012Validator(schema())


def workspace_files() -> dict[str, Any]:
    """Every file called seedbed.yaml, and every block of the docs that sets nothing but settings."""
    files = {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in ("src", "examples", "docs")
        for path in (ROOT / folder).rglob("seedbed*.yaml")
    }
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)):
            files[f"{page.name}[{number}]"] = block
    known = {*schema()["properties"]}
    parsed = {name: documents.parse(text, name, SettingsError).value for name, text in files.items()}
    return {name: value for name, value in parsed.items() if isinstance(value, dict) and value.keys() <= known}


def test_the_shipped_file_is_the_schema_of_the_settings() -> None:
    # To write it anew: python -m seedbed.settings.schema
    assert json.loads(SCHEMA_FILE.read_text()) == schema()


def test_it_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("name", list(files := workspace_files()))
def test_the_workspace_files_of_the_repository_fit(name: str) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(files[name])] == []


def test_there_are_workspace_files_to_look_at() -> None:
    assert any("seedbed.yaml" in name for name in files)
    assert len(files) > 5


@pytest.mark.parametrize(
    "text",
    [
        "stoer: x",
        "models: {fast: {use: embedded, cam: []}}",
        "models: {fast: {can: [reasoning]}}",
        "channels: {production: {requires: []}}",
        "channels: {production: {require: [{better: {eror: 0.01}}]}}",
        "channels: {production: {canary: {share: [5%]}}}",
        "channels: {production: {error_budget: {rte: 0.1}}}",
        "alerts: [{log: {}, at: warning}]",
        "alerts: [{slack: {url: 'https://example.org/hook'}}]",
        "tools: [{mcq: {}}]",
        "metrics: {same: {judge: refrence}}",
        "environments: {production: {stor: x}}",
        "environments: {prod: {}}",
    ],
)
def test_what_seedbed_refuses_an_editor_marks_too(tmp_path: Path, text: str) -> None:
    value = documents.parse(text, "text", SettingsError).value
    assert list(VALIDATOR.iter_errors(value))
    file = tmp_path / "seedbed.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        Settings.load(file, {})
