"""A format is recognised by its structure, and says what it cannot express."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from format_samples import DOCUMENTS, NATIVE, document, refused

from seedbed.errors import PlaybookError
from seedbed.playbooks.formats import FORMATS, export, import_document, recognise
from seedbed.playbooks.playbook import Playbook


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_a_format_is_recognised_by_structure(path: Path) -> None:
    expected = {"parcel-desk.yaml": "strategy", "tenancy-qa.json": "profile"}.get(path.name, "mode")
    assert recognise(document(path.name)) == expected


@pytest.mark.parametrize(
    "foreign", [None, [], "text", {}, {"roles": {"writer": {"system": "Hi."}}}, {"parameters": {"a": 1}}, {"x": 1}]
)
def test_what_fits_no_format_is_refused_with_what_would(foreign: object) -> None:
    told = refused(foreign, "thing.yaml")
    assert told.startswith("thing.yaml: document: found ")
    assert "a strategy" in told
    assert "a mode" in told
    assert "a prompt profile" in told


def test_what_json_cannot_hold_is_refused() -> None:
    strategy = document("parcel-desk.yaml")
    strategy["metadata"]["created_at"] = datetime(2026, 1, 1, tzinfo=UTC)
    assert "metadata.created_at: found datetime" in refused(strategy)
    strategy["metadata"]["created_at"] = "\ud800"
    assert "lone surrogate" in refused(strategy)


def test_a_format_nobody_knows_is_refused() -> None:
    with pytest.raises(PlaybookError, match="one of: strategy, mode, profile, text"):
        export(Playbook(), "toml")


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_playbook_born_here_becomes_a_valid_document(name: str) -> None:
    playbook = Playbook.from_document(NATIVE[name])
    exported = export(playbook, name)
    assert recognise(exported) == name
    again = export(import_document(exported).playbook, name, import_document(exported).facts)
    assert again == exported


@pytest.mark.parametrize(
    ("name", "unfit", "paths"),
    [
        ("strategy", {"roles": {"a": {"system": "Hi."}}, "rules": {"never": ["pay"]}}, ["roles.a.system"]),
        ("strategy", {"parameters": {"tone": "dry", "ok": 0.5}}, ["parameters.tone"]),
        ("strategy", {"parameters": {"n": {"value": 3, "high": 9}}}, ["parameters.n.high"]),
        ("strategy", {"rules": {"prefer_confirm": ["pay"], "confirm_below": 0.5}}, ["rules.confirm_below"]),
        ("mode", {"parameters": {"speed": 0.5}}, ["parameters.speed"]),
        ("profile", {"roles": {"a": {"system": "Hi.", "stop": ["."]}}}, ["roles.a.stop"]),
        ("profile", {"roles": {"a": {"system": "Hi."}}, "locked": ["roles.a"]}, ["locked"]),
        ("profile", {"parameters": {"speed": 0.5}}, ["parameters.speed"]),
    ],
)  # fmt: skip
def test_what_a_format_cannot_express_is_named(name: str, unfit: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(PlaybookError, match=f"what a {name} can say") as told:
        export(Playbook.from_document(unfit), name)
    assert [problem.path for problem in told.value.problems] == paths
