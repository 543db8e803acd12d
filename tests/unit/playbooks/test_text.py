"""A prompt in a plain text is one role, and is written back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from format_samples import refused

from seedbed.errors import PlaybookError
from seedbed.playbooks.formats import export, load_file, load_foreign
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.playbook import Playbook


def test_a_prompt_is_the_instructions_of_a_writer_and_its_file_names_the_branch(tmp_path: Path) -> None:
    (tmp_path / "mail sorter.md").write_text("# Sort mail\n\nAnswer {label}.\n")
    found = load_file(tmp_path / "mail sorter.md")
    assert found.playbook.content() == {"roles": {"writer": {"system": "# Sort mail\n\nAnswer {label}."}}}
    assert found.refs == {"branches/mail-sorter": found.playbook.digest}
    assert found.playbook.needed_inputs == {"label"}


def test_a_prompt_comes_back_to_the_letter_and_a_changed_one_ends_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("Sort mail.")
    found = load_foreign(tmp_path / "prompt.txt")
    assert export(found.playbook, "text", found.facts) == {"text": "Sort mail."}
    changed = with_genes(found.playbook, {"roles.writer.system": "Sort it."})
    assert export(changed, "text", found.facts) == {"text": "Sort it.\n"}


def test_a_placeholder_of_another_tool_is_told_and_no_prompt_is_refused(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("Sort {{mail}}.")
    (warning,) = load_foreign(tmp_path / "prompt.txt").warnings
    assert warning.found == "{{mail}}"
    assert "text: found nothing; expected a prompt" in refused({"text": " \n"})


def test_more_than_one_role_or_its_settings_are_no_text() -> None:
    for roles in ({"a": {"system": "Hi."}, "b": {"system": "Ho."}}, {"a": {"system": "Hi.", "max_tokens": 5}}):
        with pytest.raises(PlaybookError, match="what a text can say"):
            export(Playbook.from_document({"roles": roles}), "text")
