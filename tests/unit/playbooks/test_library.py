"""The library: kept once, named with a reason, traced without circles."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.errors import MergeClash, NotFound, PlaybookError, RefMoved
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.library import Library, PlaybookFilter
from seedbed.playbooks.merging import mean
from seedbed.playbooks.playbook import Playbook, Role, Step
from seedbed.storage import open_store
from seedbed.storage.store import short

START = Playbook.from_document(
    {
        "roles": {"writer": {"system": "Answer briefly.", "model": "fast"}},
        "parameters": {"warmth": {"value": 0.5, "low": 0, "high": 1}, "depth": {"value": 0.5, "low": 0, "high": 1}},
        "rules": {"never": ["pay"]},
        "meta": {"description": "the start"},
    }
)


class Ticking:
    """A clock that moves one minute at each look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now


@pytest.fixture
def library() -> Library:
    return Library(open_store("memory:"), "anna", Ticking())


def test_keeping_twice_keeps_the_first_derivation(library: Library) -> None:
    root = library.keep(START, because="first")
    other = library.derive(root, {"parameters.warmth": 0.9}, because="warm")
    assert library.keep(START, because="again", parents=[other]) == root
    assert library.entry(root).parents == ()
    assert library.entry(root).because == "first"
    assert library.entry(root).meta == {"description": "the start"}


def test_a_parent_must_be_known_before_its_child(library: Library) -> None:
    with pytest.raises(NotFound, match="not in this store"):
        library.keep(START, because="x", parents=["b2:" + "0" * 64])


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_lineage_never_forms_a_circle(seed: int) -> None:
    rng = random.Random(seed)
    library = Library(open_store("memory:"), "anna")
    known = [library.keep(START, because="root")]
    for _ in range(25):
        values = {"parameters.warmth": rng.randint(0, 4) / 4, "parameters.depth": rng.randint(0, 2) / 2}
        child = Playbook.from_document(START.document())
        child = library.get(library.derive(rng.choice(known), values, because="step"))
        known.append(library.keep(child, because="again", parents=rng.sample(known, min(2, len(known)))))
    for digest in known:
        line = library.ancestry(digest)
        numbers = [entry.number for entry in line]
        assert line[0].digest == digest
        assert numbers == sorted(numbers, reverse=True)
        assert len(set(numbers)) == len(numbers)
        for entry in line:
            for parent in entry.parents:
                assert library.entry(parent).number < entry.number


def test_a_playbook_is_found_by_digest_beginning_branch_version_and_channel(library: Library) -> None:
    root = library.keep(START, because="first")
    library.branch("main", root, because="begin")
    library.version("mail", "1.0.0", "main", because="ready")
    library.store.move("channels/production", {"stable": root}, expected=None, because="x", by="anna")
    for name in (root, short(root), root[3:9], "main", "branches/main", "versions/mail/1.0.0", "production"):
        assert library.find(name) == root
    assert library.get("main") == START


def test_a_beginning_that_fits_several_digests_is_told(library: Library) -> None:
    root = library.keep(START, because="first")
    seen: dict[str, str] = {}
    for step in range(1, 3_000):
        digest = library.derive(root, {"parameters.warmth": step / 3_000}, because="x")
        if digest[3:7] in seen:
            with pytest.raises(NotFound, match="begins several digests"):
                library.find(digest[3:7])
            return
        seen[digest[3:7]] = digest
    pytest.fail("no two digests began alike")


def test_an_unknown_name_tells_the_known_ones(library: Library) -> None:
    library.branch("main", library.keep(START, because="first"), because="begin")
    with pytest.raises(NotFound, match="one of: branches/main"):
        library.find("nowhere")


def test_versions_never_move(library: Library) -> None:
    root = library.keep(START, because="first")
    other = library.derive(root, {"parameters.warmth": 0.9}, because="warm")
    library.version("mail", "1.0.0", root, because="ready")
    assert library.version("mail", "1.0.0", root, because="again").version == 1
    with pytest.raises(PlaybookError, match="choose a higher number"):
        library.version("mail", "1.0.0", other, because="oops")
    with pytest.raises(PlaybookError, match="semantic version"):
        library.version("mail", "one", root, because="oops")


def test_channels_and_versions_are_not_for_naming(library: Library) -> None:
    root = library.keep(START, because="first")
    for name in ("channels/production", "versions/mail/1.0.0", "datasets/mail", "a b", "../x", ""):
        with pytest.raises(PlaybookError):
            library.name(name, root, because="x")


