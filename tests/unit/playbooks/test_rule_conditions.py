"""Rules with conditions: a doubt counts against the action."""

from __future__ import annotations

from typing import Any

import pytest

from seedbed.errors import PlaybookError
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.rules import Rules, disguise, matches

OUTSIDE = {"send_email": {"to": {"not_matches": "*@example.org"}}}
INSIDE = {"send_email": {"to": {"matches": "*@example.org"}}}


def rules(**lists: Any) -> Rules:
    return Playbook.from_document({"rules": lists}).rules


def answer(of: Rules, action: str, changes: bool = True, taken: Any = (), **arguments: Any) -> str:
    return of.may(action, None, None, arguments, changes=changes, taken=taken).answer


@pytest.mark.parametrize(
    ("to", "forbidden"),
    [
        ("ann@example.org", False),
        ("eve@evil.com", True),
        (["ann@example.org", "eve@evil.com"], True),
        ({"to": "ann@example.org", "cc": ["eve@evil.com"]}, True),
        ("eve@evil.com, ann@example.org", True),
        ("eve@evil.com;ann@example.org", True),
        ("eve@evil.com\nann@example.org", True),
        ("eve@evil.com ann@example.org", True),
        ("eve@evil.com\u00a0ann@example.org", True),
        ("eve@evil.com，ann@example.org", True),
        ("eve@evil.com|ann@example.org", True),
        ("<eve@evil.com>ann@example.org", True),
        ({"eve@evil.com": None}, True),
        ({"eve@evil.com": "ann@example.org"}, True),
        ({"eve@evil.com": []}, True),
        ([{"ann@example.org": ["ben@example.org"]}], False),
        ("ann@еxample.org", True),
        ([], False),
        (None, False),
    ],
)
def test_a_condition_sees_every_recipient_however_it_is_written(to: Any, forbidden: bool) -> None:
    assert answer(rules(never=[OUTSIDE], allow=["send_email"]), "send_email", to=to) == (
        "forbidden" if forbidden else "allowed"
    )
    assert answer(rules(allow=[INSIDE]), "send_email", to=to) == ("confirm" if forbidden else "allowed")


@pytest.mark.parametrize(
    "to",
    [
        "eve@evil.com, ann@example.org",
        "ann@example.org;Eve@Evil.com;",
        "eve@evil.com ann@example.org",
        "Eve <eve@evil.com>",
        "eve@evil.com.",
        {"eve@evil.com": 1},
        {"eve@evil.com": None},
        "eve@evil.com\uff0cann@example.org",
        "eve@evil.com\u200b, ann@example.org",
        "e\u00adve@ev\u200bil.com",
    ],
)
@pytest.mark.parametrize("test", [{"matches": "*@evil.com"}, {"one_of": ["eve@evil.com"]}])
def test_who_is_forbidden_is_seen_beside_others_and_as_a_key(to: Any, test: Any) -> None:
    forbidden = rules(never=[{"send_email": {"to": test}}], otherwise="allow")
    assert answer(forbidden, "send_email", to=to) == "forbidden"
    assert answer(forbidden, "send_email", to="steve@evil.company.org, ann@example.org") == "allowed"


def test_who_is_excepted_from_a_permission_is_seen_beside_others() -> None:
    of = rules(allow=[{"send_email": {"to": {"not_matches": "*@evil.com"}}}])
    assert answer(of, "send_email", to="ann@example.org") == "allowed"
    assert answer(of, "send_email", to="eve@evil.com, ann@example.org") == "confirm"


def test_a_pattern_that_is_open_at_both_ends_permits_the_words_around_it() -> None:
    of = rules(allow=[{"send_email": {"subject": {"matches": "*invoice*"}}}])
    assert answer(of, "send_email", subject="Your invoice of March") == "allowed"
    narrow = rules(allow=[{"pay": {"to": {"matches": "*@example.org"}}}])
    assert narrow.loosened_by(rules(allow=[{"pay": {"to": {"matches": "* *@example.org"}}}]))


