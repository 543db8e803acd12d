from __future__ import annotations

from pathlib import Path

import pytest

from seedbed.files import write_private


@pytest.mark.parametrize("content", ["größer", "größer".encode()])
def test_a_file_is_its_owners_alone_from_the_start(tmp_path: Path, content: str | bytes) -> None:
    file = tmp_path / "report"
    write_private(file, content)
    assert file.read_text() == "größer"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    write_private(file, "x")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("x", 0o644)
