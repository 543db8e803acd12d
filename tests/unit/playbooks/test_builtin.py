"""The dialogues that ship are playbooks, found by name."""

from __future__ import annotations

from pathlib import Path

from seedbed.playbooks import builtin
from seedbed.playbooks.playbook import Playbook


def test_each_says_what_it_does_takes_one_input_and_names_the_model_of_the_starter() -> None:
    for name, file in builtin.FILES.items():
        playbook = Playbook.load(file)
        assert (len(playbook.inputs), 10 < len(playbook.meta["about"]) < 45) == (1, True), name
        assert {role.model for role in playbook.roles.values()} == {builtin.MODEL}


def test_a_file_extends_one_of_them_unless_a_file_beside_it_has_the_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: debate\nroles: {judge: {max_tokens: 50}}\n")
    mine = Playbook.load(tmp_path / "mine.yaml")
    assert mine.roles["judge"].max_tokens == 50
    assert mine.needed_inputs == {"question"}
    (tmp_path / "debate.yaml").write_text("roles: {judge: {system: Alone.}}\n")
    assert list(Playbook.load(tmp_path / "mine.yaml").roles) == ["judge"]
