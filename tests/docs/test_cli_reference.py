"""The reference of the command line says what the commands say."""

from __future__ import annotations

import cli_reference


def test_the_reference_is_up_to_date() -> None:
    written = cli_reference.PAGE.read_text(encoding="utf-8")
    assert written == cli_reference.page(), f"docs/cli.md is stale. Run: {cli_reference.COMMAND}"


def test_every_command_has_its_section() -> None:
    page = cli_reference.page()
    for command in ("init", "demo", "run", "rollback", "playbook merge", "store copy", "channel log"):
        assert f"\n### seedbed {command}\n" in page
    assert page.count("**Exit code:**") == page.count("### seedbed ")
    assert page.count("**JSON:**") == page.count("### seedbed ") - 1  # all but `playbook schema`, which is JSON itself
