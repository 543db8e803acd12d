"""Three-way merge: nothing is lost in silence, rules never loosen, sides may be swapped."""

from __future__ import annotations

import random

import pytest
from playbook_samples import random_edit, random_playbook

from seedbed.errors import MergeClash
from seedbed.playbooks.genes import leaves, with_genes
from seedbed.playbooks.merging import Clash, manual, mean, merge, ours, theirs
from seedbed.playbooks.playbook import Playbook

BASE = Playbook.from_document(
    {
        "roles": {"writer": {"system": "Be brief.", "model": "fast"}},
        "parameters": {
            "warmth": {"value": 0.5, "low": 0, "high": 1},
            "tries": {"value": 3, "low": 1, "high": 9, "whole": True},
        },
        "rules": {"never": ["pay"], "confirm": ["send_mail"]},
    }
)


def entity(path: str) -> str:
    head, *rest = path.split(".")
    return f"{head}.{rest[0]}" if rest and head in ("roles", "steps", "parameters") else path


def is_protection(path: str) -> bool:
    return path == "locked" or path.startswith("rules")


def attempt(base: Playbook, one: Playbook, other: Playbook) -> Playbook | set[str]:
    """The merged playbook, or the paths that clash."""
    try:
        return merge(base, one, other).playbook
    except MergeClash as clash:
        return {problem.path for problem in clash.problems}


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_random_merges_lose_nothing_and_loosen_nothing(seed: int) -> None:
    rng = random.Random(seed)
    clean = clashed = 0
    for _ in range(2_500):
        base = random_playbook(rng)
        one, other = random_edit(base, rng), random_edit(base, rng)
        result = attempt(base, one, other)
        assert attempt(base, other, one) == result
        if not isinstance(result, Playbook):
            clashed += 1
            continue
        clean += 1
        was, mine, yours, now = (leaves(each) for each in (base, one, other, result))
        for path in {**was, **mine, **yours, **now}:
            if not is_protection(path):
                expected = yours.get(path) if mine.get(path) == was.get(path) else mine.get(path)
                assert now.get(path) == expected, path
        for side in (one, other):
            assert side.rules.loosened_by(result.rules) == []
    assert clean > 250
    assert clashed > 250


def test_what_both_sides_changed_differently_is_always_reported() -> None:
    rng = random.Random(7)
    for _ in range(1_000):
        base = random_playbook(rng)
        one, other = random_edit(base, rng), random_edit(base, rng)
        was, mine, yours = (leaves(each) for each in (base, one, other))
        both = {
            path
            for path in {**was, **mine, **yours}
            if mine.get(path) != yours.get(path) and was.get(path) not in (mine.get(path), yours.get(path))
        }
        reported = attempt(base, one, other)
        for path in both:
            if not is_protection(path):
                assert not isinstance(reported, Playbook), path
                assert reported & {path, entity(path), "steps"}, path


def test_merging_an_unchanged_side_gives_the_other_side() -> None:
    changed = with_genes(BASE, {"roles.writer.system": "Be very brief.", "parameters.warmth": 0.6})
    assert merge(BASE, changed, BASE).playbook == changed
    assert merge(BASE, BASE, changed).playbook == changed


def test_resolvers_settle_clashes_in_their_order() -> None:
    one = with_genes(BASE, {"parameters.warmth": 0.4, "parameters.tries": 2, "roles.writer.system": "One."})
    other = with_genes(BASE, {"parameters.warmth": 0.8, "parameters.tries": 5, "roles.writer.system": "Other."})
    with pytest.raises(MergeClash) as clash:
        merge(BASE, one, other)
    assert {p.path for p in clash.value.problems} == {"parameters.warmth", "parameters.tries", "roles.writer.system"}
    assert merge(BASE, one, other, [ours]).playbook == one
    assert merge(BASE, one, other, [theirs]).playbook == other
    mixed = merge(BASE, one, other, [mean, manual({"roles.writer.system": "Both."})]).playbook
    assert mixed.parameter("warmth") == pytest.approx(0.6)
    assert mixed.parameter("tries") == 4
    assert mixed.roles["writer"].system == "Both."
    with pytest.raises(MergeClash, match=r"roles\.writer\.system"):
        merge(BASE, one, other, [mean])


def test_mean_stays_within_bounds() -> None:
    clash = Clash("parameters.tries", 1, 2, 9, whole=True)
    assert mean(clash) in range(2, 10)


def test_a_role_removed_here_and_changed_there_is_a_clash() -> None:
    document = BASE.document()
    document["roles"]["critic"] = {"system": "Find faults."}
    base = Playbook.from_document(document)
    changed = with_genes(base, {"roles.critic.system": "Find all faults."})
    with pytest.raises(MergeClash, match=r"roles\.critic"):
        merge(base, BASE, changed)
    assert "critic" not in merge(base, BASE, changed, [ours]).playbook.roles
    assert merge(base, BASE, changed, [theirs]).playbook.roles["critic"].system == "Find all faults."


def test_a_rule_dropped_on_one_side_stays() -> None:
    document = BASE.document()
    document["rules"] = {"confirm": ["send_mail", "book"]}
    result = merge(BASE, Playbook.from_document(document), BASE).playbook
    assert result.rules.never == ("pay",)
    assert set(result.rules.confirm) == {"send_mail", "book"}


def test_two_valid_sides_whose_union_is_not_valid_clash() -> None:
    document = BASE.document()
    document["roles"]["critic"] = {"system": "Find faults."}
    base = Playbook.from_document(document)
    uses = Playbook.from_document({**document, "steps": [{"name": "check", "role": "critic", "prompt": "{text}"}]})
    with pytest.raises(MergeClash, match="critic"):
        merge(base, BASE, uses)