def test_what_a_dataset_is_called_is_no_playbook(library: Library) -> None:
    tasks = library.store.put("dataset", {"tasks": []})
    library.store.move("datasets/mail", tasks, expected=None, because="kept", by="anna")
    library.branch("line", library.keep(START, because="first"), because="try")
    with pytest.raises(NotFound, match=r"no playbook named .datasets/mail.; expected one of: branches/line, critique"):
        library.find("datasets/mail")


def test_branch_states_follow_from_refs_and_facts(library: Library) -> None:
    root = library.keep(START, because="first")
    for name in ("one", "two", "three", "four"):
        library.branch(name, root, because="try")
    with pytest.raises(RefMoved):
        library.branch("one", root, because="again")
    library.name("two", library.derive(root, {"parameters.warmth": 0.9}, because="warm"), because="warm")
    library.merge("one", "two", because="good")
    library.close("three", "archived", because="no time")
    library.close("four", "failed", because="worse")
    states = {branch.name: branch.state for branch in library.branches()}
    assert states == {"one": "active", "two": "merged", "three": "archived", "four": "failed"}
    with pytest.raises(NotFound):
        library.close("three", "archived", because="again")
    library.branch("three", root, because="once more")
    assert {branch.name: branch.state for branch in library.branches()}["three"] == "active"


def test_merging_joins_two_lines_over_their_common_ancestor(library: Library) -> None:
    root = library.keep(START, because="first")
    middle = library.derive(root, {"roles.writer.system": "Answer very briefly."}, because="shorter")
    one = library.derive(middle, {"parameters.warmth": 0.7}, because="warm")
    other = library.derive(middle, {"parameters.depth": 0.9}, because="deep")
    assert library.common_ancestor(one, other) == middle
    digest, _ = library.merge(one, other, because="both")
    joined = library.get(digest)
    assert (joined.parameter("warmth"), joined.parameter("depth")) == (0.7, 0.9)
    assert set(library.entry(digest).parents) == {one, other}
    assert {entry.digest for entry in library.ancestry(digest)} == {digest, one, other, middle, root}
    assert {entry.digest for entry in library.children(middle)} == {one, other}


def test_a_clash_keeps_nothing(library: Library) -> None:
    root = library.keep(START, because="first")
    one = library.derive(root, {"parameters.warmth": 0.7}, because="warm")
    other = library.derive(root, {"parameters.warmth": 0.1}, because="cold")
    before = library.store.kinds()  # type: ignore[attr-defined]
    with pytest.raises(MergeClash):
        library.merge(one, other, because="both")
    assert library.store.kinds() == before  # type: ignore[attr-defined]
    digest, result = library.merge(one, other, because="both", resolvers=[mean])
    assert library.get(digest).parameter("warmth") == pytest.approx(0.4)
    assert [clash.path for clash in result.settled] == ["parameters.warmth"]


def test_playbooks_without_a_common_ancestor_do_not_merge(library: Library) -> None:
    one = library.keep(START, because="first")
    other = library.keep(Playbook.from_document({"parameters": {"x": 1}}), because="second")
    with pytest.raises(PlaybookError, match="no common ancestor"):
        library.merge(one, other, because="both")


@pytest.mark.parametrize("url", ["memory:", "sqlite"])
def test_search_by_each_thing_and_all_together(url: str, tmp_path: object) -> None:
    store = open_store(url if url == "memory:" else f"sqlite:///{tmp_path}/s.db")
    clock = Ticking()
    anna, bert = Library(store, "anna", clock), Library(store, "bert", clock)
    root = anna.keep(START, because="first")
    children = [
        (anna, bert)[n % 2].derive(
            root, {"parameters.warmth": n / 20, "roles.writer.system": f"Answer like {name}."}, because=f"step {n}"
        )
        for n, name in enumerate(["a sailor", "a poet", "the sea", "a poet at sea"] * 5)
    ]
    anna.tag(children[3], "nice")
    anna.tag(children[7], "nice", "odd")

    def found(**wanted: object) -> list[str]:
        return [entry.digest for entry in anna.search(PlaybookFilter(**wanted), limit=100).entries]  # type: ignore[arg-type]

    assert found() == [*reversed(children), root]
    assert found(text="poet") == [child for n, child in reversed(list(enumerate(children))) if n % 4 in (1, 3)]
    assert found(text="SEA poet") == [child for n, child in reversed(list(enumerate(children))) if n % 4 == 3]
    assert found(gene="parameters.warmth=0.5") == [children[10], root]
    assert found(gene="roles.writer.model=fast", by="bert") == children[1::2][::-1]
    assert found(tag="nice") == [children[7], children[3]]
    assert found(tag="nice", gene="parameters.warmth=0.15") == [children[3]]
    assert anna.tags(children[7]) == ["nice", "odd"]
    middle = anna.entry(children[10]).at
    assert found(since=middle) == children[10:][::-1]
    assert found(until=middle)[-1] == root
    with pytest.raises(PlaybookError, match="path=value"):
        anna.search(PlaybookFilter(gene="warmth"))
    store.close()  # type: ignore[attr-defined]


