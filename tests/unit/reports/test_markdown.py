"""Markdown: the same report without pictures, and texts that stay texts."""

from __future__ import annotations

import re

from test_page import HOSTILE, whole

from seedbed.reports import markdown
from seedbed.reports.markdown import fenced


def test_markdown_has_the_same_without_pictures() -> None:
    text = markdown.to_markdown(whole("plain"))
    assert text.startswith("# plain\n\nplain\n\n**plain**\n\n- plain\n\n**plain**\n\n`plain`\n\n## plain\n")
    assert "<svg" not in text
    assert "```yaml\nplain\n```" in text
    assert "and 1,234 more" in text


def test_markdown_of_hostile_texts_has_no_tag_outside_a_fence() -> None:
    text = markdown.to_markdown(whole(HOSTILE)).replace(f"`{HOSTILE}`", "")
    outside = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "<script>" in text
    assert "<script>" not in outside


def test_a_fence_is_longer_than_any_within() -> None:
    assert fenced("plain") == "```text\nplain\n```"
    assert fenced("a ``` b").startswith("````text\n")