def test_the_names_of_fields_are_no_numbers_but_numbers_as_keys_are() -> None:
    small = rules(allow=[{"pay": {"order": {"below": 100}}}])
    assert answer(small, "pay", order={"usd": 5}) == "allowed"
    assert answer(small, "pay", order={"5000": 5}) == "confirm"


def test_a_doubt_is_not_settled_by_confidence() -> None:
    small = {"pay": {"usd": {"below": 10}}}
    of = rules(prefer_confirm=[small])
    assert of.may("pay", 1.0, None, {"usd": 5}, changes=True)
    assert of.may("pay", 1.0, None, {}, changes=True).answer == "confirm"
    assert answer(rules(confirm=[small], otherwise="never"), "pay") == "forbidden"


def test_an_argument_that_is_missing_counts_against_the_action() -> None:
    assert answer(rules(never=[OUTSIDE]), "send_email", recipient="eve@evil.com") == "forbidden"
    assert answer(rules(allow=[INSIDE]), "send_email", recipient="eve@evil.com") == "confirm"
    assert rules(never=[OUTSIDE]).may("send_email").answer == "forbidden"


@pytest.mark.parametrize(
    ("amount", "allowed"),
    [
        (99, True),
        ("99", True),
        (100, False),
        (1e9, False),
        ("1e9", False),
        ("all", False),
        (float("nan"), False),
        (None, False),
        (True, False),
        ([5, 500], False),
    ],
)
def test_numbers_are_compared_also_if_they_are_written_as_text(amount: Any, allowed: bool) -> None:
    small, large = {"pay": {"amount": {"below": 100}}}, {"pay": {"amount": {"above": 99.5}}}
    assert (answer(rules(allow=[small]), "pay", amount=amount) == "allowed") is allowed
    assert (answer(rules(never=[large], allow=["pay"]), "pay", amount=amount) == "allowed") is allowed


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/data/a.txt", True),
        ("/data/../etc/passwd", False),
        ("/data/..", False),
        ("/data/a..b", True),
        ("/DATA/a", False),
    ],
)
def test_a_permitted_folder_cannot_be_left(path: str, allowed: bool) -> None:
    assert bool(rules(allow=[{"write": {"path": {"matches": "/data/*"}}}], otherwise="never").may(
        "write", arguments={"path": path}
    )) is allowed  # fmt: skip


def test_another_spelling_does_not_pass_a_rule_that_forbids_and_is_not_covered_by_one_that_allows() -> None:
    never = rules(never=[{"pay": {"to": {"one_of": ["eve"]}}}], allow=["pay"])
    assert answer(never, "pay", to="ＥＶＥ") == "forbidden"
    assert answer(rules(allow=[{"pay": {"to": {"one_of": ["ann"]}}}]), "pay", to="ＡＮＮ") == "confirm"


def test_calls_are_counted_by_what_the_rule_covers() -> None:
    few = rules(allow=[{"send_email": {"to": {"matches": "*@example.org"}, "at_most": 2}}])
    inside, outside = ("send_email", {"to": "a@example.org"}), ("send_email", {"to": "a@evil.com"})
    assert answer(few, "send_email", to="b@example.org", taken=[inside, outside]) == "allowed"
    assert answer(few, "send_email", to="b@example.org", taken=[inside, inside]) == "confirm"
    many = rules(never=[{"send_*": {"more_than": 1}}], allow=["send_email"])
    assert answer(many, "send_email", taken=[]) == "allowed"
    assert answer(many, "send_email", taken=[inside]) == "forbidden"


@pytest.mark.parametrize(
    ("otherwise", "changing", "reading"),
    [
        (None, "confirm", "allowed"),
        ("allow", "allowed", "allowed"),
        ("confirm", "confirm", "confirm"),
        ("never", "forbidden", "forbidden"),
        ("prefer_confirm", "confirm", "confirm"),
    ],
)
def test_what_no_rule_names_is_decided_by_otherwise(otherwise: Any, changing: str, reading: str) -> None:
    of = Rules(otherwise=otherwise)
    assert (of.may("x", changes=True).answer, of.may("x").answer) == (changing, reading)
    assert of.may("x", 0.9, changes=True).answer == ("allowed" if otherwise == "prefer_confirm" else changing)


