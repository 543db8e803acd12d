"""Specialised playbooks: they inherit a base, follow it without losing an edit of either side, and can go back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from playbook_samples import random_edit, random_playbook

from seedbed.errors import MergeClash, NotFound, PlaybookError, RefMoved
from seedbed.playbooks.genes import flatten, with_genes
from seedbed.playbooks.library import Library
from seedbed.playbooks.merging import manual, mean, ours, theirs
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.specialised import all_specialised, back_to_base, find, rebase, specialise
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Ref

BASE = Playbook.from_document(
    {
        "roles": {"reader": {"system": "Answer in one word.", "model": "fast", "temperature": 0.5}},
        "parameters": {"caution": {"value": 0.5, "low": 0, "high": 1}},
        "rules": {"never": ["pay"], "confirm": ["send_mail"]},
    }
)
SYSTEM, CAUTION, WARMTH = "roles.reader.system", "parameters.caution", "roles.reader.temperature"
LAW = "corpora/law/qa"


@pytest.fixture
def library() -> Library:
    """With a base called main, and one playbook that inherits it."""
    library = Library(MemoryStore(), "ann")
    library.name("main", library.keep(BASE, because="first"), because="first")
    specialise(library, "law", "qa", "main", because="lawyers ask otherwise")
    return library


def edit(library: Library, name: str, **values: Any) -> str:
    """Move a name to a child of where it stands."""
    paths = {"system": SYSTEM, "caution": CAUTION, "warmth": WARMTH}
    changes = {paths[each]: value for each, value in values.items()}
    digest = library.derive(library.find(name), changes, because="edited")
    library.name(name, digest, because="edited")
    return digest


# Beginning


def test_it_begins_where_its_base_stands_and_goes_its_own_way(library: Library) -> None:
    assert library.get(LAW) == BASE
    own = edit(library, LAW, caution=0.9)
    found = find(library, "law/qa")
    assert (found.playbook, found.base, found.inherited) == (own, "branches/main", BASE.digest)
    assert (found.corpus, found.task, found.behind) == ("law", "qa", False)
    assert library.get("main") == BASE


def test_corpora_do_not_touch_each_other(library: Library) -> None:
    specialise(library, "mail", "qa", "main", because="post")
    edit(library, LAW, caution=0.9)
    assert library.get("corpora/mail/qa") == BASE
    back_to_base(library, "mail/qa", because="no need")
    assert library.get(LAW).parameter("caution") == 0.9


def test_beginning_it_again_changes_nothing(library: Library) -> None:
    own = edit(library, LAW, caution=0.9)
    moves = len(list(library.history(LAW)))
    assert specialise(library, "law", "qa", "branches/main", because="again").playbook == own
    assert len(list(library.history(LAW))) == moves


def test_another_base_is_not_taken_by_the_way(library: Library) -> None:
    library.branch("other", BASE.digest, because="another")
    with pytest.raises(PlaybookError, match="--onto branches/other"):
        specialise(library, "law", "qa", "other", because="instead")


def test_whoever_was_interrupted_before_the_base_was_remembered_begins_again(library: Library) -> None:
    library.store.move("corpora/mail/qa", BASE.digest, expected=None, because="interrupted", by="ann")
    edit(library, "main", caution=0.7)
    found = specialise(library, "mail", "qa", "main", because="again")
    assert (found.playbook, found.inherited, found.behind) == (BASE.digest, BASE.digest, True)


def test_what_was_named_by_hand_keeps_all_that_differs_from_a_base_of_another_family(library: Library) -> None:
    stranger = Playbook.from_document({"roles": {"reader": {"system": "Quote the law.", "model": "fast"}}})
    library.name("corpora/tax/qa", library.keep(stranger, because="by hand"), because="by hand")
    specialise(library, "tax", "qa", "main", because="so that it follows")
    edit(library, "main", caution=0.9)
    with pytest.raises(MergeClash, match=r"parameters\.caution"):  # one removed it, the other changed it
        rebase(library, "tax/qa")
    assert rebase(library, "tax/qa", resolvers=[ours]).after.playbook == library.find("corpora/tax/qa")
    assert library.get("corpora/tax/qa").roles["reader"].system == "Quote the law."


@pytest.mark.parametrize("name", ["law", "corpora/law", "law/qa/deep", "law/", "/qa", "law/q a", ""])
def test_a_name_is_a_corpus_and_a_kind_of_task(name: str, library: Library) -> None:
    with pytest.raises(PlaybookError):
        find(library, name)


def test_a_base_is_a_name_that_can_move_on(library: Library) -> None:
    with pytest.raises(PlaybookError, match="a name that can move on"):
        specialise(library, "mail", "qa", BASE.digest, because="a digest never moves")
    with pytest.raises(PlaybookError, match="itself"):
        specialise(library, "law", "qa", LAW, because="round and round")
    with pytest.raises(NotFound, match="branches/main"):
        specialise(library, "mail", "qa", "mian", because="a slip")


def test_a_channel_can_be_a_base_and_what_it_serves_is_inherited(library: Library) -> None:
    stable = {"stable": BASE.digest, "canary": edit(library, "main", caution=0.9)}
    library.store.move("channels/production", stable, expected=None, because="served", by="ann")
    assert specialise(library, "mail", "qa", "production", because="as served").playbook == BASE.digest


def test_without_one_of_its_own_a_corpus_gets_the_base(library: Library) -> None:
    own = edit(library, LAW, caution=0.9)
    assert library.specialised("law", "qa", base="main") == own
    assert library.specialised("mail", "qa", base="main") == BASE.digest
    with pytest.raises(NotFound):
        library.specialised("mail", "qa", base="nothing")


# Rebasing


def test_what_each_side_changed_is_in_the_result(library: Library) -> None:
    own = edit(library, LAW, caution=0.9)
    new = edit(library, "main", system="Answer in one short word.")
    assert find(library, LAW).behind
    done = rebase(library, LAW)
    result = library.get(LAW)
    assert (result.parameter("caution"), result.roles["reader"].system) == (0.9, "Answer in one short word.")
    assert set(library.entry(done.after.playbook).parents) == {own, new}
    assert (done.after.inherited, done.after.behind, done.settled) == (new, False, ())
    assert next(library.history(LAW)).body["because"] == "rebased onto branches/main"


def test_a_base_that_has_not_moved_moves_nothing(library: Library) -> None:
    edit(library, LAW, caution=0.9)
    edit(library, "main", warmth=0.1)
    rebase(library, LAW)
    moves = len(list(library.history(LAW)))
    assert rebase(library, LAW).after == find(library, LAW)
    assert len(list(library.history(LAW))) == moves


def test_the_next_rebase_counts_from_the_last_one(library: Library) -> None:
    edit(library, LAW, caution=0.9)
    for warmth in (0.1, 0.2, 0.3):
        edit(library, "main", warmth=warmth)
        rebase(library, LAW)
    assert library.get(LAW).roles["reader"].temperature == 0.3
    edit(library, LAW, warmth=0.8)  # from 0.3, which is the base's: no clash
    rebase(library, LAW)
    assert library.get(LAW).roles["reader"].temperature == 0.8


def test_without_edits_of_its_own_it_follows_its_base_everywhere(library: Library) -> None:
    looser = Playbook.from_document({**BASE.content(), "rules": {"never": ["pay"]}})
    library.name("main", library.keep(looser, because="mail is fine"), because="mail is fine")
    assert rebase(library, LAW).after.playbook == looser.digest


def test_a_clash_tells_both_sides_and_moves_nothing(library: Library) -> None:
    own = edit(library, LAW, caution=0.9, warmth=0.1)
    edit(library, "main", caution=0.7, warmth=0.2)
    with pytest.raises(MergeClash) as clash:
        rebase(library, LAW)
    told = {problem.path: problem.found for problem in clash.value.problems}
    assert told == {CAUTION: "ours 0.9, theirs 0.7", WARMTH: "ours 0.1, theirs 0.2"}
    assert library.find(LAW) == own
    assert find(library, LAW).inherited == BASE.digest


def test_clashes_are_settled_by_path_first_and_then_all_alike(library: Library) -> None:
    edit(library, LAW, caution=0.9, warmth=0.1, system="Ours.")
    edit(library, "main", caution=0.7, warmth=0.2, system="Theirs.")
    by_path = {CAUTION: manual({CAUTION: 0.3}), SYSTEM: theirs}
    done = rebase(library, LAW, by_path=by_path, resolvers=[mean, ours])
    result = library.get(LAW)
    assert (result.parameter("caution"), result.roles["reader"].system) == (0.3, "Theirs.")
    assert result.roles["reader"].temperature == pytest.approx(0.15)
    assert {clash.path for clash in done.settled} == {CAUTION, SYSTEM, WARMTH}


def test_a_choice_for_what_does_not_clash_is_refused_and_nothing_moves(library: Library) -> None:
    own = edit(library, LAW, caution=0.9)
    with pytest.raises(PlaybookError, match="no clash"):
        rebase(library, LAW, by_path={WARMTH: theirs})
    edit(library, "main", caution=0.7)
    with pytest.raises(PlaybookError, match=rf"{WARMTH}: found no clash; expected one of: {CAUTION}"):
        rebase(library, LAW, by_path={WARMTH: theirs, CAUTION: ours})
    assert library.find(LAW) == own


def test_a_clash_that_was_settled_does_not_come_back(library: Library) -> None:
    own = edit(library, LAW, caution=0.9)
    edit(library, "main", caution=0.7)
    assert rebase(library, LAW, resolvers=[ours]).after.playbook == own
    assert rebase(library, LAW).settled == ()
    edit(library, "main", warmth=0.1)
    assert rebase(library, LAW).settled == ()
    assert library.get(LAW).parameter("caution") == 0.9


def test_a_rule_that_the_base_loosened_stays_and_that_is_told(library: Library) -> None:
    edit(library, LAW, caution=0.9)
    looser = Playbook.from_document({**BASE.content(), "rules": {"never": ["pay"]}})
    library.name("main", library.keep(looser, because="mail is fine"), because="mail is fine")
    done = rebase(library, LAW)
    assert library.get(LAW).rules == BASE.rules
    assert [(each.path, each.before, each.after) for each in done.stricter] == [("rules.confirm", None, ["send_mail"])]


def test_another_base_is_inherited_from_now_on(library: Library) -> None:
    edit(library, LAW, caution=0.9)
    library.branch("other", library.derive(BASE.digest, {WARMTH: 0.1}, because="colder"), because="another")
    done = rebase(library, LAW, onto="other")
    assert (done.after.base, done.after.inherited) == ("branches/other", library.find("other"))
    assert (library.get(LAW).parameter("caution"), library.get(LAW).roles["reader"].temperature) == (0.9, 0.1)
    edit(library, "main", warmth=0.7)
    assert not find(library, LAW).behind


def test_a_base_that_is_gone_is_told_with_the_way_out(library: Library) -> None:
    library.branch("other", BASE.digest, because="another")
    library.close("main", "archived", because="over")
    assert find(library, LAW).current is None
    for attempt in (lambda: rebase(library, LAW), lambda: back_to_base(library, LAW, because="back")):
        with pytest.raises(NotFound, match="--onto BASE"):
            attempt()
    assert rebase(library, LAW, onto="other").after.base == "branches/other"


class Overtaken(MemoryStore):
    """A store in which somebody else does something just after a ref was read."""

    meanwhile: Callable[[], object] | None = None

    def ref(self, name: str) -> Ref | None:
        found = super().ref(name)
        if name == LAW and (meanwhile := self.meanwhile):
            self.meanwhile = None
            meanwhile()
        return found


@pytest.mark.parametrize("command", ["rebase", "base"])
def test_an_edit_made_meanwhile_is_not_overwritten(command: str) -> None:
    store = Overtaken()
    library = Library(store, "ann")
    library.name("main", library.keep(BASE, because="first"), because="first")
    specialise(library, "law", "qa", "main", because="lawyers")
    edit(library, LAW, caution=0.9)
    edit(library, "main", warmth=0.1)
    store.meanwhile = lambda: edit(library, LAW, system="Be quick.")
    with pytest.raises(RefMoved):
        rebase(library, LAW) if command == "rebase" else back_to_base(library, LAW, because="back")
    assert library.get(LAW).roles["reader"].system == "Be quick."
    assert find(library, LAW).behind  # it is not said to hold what it does not


def test_the_later_of_two_rebases_counts_whichever_is_remembered_last() -> None:
    """One rebases and is held up before it says so; another rebases onto a newer base meanwhile."""

    class HeldUp(MemoryStore):
        meanwhile: Callable[[], object] | None = None

        def append(self, facts: Any) -> int:
            batch = list(facts)
            if (meanwhile := self.meanwhile) and any(fact.kind == "specialisation" for fact in batch):
                self.meanwhile = None
                meanwhile()
            return super().append(batch)

    store = HeldUp()
    library = Library(store, "ann")
    library.name("main", library.keep(BASE, because="first"), because="first")
    specialise(library, "law", "qa", "main", because="lawyers")
    edit(library, LAW, caution=0.9)
    edit(library, "main", warmth=0.1)
    newest: list[str] = []

    def quicker() -> None:
        newest.append(edit(library, "main", system="Answer briefly."))
        rebase(library, LAW)

    store.meanwhile = quicker
    rebase(library, LAW)
    assert find(library, LAW).inherited == newest[0]
    assert library.get(LAW).roles["reader"].system == "Answer briefly."


def test_a_rebase_that_is_cut_off_before_the_base_is_remembered_is_only_done_again() -> None:
    class CutOff(MemoryStore):
        now = False

        def append(self, facts: Any) -> int:
            batch = list(facts)
            if self.now and any(fact.kind == "specialisation" for fact in batch):
                raise OSError("the power went off")
            return super().append(batch)

    store = CutOff()
    library = Library(store, "ann")
    library.name("main", library.keep(BASE, because="first"), because="first")
    specialise(library, "law", "qa", "main", because="lawyers")
    edit(library, LAW, caution=0.9)
    edit(library, "main", warmth=0.1)
    store.now = True
    with pytest.raises(OSError, match="power"):
        rebase(library, LAW)
    store.now = False
    cut_off = library.find(LAW)
    assert find(library, LAW).behind
    assert rebase(library, LAW).after.playbook == cut_off
    assert not find(library, LAW).behind
    assert (library.get(LAW).parameter("caution"), library.get(LAW).roles["reader"].temperature) == (0.9, 0.1)


# Back


def test_back_to_base_is_where_the_base_stands_now_and_history_stays(library: Library) -> None:
    own = edit(library, LAW, caution=0.9)
    new = edit(library, "main", warmth=0.1)
    done = back_to_base(library, LAW, because="it was no better")
    assert (done.before.playbook, done.after.playbook, done.after.inherited) == (own, new, new)
    assert next(library.history(LAW)).body["from"] == own
    moves = len(list(library.history(LAW)))
    back_to_base(library, LAW, because="again")
    assert len(list(library.history(LAW))) == moves


def test_one_that_is_put_back_where_it_stood_inherits_what_it_inherited_there(library: Library) -> None:
    own = edit(library, LAW, caution=0.9)
    edit(library, "main", warmth=0.1)
    back_to_base(library, LAW, because="it was no better")
    library.name(LAW, own, because="it was better after all")
    assert (find(library, LAW).inherited, find(library, LAW).behind) == (BASE.digest, True)
    rebase(library, LAW)
    assert (library.get(LAW).parameter("caution"), library.get(LAW).roles["reader"].temperature) == (0.9, 0.1)


# All of them


def test_the_list_has_those_with_a_base_by_name_and_kind_of_task(library: Library) -> None:
    for corpus, task in (("mail", "qa"), ("law", "summary")):
        specialise(library, corpus, task, "main", because="more")
    library.name("corpora/tax/qa", BASE.digest, because="by hand, without a base")
    names = ["corpora/law/qa", "corpora/law/summary", "corpora/mail/qa"]
    assert [each.name for each in all_specialised(library)] == names
    assert [each.name for each in all_specialised(library, "qa")] == ["corpora/law/qa", "corpora/mail/qa"]
    with pytest.raises(PlaybookError, match="specialise BASE tax/qa"):
        find(library, "tax/qa")


# Nothing is lost


def within(path: str, places: set[str]) -> bool:
    return any(path == place or path.startswith(f"{place}.") for place in places)


def threshold_paths(*sides: Playbook) -> set[str]:
    return {f"parameters.{side.threshold_parameter}" for side in sides if side.threshold_parameter}


@pytest.mark.parametrize("settle", ["not", "ours", "theirs"])
def test_in_random_rebases_every_edit_of_either_side_is_taken_or_told(settle: str) -> None:
    resolvers = {"not": [], "ours": [ours], "theirs": [theirs]}[settle]
    rng = random.Random(settle)
    taken = told = stricter = 0
    for _ in range(200):
        library = Library(MemoryStore(), "ann")
        base = random_playbook(rng)
        library.name("main", library.keep(base, because="base"), because="base")
        specialise(library, "law", "qa", "main", because="begin")
        own, new = random_edit(base, rng), random_edit(base, rng)
        for name, playbook in ((LAW, own), ("main", new)):
            library.name(name, library.keep(playbook, because="edit", parents=[base.digest]), because="edit")
        try:
            done = rebase(library, LAW, resolvers=resolvers)
        except MergeClash:
            assert library.find(LAW) == own.digest, "a rebase that fails moves nothing"
            told += 1
            continue
        was, now = flatten(base), flatten(library.get(LAW))
        settled, kept = {clash.path for clash in done.settled}, {each.path for each in done.stricter}
        protection = {"rules", "locked"} | threshold_paths(base, own, new)
        assert all(within(path, protection) for path in kept), "only protection may differ without a clash"
        for side in (own, new) if own != base else (new,):
            edits = flatten(side)
            for path in {**was, **edits}:
                if edits.get(path) != was.get(path):
                    assert now.get(path) == edits.get(path) or within(path, settled) or path in kept, path
                    taken += 1
        stricter += bool(kept)
        assert not own.loosened_by(library.get(LAW)) or own == base
    assert taken > 200
    assert stricter > 10
    assert told > (50 if settle == "not" else 0)


def test_everything_that_happens_to_it_is_a_fact_of_the_store(library: Library) -> None:
    edit(library, LAW, caution=0.9)
    edit(library, "main", warmth=0.1)
    rebase(library, LAW)
    back_to_base(library, LAW, because="back")
    facts = [fact.body for fact in library.store.facts(Query(kind="specialisation", subject=LAW))]
    assert [body["base"] for body in facts] == ["branches/main"] * 3
    assert [body["inherited"] for body in facts] == [BASE.digest, library.find("main"), library.find("main")]
    assert with_genes(BASE, {WARMTH: 0.1}).digest == facts[-1]["playbook"]
