"""How two texts differ, word by word, also if they are long."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from seedbed.playbooks.word_diff import changed_parts, shared_words

texts = st.text(alphabet="ab \n", max_size=40)


@given(texts, texts)
def test_the_parts_put_together_are_the_texts(one: str, other: str) -> None:
    parts = list(changed_parts(one, other))
    assert ("".join(old for old, _ in parts), "".join(new for _, new in parts)) == (one, other)


@given(texts)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    assert all(old == new for old, new in changed_parts(text, text))
    shared, both = shared_words(text, text)
    assert 2 * shared == both


def test_one_word_in_a_long_text_is_found() -> None:
    words = random.Random(1).choices("abcdefghij", k=20_000)
    changed = [*words[:9_000], "changed", *words[9_001:]]
    parts = [(old, new) for old, new in changed_parts(" ".join(words), " ".join(changed)) if old != new]
    assert parts == [(words[9_000], "changed")]
