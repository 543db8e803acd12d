"""Differences people can read, and limits on how much may change at once."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from playbook_samples import random_edit, random_playbook

from seedbed.playbooks.changes import Change, diff, excess
from seedbed.playbooks.genes import edited_characters, flatten, text_distance, with_genes
from seedbed.playbooks.playbook import Playbook

START = Playbook.from_document(
    {
        "roles": {"writer": {"system": "Answer in three short sentences."}},
        "parameters": {"warmth": {"value": 0.5, "low": 0, "high": 2}, "depth": 0.5},
        "rules": {"never": ["pay"]},
    }
)


def test_numbers_are_shown_from_and_to_and_texts_word_by_word() -> None:
    changed = with_genes(START, {"parameters.warmth": 0.7, "roles.writer.system": "Answer in two short sentences."})
    assert [str(change) for change in diff(START, changed)] == [
        "roles.writer.system: Answer in [-three-]{+two+} short sentences.",
        "parameters.warmth: 0.5 → 0.7",
    ]


def test_a_number_of_rounds_that_nobody_had_said_is_shown_from_what_it_was() -> None:
    def rounds(**more: int) -> Playbook:
        step = {"name": "say", "role": "a", "prompt": "{q}", "until": {"says": "done", **more}}
        return Playbook.from_document({"roles": {"a": {}}, "steps": [step]})

    assert [str(change) for change in diff(rounds(), rounds(at_most=5))] == ["steps.say.until.at_most: 3 → 5"]
    assert [str(change) for change in diff(rounds(at_most=5), rounds())] == ["steps.say.until.at_most: 5 → 3"]


def test_what_appears_and_disappears_is_shown() -> None:
    less = Playbook.from_document({key: value for key, value in START.document().items() if key != "rules"})
    assert diff(START, less) == [Change("rules.never", ["pay"], None)]
    assert diff(less, START) == [Change("rules.never", None, ["pay"])]


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_applying_a_diff_gives_the_other_playbook(seed: int) -> None:
    rng = random.Random(seed)
    one = random_playbook(rng)
    other = random_edit(one, rng)
    flat = flatten(one)
    for change in diff(one, other):
        assert change.before == flat.get(change.path)
        if change.after is None:
            del flat[change.path]
        else:
            flat[change.path] = change.after
    assert flat == flatten(other)
    assert (diff(one, other) == []) is (one == other)


@given(st.text(max_size=50), st.text(max_size=50))
def test_pieces_of_a_text_change_add_up_to_both_texts(before: str, after: str) -> None:
    add_up(before, after)


def add_up(before: str, after: str) -> None:
    pieces = list(Change("x", before, after).pieces())
    assert "".join(text for what, text in pieces if what != "added") == before
    assert "".join(text for what, text in pieces if what != "removed") == after


def test_long_texts_are_compared_in_a_moment_and_small_edits_stay_small() -> None:
    # Compared word by word with each other, as short texts are, these would take minutes.
    rng = random.Random(3)
    words = [rng.choice(["the", "of", "and", f"word{n}"]) for n in range(5_000)]
    edited = words.copy()
    edited[100], edited[4_900] = "here", "there"
    long, mended = " ".join(words), " ".join(edited)
    assert [text for what, text in Change("x", long, mended).pieces() if what == "added"] == ["here", "there"]
    assert edited_characters(long, mended) < 25
    assert text_distance(long, mended) < 0.001

    alike, shuffled = (" ".join(rng.choices(["yes", "no"], k=8_000)) for _ in range(2))
    pieces = list(Change("x", f"Start. {alike} End.", f"Start. {shuffled} End.").pieces())
    assert pieces[0][1].startswith("Start. ")
    assert pieces[-1][1].endswith(" End.")
    assert edited_characters(alike, shuffled) > 20_000
    assert text_distance(alike, shuffled) > 0.9


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_pieces_of_long_texts_add_up_to_both_texts(seed: int) -> None:
    rng = random.Random(seed)
    words = [f"w{rng.randint(0, rng.choice([3, 5_000]))}" for _ in range(800)]
    other = rng.sample(words, 800) if seed % 2 else [word for word in words if rng.random() < 0.8]
    add_up("\n".join(words), " ".join(other))


def test_a_change_within_the_limits_is_no_excess() -> None:
    changed = with_genes(START, {"parameters.warmth": 0.7, "roles.writer.system": "Answer in two short sentences."})
    assert excess(START, changed, number=0.10, text=5) == []


def test_larger_changes_are_each_told() -> None:
    changed = with_genes(
        START, {"parameters.warmth": 0.71, "parameters.depth": 0.61, "roles.writer.system": "Say something else."}
    )
    paths = [problem.path for problem in excess(START, changed, number=0.10, text=5)]
    assert paths == ["parameters.depth", "parameters.warmth", "roles.writer.system"]


def test_a_gene_that_comes_or_goes_is_always_too_much() -> None:
    document = START.document()
    document["parameters"]["autonomy"] = 1.0
    more = Playbook.from_document(document)
    assert [problem.found for problem in excess(START, more, number=1, text=10_000)] == ["a gene that is new"]
    assert [problem.found for problem in excess(more, START, number=1, text=10_000)] == ["a gene that is gone"]