def test_pages_cover_everything_once(library: Library) -> None:
    root = library.keep(START, because="first")
    everything = [root] + [library.derive(root, {"parameters.warmth": n / 23}, because="x") for n in range(23)]
    seen: list[str] = []
    after = None
    while True:
        page = library.search(limit=5, after=after)
        seen += [entry.digest for entry in page.entries]
        after = page.after
        if after is None:
            break
    assert seen == everything[::-1]


def test_the_history_of_a_name_has_a_reason_and_an_author_for_each_move(library: Library) -> None:
    root = library.keep(START, because="first")
    library.branch("main", root, because="begin")
    library.name("main", library.derive(root, {"parameters.warmth": 0.9}, because="warm"), because="warmer")
    moves = list(library.history("branches/main"))
    assert [(move.body["because"], move.by) for move in moves] == [("warmer", "anna"), ("begin", "anna")]


@pytest.mark.parametrize("because", ["", "  "])
def test_nothing_is_kept_without_a_reason(library: Library, because: str) -> None:
    with pytest.raises(PlaybookError, match="why it is kept"):
        library.keep(Playbook.from_document({"roles": {"w": {"system": "s"}}}), because=because)


@pytest.mark.parametrize(
    "unread",
    [
        Playbook(),
        Playbook.model_construct(steps=(Step(name="draft", role="nobody", prompt="x"),)),
        Playbook.model_construct(roles={"9": Role(system="x")}),
    ],
)
def test_nothing_is_kept_that_could_not_be_read_again(library: Library, unread: Playbook) -> None:
    with pytest.raises(PlaybookError):
        library.keep(unread, because="try")
    assert library.search().entries == ()


@pytest.mark.parametrize("tag", ["", " ", "two\nlines"])
def test_a_tag_can_be_typed(library: Library, tag: str) -> None:
    digest = library.keep(Playbook.from_document({"roles": {"w": {"system": "s"}}}), because="try")
    with pytest.raises(PlaybookError, match="printable"):
        library.tag(digest, "fine", tag)
    assert library.tags(digest) == []


# Many at once


def test_many_are_kept_together_with_their_parents_and_only_the_new_ones_are_told(library: Library) -> None:
    root = library.keep(START, because="first")
    child = with_genes(START, {"parameters.warmth": 0.9})
    grandchild = with_genes(child, {"parameters.depth": 0.1})
    grown = [(child, (root,), "warmer"), (grandchild, (child.digest, root), "deeper"), (START, (), "again")]
    assert library.keep_all(grown, because="a search") == {child.digest, grandchild.digest}
    assert library.keep_all(grown, because="again") == set()
    assert library.get(grandchild.digest) == grandchild
    entry = library.entry(grandchild.digest)
    assert (entry.parents, entry.how, entry.because) == ((child.digest, root), "deeper", "a search")
    assert [each.digest for each in library.children(root)] == [child.digest, grandchild.digest]


def test_the_same_twice_at_once_is_kept_as_the_first(library: Library) -> None:
    root = library.keep(START, because="first")
    child = with_genes(START, {"parameters.warmth": 0.9})
    library.keep_all([(child, (root,), "one way"), (child, (), "another")], because="x")
    assert (library.entry(child.digest).how, library.entry(child.digest).parents) == ("one way", (root,))


def test_if_one_of_many_cannot_be_kept_none_is(library: Library) -> None:
    root = library.keep(START, because="first")
    child, other = (with_genes(START, {"parameters.warmth": warmth}) for warmth in (0.7, 0.9))
    with pytest.raises(NotFound, match="not in this store"):
        library.keep_all([(child, (root,), "fine"), (other, ("b2:" + "0" * 64,), "orphan")], because="x")
    with pytest.raises(NotFound, match="not in this store"):
        library.keep_all([(child, (other.digest,), "too early"), (other, (root,), "late")], because="x")
    with pytest.raises(PlaybookError, match="because"):
        library.keep_all([(child, (root,), "fine")], because=" ")
    assert library.children(root) == []
