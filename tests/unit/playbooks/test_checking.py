"""Every mistake in a playbook is told with its place, what was found, what was expected and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import PlaybookError
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook

ROLE = {"roles": {"a": {"system": "x"}}}


def problems(document: object) -> dict[str, Any]:
    with pytest.raises(PlaybookError) as wrong:
        Playbook.from_document(document)
    return {problem.path: problem for problem in wrong.value.problems}


@pytest.mark.parametrize(
    ("document", "path", "found", "expected"),
    [
        ({"roles": {"a": {"system": 3}}}, "roles.a.system", "3", "text"),
        ({"roles": {"a": {"temperature": "hot"}}}, "roles.a.temperature", '"hot"', "a number"),
        ({"roles": {"a": {"max_tokens": 1.5}}}, "roles.a.max_tokens", "1.5", "a whole number"),
        ({"roles": {"a": None}}, "roles.a", "None", "a mapping"),
        ({"roles": ["a"]}, "roles", "['a']", "a mapping"),
        ({"roles": {"9": {}}}, "roles.9", '"9"', "a name"),
        ({**ROLE, "colour": "blue"}, "colour", "an unknown key", "a key of the format"),
        ({**ROLE, "program": "foo"}, "program", '"foo"', "module:function"),
        ({**ROLE, "steps": [{"name": "s", "role": "b", "prompt": "x"}]}, "steps[0].role", '"b"', "one of the roles: a"),
        ({**ROLE, "steps": [{"name": "s", "role": "a"}]}, "steps[0]", "neither prompt nor sees", "something to answer"),
        ({**ROLE, "steps": [{"role": "a", "prompt": "x"}]}, "steps[0].name", "nothing", "a value"),
        ({**ROLE, "steps": [{"together": []}]}, "steps[0].together", "[]", "at least 1 item"),
        ({"roles": {"a": {"temperature": 3}}}, "roles.a.temperature", "3", "at most 2"),
        ({"roles": {"a": {"temperature": -1}}}, "roles.a.temperature", "-1", "at least 0"),
        ({"roles": {"a": {"max_tokens": 0}}}, "roles.a.max_tokens", "0", "at least 1"),
        ({"roles": {"a": {"system": "half \ud800"}}}, "document", "half of a character", "values that JSON can hold"),
        (
            {"parameters": {"p": "high"}, "rules": {"confirm_below": "p"}},
            "rules.confirm_below",
            '"p", which is "high"',
            "the name of a parameter that holds a number",
        ),
        ({**ROLE, "locked": ["roles.z"]}, "locked[0]", '"roles.z"', "the path of a gene"),
        ({**ROLE, "demos": {"b": []}}, "demos.b", "a step that does not exist", "one of: a"),
        ({"parameters": {"p": {"value": 5, "high": 1}}}, "parameters.p", "5", "at most 1"),
        ({"parameters": {"p": {"value": 0, "low": 1}}}, "parameters.p", "0", "at least 1"),
        ({"parameters": {"p": {"value": 0, "low": 1, "high": 0}}}, "parameters.p", "low 1 above high 0", "low ≤ high"),
        ({"parameters": {"p": {"value": "x", "options": ["y"]}}}, "parameters.p", '"x"', 'one of its options: "y"'),
        ({"parameters": {"p": {"value": "x", "low": 1}}}, "parameters.p", 'bounds on "x"', "bounds on numbers only"),
        ({"parameters": {"p": {"value": 1.5, "whole": True}}}, "parameters.p", "1.5", "a whole number"),
        ({"rules": {"confirm_below": "nope"}}, "rules.confirm_below", '"nope"', "one of the parameters"),
        ({"rules": {"confirm_below": 7}}, "rules.confirm_below", "7", "between 0 and 1"),
        ({"meta": {"x": 1}}, "document", "no roles", "at least one of them"),
        ({}, "document", "no roles", "at least one of them"),
        (["x"], "document", "['x']", "a mapping"),
    ],
)
def test_each_mistake_is_told(document: object, path: str, found: str, expected: str) -> None:
    problem = problems(document)[path]
    assert found in problem.found
    assert expected in problem.expected
    assert "input should" not in problem.expected


def test_duplicate_step_names_are_told_also_across_groups() -> None:
    step = {"name": "s", "role": "a", "prompt": "x"}
    found = problems({**ROLE, "steps": [step, {"together": [step]}]})
    assert "as in steps[0]" in found["steps[1].together[0].name"].found


@pytest.mark.parametrize("prompt", ["{later}", "{self}", "{mate}"])
def test_a_prompt_can_use_only_earlier_steps(prompt: str) -> None:
    steps = [
        {"together": [{"name": "self", "role": "a", "prompt": prompt}, {"name": "mate", "role": "a", "prompt": "x"}]},
        {"name": "later", "role": "a", "prompt": "x"},
    ]
    assert prompt in problems({**ROLE, "steps": steps})["steps[0].together[0].prompt"].found


def test_with_declared_inputs_a_placeholder_that_nothing_fills_is_told() -> None:
    document = {"inputs": ["question"], "roles": {"a": {"system": "{nothing}"}}}
    document["steps"] = [{"name": "s", "role": "a", "prompt": "{question} {typo}"}]  # type: ignore[assignment]
    found = problems(document)
    assert "{nothing}, which nothing fills" in found["roles.a.system"].found
    assert "{typo}, which nothing fills" in found["steps[0].prompt"].found
    assert "{{typo}}" in found["steps[0].prompt"].remedy


def test_a_near_miss_of_a_key_is_suggested_at_every_level() -> None:
    found = problems(
        {
            "role": {},
            "roles": {"a": {"sistem": "x"}},
            "steps": [{"name": "s", "role": "a", "promt": "x"}],
            "parameters": {"p": {"value": 1, "hihg": 2}},
        }
    )
    assert "Did you mean roles?" in found["role"].remedy
    assert "Did you mean system?" in found["roles.a.sistem"].remedy
    assert "Did you mean prompt?" in found["steps[0].promt"].remedy
    assert "Did you mean high?" in found["parameters.p.hihg"].remedy


def test_all_problems_of_all_kinds_are_told_at_once() -> None:
    found = problems({"roles": {"a": {"system": 3}}, "steps": [{"name": "s", "role": "b", "prompt": "x"}], "zzz": 1})
    assert {"roles.a.system", "steps[0].role", "zzz"} <= found.keys()


def test_a_text_of_ten_megabytes_is_refused_by_size() -> None:
    assert "10,000,000 characters" in problems({"roles": {"a": {"system": "x" * 10_000_000}}})["roles.a.system"].found


def test_values_that_json_cannot_hold_are_refused() -> None:
    assert "document" in problems({"roles": {"a": {"system": object()}}})
    assert "document" in problems({"parameters": {"p": float("nan")}})


def test_problems_carry_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("roles:\n  a: {system: 3}\n")
    (tmp_path / "child.yaml").write_text("extends: base\nsteps:\n  - {name: s, role: a}\n")
    with pytest.raises(PlaybookError) as wrong:
        Playbook.load(tmp_path / "child.yaml")
    places = [problem.path for problem in wrong.value.problems]
    assert any(place.startswith("roles.a.system (") and place.endswith("base.yaml:2)") for place in places)
    assert any(place.startswith("steps[0] (") and place.endswith("child.yaml:3)") for place in places)


@pytest.mark.parametrize("pattern", ["demos.w", "demos.*"])
def test_demos_may_be_locked_before_there_are_any(pattern: str) -> None:
    playbook = Playbook.from_document({"roles": {"w": {"system": "s"}}, "locked": [pattern]})
    assert "demos.w" not in genes(playbook)


@pytest.mark.parametrize("path", ["roles.w.system", "steps.second.prompt", "steps.second.until.at_most"])
def test_a_gene_at_its_default_stays_locked_when_the_playbook_is_read_again(path: str) -> None:
    first = {"name": "first", "role": "w", "prompt": "Go on."}
    second = {"name": "second", "role": "w", "prompt": "", "sees": ["first"], "until": {"at_most": 3, "says": "done"}}
    document = {"roles": {"w": {"system": "", "model": "m"}}, "steps": [first, second], "locked": [path]}
    again = Playbook.from_document(Playbook.from_document(document).document())
    assert again.locked == (path,)
    assert path not in genes(again)
