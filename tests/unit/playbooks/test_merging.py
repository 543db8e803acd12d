"""Three-way merge: nothing is lost in silence, rules never loosen, sides may be swapped."""

from __future__ import annotations

import random
from typing import Any

import pytest
from playbook_samples import random_edit, random_playbook

from seedbed.errors import MergeClash
from seedbed.playbooks.genes import flatten, with_genes
from seedbed.playbooks.merging import Clash, Resolver, manual, mean, merge, ours, theirs
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


def threshold_paths(*sides: Playbook) -> set[str]:
    return {f"parameters.{side.threshold_parameter}" for side in sides if side.threshold_parameter}


def attempt(base: Playbook, one: Playbook, other: Playbook) -> Playbook | set[str]:
    """The merged playbook, or the paths that clash."""
    try:
        return merge(base, one, other).playbook
    except MergeClash as clash:
        return {problem.path for problem in clash.problems}


@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_random_merges_lose_nothing_and_loosen_nothing(seed: int) -> None:
    rng = random.Random(seed)
    clean = clashed = 0
    for _ in range(150):
        base = random_playbook(rng)
        one, other = random_edit(base, rng), random_edit(base, rng)
        result = attempt(base, one, other)
        assert attempt(base, other, one) == result
        if not isinstance(result, Playbook):
            clashed += 1
            continue
        clean += 1
        was, mine, yours, now = (flatten(each) for each in (base, one, other, result))
        for path in {**was, **mine, **yours, **now}:
            if not is_protection(path) and path not in threshold_paths(one, other):
                expected = yours.get(path) if mine.get(path) == was.get(path) else mine.get(path)
                assert now.get(path) == expected, path
        for side in (one, other):
            assert side.loosened_by(result) == []
            for action in ("pay", "send_mail", "bulk_delete"):
                for confidence in (0.4, 0.65, 0.85):
                    assert not result.may(action, confidence) or side.may(action, confidence)
    assert clean > 15
    assert clashed > 15


def test_what_both_sides_changed_differently_is_always_reported() -> None:
    rng = random.Random(7)
    for _ in range(250):
        base = random_playbook(rng)
        one, other = random_edit(base, rng), random_edit(base, rng)
        was, mine, yours = (flatten(each) for each in (base, one, other))
        both = {
            path
            for path in {**was, **mine, **yours}
            if mine.get(path) != yours.get(path) and was.get(path) not in (mine.get(path), yours.get(path))
        }
        reported = attempt(base, one, other)
        for path in both:
            if not is_protection(path) and path not in threshold_paths(one, other):
                assert not isinstance(reported, Playbook), path
                assert reported & {path, entity(path), "steps"}, path


def lowest(clash: Clash) -> Any:
    """Settles every clash as loosely as it can."""
    numbers = [side for side in (clash.ours, clash.theirs) if isinstance(side, float | int)]
    return min(numbers) if numbers else clash.ours


@pytest.mark.parametrize("resolver", [ours, theirs, mean, lowest])
def test_no_resolver_lowers_a_threshold(resolver: Resolver) -> None:
    rng = random.Random(11)
    lowered = 0
    for _ in range(150):
        base = random_playbook(rng)
        one, other = random_edit(base, rng), random_edit(base, rng)
        try:
            result = merge(base, one, other, [resolver, ours]).playbook
        except MergeClash:
            continue  # both are valid, their union is not
        assert one.loosened_by(result) == other.loosened_by(result) == []
        lowered += bool(one.loosened_by(other) or other.loosened_by(one))
    assert lowered > 50


CAREFUL = {"prefer_confirm": ["bulk_*"], "confirm_below": "caution"}


def careful(value: float, **more: Any) -> Playbook:
    return Playbook.from_document({"parameters": {"caution": {"value": value, **more}}, "rules": CAREFUL})


def test_a_threshold_ends_at_the_stricter_side_without_a_clash() -> None:
    assert merge(careful(0.5), careful(0.7), careful(0.9)).playbook == careful(0.9)
    assert merge(careful(0.5), careful(0.2), careful(0.5)).playbook == careful(0.5)
    assert merge(careful(0.5), careful(0.3), careful(0.4)).playbook == careful(0.4)


def test_a_threshold_that_stands_in_two_places_stays_at_the_stricter_one() -> None:
    fixed = Playbook.from_document({**careful(0.2).content(), "rules": {**CAREFUL, "confirm_below": 0.6}})
    for chosen in (0.1, "caution"):
        result = merge(careful(0.2), careful(0.2), fixed, [manual({"rules.confirm_below": chosen})]).playbook
        assert result.threshold == 0.6
        assert not result.may("bulk_delete", 0.5)


def test_a_threshold_the_rules_cannot_hold_is_a_clash() -> None:
    # Above 1 nothing is sure enough; as a number of the rules it would be a mistake.
    fixed = Playbook.from_document({"rules": {**CAREFUL, "confirm_below": 0.6}})
    with pytest.raises(MergeClash, match=r"rules\.confirm_below"):
        merge(careful(2), careful(2), fixed, [theirs])


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
