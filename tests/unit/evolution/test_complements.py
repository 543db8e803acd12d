from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.learning.complements import Complements, with_both
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook


def debate(**texts: str) -> Playbook:
    """A playbook of three roles who say as little as possible, unless told otherwise."""
    words = {"writer": "Write.", "critic": "Judge.", "editor": "Cut.", **texts}
    roles = {name: {"model": "fast", "system": text} for name, text in words.items()}
    steps = [{"name": f"by_{name}", "role": name, "prompt": "{question}"} for name in roles]
    return Playbook.from_document({"roles": roles, "steps": steps, "rules": {"never": ["send_mail"]}})


def pool_of(*entries: tuple[Playbook, Sequence[float]], parents: dict[int, tuple[int, ...]] | None = None) -> Pool:
    pool = Pool([ExactMatch()], [f"s{n}" for n in range(6)])
    for number, (playbook, values) in enumerate(entries):
        above = (parents or {}).get(number, (0,) if number else ())
        pool.add(Offer(playbook, tuple(pool.playbooks[each].digest for each in above)))
        about: dict[str, Any] = {"key": "k", "playbook": playbook.digest, "replicate": 0, "metric": "exact_match"}
        pool.tell(Cell(task=f"s{n}", value=value, **about) for n, value in enumerate(values))
    return pool


START = debate()
WRITES = debate(writer="Write well.")
JUDGES = debate(critic="Judge well.")


def test_the_child_of_two_that_are_good_at_different_tasks_has_the_changes_of_both() -> None:
    pool = pool_of((START, [0] * 6), (WRITES, [1, 1, 1, 0, 0, 0]), (JUDGES, [0, 0, 0, 1, 1, 0]))
    offer = Complements().offer(pool, [1, 2, 0])
    assert offer == Offer(
        debate(writer="Write well.", critic="Judge well."), (WRITES.digest, JUDGES.digest), "merged", None
    )


def test_of_all_pairs_the_one_with_the_most_to_gain_is_taken_and_each_once() -> None:
    cuts = debate(editor="Cut well.")
    pool = pool_of(
        (START, [0] * 6), (WRITES, [1, 1, 1, 1, 0, 0]), (JUDGES, [1, 1, 1, 0, 0, 0]), (cuts, [1, 0, 0, 0, 1, 0])
    )
    complements = Complements()
    found = [complements.offer(pool, [1, 2, 3]) for _ in range(4)]
    assert [offer and offer.parents for offer in found] == [
        (WRITES.digest, cuts.digest),
        (JUDGES.digest, cuts.digest),
        None,  # whatever the third pair gains, one does all that the other does
        None,
    ]


def test_where_both_changed_a_text_that_of_the_better_stays() -> None:
    other = debate(writer="Write fast.", critic="Judge well.")
    pool = pool_of((START, [0] * 6), (WRITES, [1, 1, 1, 0, 0, 0]), (other, [0, 0, 0, 1, 1, 0]))
    offer = Complements().offer(pool, [1, 2])
    assert offer
    assert offer.playbook == debate(writer="Write well.", critic="Judge well.")


def test_what_their_common_parent_changed_is_in_the_child_too() -> None:
    both = {"editor": "Cut well."}
    pool = pool_of(
        (START, [0] * 6),
        (debate(**both), [0] * 6),
        (debate(writer="Write well.", **both), [1, 1, 1, 0, 0, 0]),
        (debate(critic="Judge well.", **both), [0, 0, 0, 1, 1, 0]),
        parents={1: (0,), 2: (1,), 3: (1,)},
    )
    offer = Complements().offer(pool, [2, 3])
    assert offer
    assert offer.playbook == debate(writer="Write well.", critic="Judge well.", **both)


def test_a_parent_and_its_child_have_nothing_to_add_to_each_other() -> None:
    pool = pool_of((START, [0, 0, 0, 1, 1, 0]), (WRITES, [1, 1, 1, 0, 0, 0]))
    assert Complements().offer(pool, [1, 0]) is None
    assert Complements().offer(pool, [0, 1]) is None


def test_there_is_no_child_of_two_that_are_good_at_the_same_or_have_done_too_little_together() -> None:
    same = pool_of((START, [0] * 6), (WRITES, [1, 1, 1, 1, 0, 0]), (JUDGES, [1, 1, 0, 0, 0, 0]))
    assert Complements().offer(same, [1, 2]) is None
    few = pool_of((START, [0] * 6), (WRITES, [1, 0, 0]), (JUDGES, [0, 1, 0]))
    assert Complements().offer(few, [1, 2]) is None


def test_a_child_that_was_tried_already_is_not_offered_again() -> None:
    child = debate(writer="Write well.", critic="Judge well.")
    pool = pool_of((START, [0] * 6), (WRITES, [1, 1, 1, 0, 0, 0]), (JUDGES, [0, 0, 0, 1, 1, 0]), (child, [0] * 6))
    assert Complements().offer(pool, [1, 2]) is None


def test_who_is_no_better_than_the_one_that_both_come_from_has_nothing_to_add() -> None:
    pool = pool_of((START, [0, 0, 0, 0, 1, 0]), (WRITES, [1, 1, 1, 0, 1, 0]), (JUDGES, [0, 0, 0, 1, 0, 0]))
    assert Complements().offer(pool, [1, 2]) is None


def test_rules_and_locks_stay_as_they_are() -> None:
    pool = pool_of((START, [0] * 6), (WRITES, [1, 1, 1, 0, 0, 0]), (JUDGES, [0, 0, 0, 1, 1, 0]))
    offer = Complements().offer(pool, [1, 2])
    assert offer
    assert offer.playbook.rules == START.rules


# Texts that both changed


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "both"),
    [
        ("Go.", "Go. Stop.", "Go. Wait.", "Go. Wait. Stop."),
        ("Go. Stop.", "Go. Wait.", "Run. Stop.", "Run. Wait."),
        ("Go. Stop.", "Go. Wait.", "Go. Rest.", "Go. Wait."),
        ("Go. Wait. Stop.", "Go. Stop.", "Go. Wait.", "Go."),
        ("Go.\nStop.\nAnswer:", "Go.\nStop.\nWait.\nAnswer:", "Rest.\nGo.\nStop.\nAnswer:", None),
        ("Go.", "Go. Stop.", "Go. Stop. Wait.", "Go. Wait. Stop."),
        ("要約。", "要約。出典。", "要約。短く。", "要約。短く。出典。"),
        ("", "Go.", "Stop.", "Stop. Go."),
    ],
)
def test_a_text_that_both_changed_has_the_changes_of_both_and_ours_where_they_clash(
    base: str, ours: str, theirs: str, both: str | None
) -> None:
    assert with_both(base, ours, theirs) == (both or "Rest.\nGo.\nStop.\nWait.\nAnswer:")


SENTENCES = st.lists(st.sampled_from([f"{word}." for word in "abcdefgh"]), max_size=6, unique=True)


@given(SENTENCES, SENTENCES, SENTENCES)
def test_no_sentence_of_ours_is_lost_unless_they_deleted_it_and_nothing_is_made_up(
    base: list[str], ours: list[str], theirs: list[str]
) -> None:
    merged = with_both(*(" ".join(each) for each in (base, ours, theirs))).split()
    assert {*ours} - {*base} <= {*merged} <= {*ours, *theirs}
    assert {*ours} & {*theirs} <= {*merged}
    assert {*with_both(" ".join(base), " ".join(base), " ".join(theirs)).split()} == {*theirs}
    assert with_both(" ".join(base), " ".join(ours), " ".join(base)).split() == ours