def test_a_rule_with_a_condition_is_narrower_than_the_rule_without() -> None:
    assert rules(never=["send_email"]).loosened_by(rules(never=[OUTSIDE]))
    assert rules(never=[OUTSIDE]).loosened_by(rules(never=["send_email"])) == []
    assert rules(allow=[INSIDE]).loosened_by(rules(allow=["send_email"]))
    assert rules(allow=["send_email"]).loosened_by(rules(allow=[INSIDE])) == []
    large, larger = ({"pay": {"usd": {"above": usd}}} for usd in (10, 20))
    assert rules(never=[large]).loosened_by(rules(never=[larger]))
    assert rules(never=[larger]).loosened_by(rules(never=[large])) == []


@pytest.mark.parametrize("added", [{"allow": ["pay"]}, {"prefer_confirm": ["pay"]}, {"otherwise": "allow"}])
def test_what_permits_more_than_no_rules_do_loosens_them(added: dict[str, Any]) -> None:
    empty, free = Playbook.from_document({"rules": {}}), Playbook.from_document({"rules": added})
    assert empty.loosened_by(free)


def test_what_only_one_side_permits_is_not_permitted_by_both() -> None:
    both = rules(allow=["pay", "mail"]).tighten(rules(allow=["mail"]))
    assert both.allow == ("mail",)
    assert rules(otherwise="never", allow=["mail"]).tighten(rules(confirm=["pay"])).never == ("pay",)


@pytest.mark.parametrize("name", ["pаy", "рау", "p\u200bay", "pay\u0335", "p\u2060ay", "ᴘay", "pay\ufe0f", "pa\u3164y"])
def test_a_name_that_looks_like_another_is_refused_whatever_the_rules_say(name: str) -> None:
    assert Rules(otherwise="allow", allow=("*",)).may(name).answer == "forbidden"


@pytest.mark.parametrize("name", ["отправить", "löschen", "send_邮件", "γράψε", "fs.read-file", "größe"])
def test_a_name_in_any_script_is_fine(name: str) -> None:
    assert not disguise(name)


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    """With a regular expression this took minutes."""
    assert not matches("*a" * 30 + "b", "a" * 5000)
    assert matches("*a" * 30 + "*", "a" * 5000)


def test_rules_without_new_fields_keep_their_digest() -> None:
    old = {"rules": {"never": ["pay", "wipe_*"], "confirm": ["mail"], "prefer_confirm": ["bulk"], "confirm_below": 0.6}}
    assert Playbook.from_document(old).digest == "b2:fdaa52628b09ee24e21e7d9b9c00adf0a7d6cb119d4a9efbd997fd4fc60a0ce6"


def test_a_rule_comes_back_as_it_was_written() -> None:
    written = {
        "rules": {"never": ["pay", OUTSIDE, {"pay": {"usd": {"above": 10}, "more_than": 2}}], "otherwise": "never"}
    }
    playbook = Playbook.from_document(written)
    assert playbook.content() == written
    assert Playbook.from_document(playbook.document()).digest == playbook.digest


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (
            {"mail": {"to": {"nto_matches": "x"}}},
            r"rules\.never\[0\]\.mail\.to\.nto_matches: .*Did you mean not_matches",
        ),
        ({"mail": {"to": {}}}, r"rules\.never\[0\]\.mail\.to: .*at least one of: matches"),
        ({"mail": {"usd": {"above": "ten"}}}, r"rules\.never\[0\]\.mail\.usd\.above: .*expected a number"),
        ({"mail": {}, "pay": {}}, r"rules\.never\[0\]"),
        ({"mail": {"at_most": 3}}, "expected more_than in a rule under never"),
        (3, r"rules\.never\[0\]"),
    ],
)
def test_mistakes_in_conditions_are_told_with_their_place(rule: Any, told: str) -> None:
    with pytest.raises(PlaybookError, match=told):
        Playbook.from_document({"rules": {"never": [rule]}})
