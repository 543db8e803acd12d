"""Policies as people write them down."""

from __future__ import annotations

from pathlib import Path

import pytest

from seedbed.errors import DocumentError
from seedbed.experiments.screening.policies import Situation, load_policy

AT = Situation("ab" * 16, "way", {"text": "hi"}, (), ("ask", "go"))


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_a_json_file_has_the_chances_of_every_decision(tmp_path: Path) -> None:
    assert load_policy(written(tmp_path, "p.json", '{"ask": 0.25, "go": 0.75}'))(AT) == {"ask": 0.25, "go": 0.75}


def test_lines_have_those_of_a_run_before_those_of_its_inputs(tmp_path: Path) -> None:
    other = Situation("cd" * 16, "way", {"text": "hi"}, (), ())
    lines = (
        f'{{"inputs": {{"text": "hi"}}, "chances": {{"go": 1}}}}\n\n{{"run": "{AT.run}", "chances": {{"ask": 1}}}}\n'
    )
    found = load_policy(written(tmp_path, "p.jsonl", lines))
    assert (found(AT), found(other)) == ({"ask": 1}, {"go": 1})
    with pytest.raises(Exception, match="no line for it or its inputs"):
        found(Situation("ef" * 16, "way", {"text": "ho"}, (), ()))


def test_a_function_is_called_with_the_situation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "shy_policy.py", "def asks(at):\n    return {at.options[0]: 1.0}\nlimit = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_policy("shy_policy:asks")(AT) == {"ask": 1.0}
    with pytest.raises(DocumentError, match="shy_policy:limit, 3; expected a function of a situation"):
        load_policy("shy_policy:limit")
    with pytest.raises(DocumentError, match=r"shy_policy:none .*AttributeError"):
        load_policy("shy_policy:none")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.json", '{"ask": 0.5}', r"p\.json: file: found .*sum to 0\.5; expected chances that sum to 1"),
        ("p.json", "[1]", "found .*; expected chances"),
        ("p.json", "{", "found text that is not JSON"),
        ("p.jsonl", '{"chances": {"ask": 1}}', "line 1: found .*; expected an object with chances, and run or inputs"),
        ("p.jsonl", '{"run": "a", "chances": {"ask": 2}}', 'line 1: found "ask": 2; expected chances from 0 to 1'),
        ("p.jsonl", '{"run": "a", "chances": {"ask": 1}}\n' * 2, "line 2: found a run or inputs of an earlier line"),
        ("p.jsonl", "x\n{}\n", "(?s)2 problems.*line 1: found text that is not JSON.*line 2: found {}"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=message):
        load_policy(written(tmp_path, name, text))


def test_what_is_no_policy_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="found No such file"):
        load_policy(str(tmp_path / "none.json"))
    with pytest.raises(DocumentError, match=r'found "eager"; expected a file\.json, a file\.jsonl or module:function'):
        load_policy("eager")
    (tmp_path / "p.json").write_bytes(b"\xff")
    with pytest.raises(DocumentError, match="not UTF-8"):
        load_policy(str(tmp_path / "p.json"))
