"""Strategies, modes and prompt profiles: in unchanged, out equal, and edits in the right places."""

from __future__ import annotations

import copy
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed import documents
from seedbed.errors import PlaybookError
from seedbed.playbooks.formats import FORMATS, Import, Note, export, import_document, load_foreign, recognise
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query

EXAMPLES = Path(__file__).parents[3] / "examples" / "formats"
DOCUMENTS = sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".yaml", ".json"))


def document(name: str) -> dict[str, Any]:
    return copy.deepcopy(documents.read(EXAMPLES / name, PlaybookError).value)


def example(name: str) -> Import:
    return load_foreign(EXAMPLES / name)


def back(found: Import, playbook: Playbook | None = None, refs: tuple[str, ...] = ()) -> dict[str, Any]:
    return export(playbook or found.playbook, found.format, found.facts, refs)


def through_a_store(found: Import) -> tuple[Playbook, list[Note]]:
    """The playbook and the facts as they come back from where everything is kept."""
    store = MemoryStore()
    digest = store.put("playbook", found.playbook.content())
    at = datetime(2026, 1, 1, tzinfo=UTC)
    store.append(
        Fact(kind=note.kind, key=note.key, subject=digest, at=at, by="tester", body=note.body) for note in found.facts
    )
    kinds = ("change", "score", "parent", "import")
    facts = [fact for kind in kinds for fact in store.facts(Query(kind=kind, subject=digest))]
    assert len(facts) == len(found.facts)
    return Playbook.from_document(store.get(digest)), [Note(fact.kind, fact.key, fact.body) for fact in facts]


def refused(document: object, source: Path | str = "") -> str:
    with pytest.raises(PlaybookError) as told:
        import_document(document, source)
    return str(told.value)


def edited(playbook: Playbook, data: st.DataObject) -> Playbook:
    """The playbook with some of its genes changed at random."""
    changes: dict[str, Any] = {}
    for path, gene in sorted(genes(playbook).items()):
        if not path.startswith("demos.") and data.draw(st.booleans(), label=path):
            changes[path] = data.draw(
                {
                    "text": WORDS,
                    "choice": st.sampled_from(["fast", "strong"]),
                    "number": st.integers(0, 100).map(lambda percent: percent / 100),
                    "integer": st.integers(1, 9),
                }[gene.kind]
            )
            if gene.kind == "number" and gene.low is not None:
                changes[path] = max(changes[path], gene.low)  # a threshold only rises
    return with_genes(playbook, changes)


def values(playbook: Playbook) -> dict[str, Any]:
    return {path: gene.value for path, gene in genes(playbook).items()} | {"rules": playbook.rules}


# Documents at random

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip
EXTRAS = st.dictionaries(st.sampled_from(["note", "owner", "x-team", "created_at"]), JSON, max_size=2)
WORDS = st.text("abcé日 .,\n<>{}0", min_size=1, max_size=30).filter(lambda text: text.strip())
NAMES = st.text("abcdefgh", min_size=1, max_size=8)
VERSIONS = st.tuples(*[st.integers(0, 30)] * 3).map(lambda parts: ".".join(map(str, parts)))


def optional(required: dict[str, Any], **others: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Documents with all of the required keys, some of the others, and keys nobody knows."""
    known = st.fixed_dictionaries(required, optional=others)
    return st.tuples(EXTRAS, known).map(lambda both: {**both[0], **both[1]})


NUMBERS = st.floats(0, 1) | st.integers(-5, 500) | st.floats(-1e6, 1e6)
CHANGES = optional({"parameter": NAMES}, **{"from": JSON, "to": JSON, "reason": WORDS})
CONSTRAINTS = ["must_confirm_before", "never_execute", "prefer_confirm_for"]
ACTIONS = st.none() | st.lists(NAMES, max_size=3)
STRATEGIES = optional(
    {
        "metadata": optional(
            {"name": WORDS.filter(lambda text: any(map(str.isalnum, text))), "version": VERSIONS},
            parent_version=st.none() | VERSIONS,
        ),
        "parameters": st.dictionaries(NAMES | st.just("user_confirmation"), NUMBERS, max_size=5),
        "constraints": optional({}, must_confirm_before=ACTIONS, never_execute=ACTIONS, prefer_confirm_for=ACTIONS),
        "evolution_metadata": optional(
            {},
            max_parameter_delta=st.none() | st.floats(0, 1),
            cooldown_period_days=st.none() | st.integers(0, 30),
            requires_human_review=st.none() | st.booleans(),
            branch_type=st.sampled_from(["production", "experimental", "archived"]),
        ),
    },
    change_log=st.none()
    | st.lists(optional({"version": VERSIONS}, date=NAMES, changes=st.lists(CHANGES, max_size=3)), max_size=3),
)


def says_something(strategy: dict[str, Any]) -> bool:
    return bool(strategy["parameters"] or any(strategy["constraints"].get(name) for name in CONSTRAINTS))


VARIABLES = ["TASK", "CYCLE"]


@st.composite
def turns(draw: st.DrawFn, number: int, earlier: list[int]) -> dict[str, Any]:
    """A turn that may use the turns before it."""
    used = draw(st.lists(st.sampled_from(earlier), max_size=3)) if earlier else []
    marks = [f"{{turn_{n}}}" for n in used] + [f"{{turn_{n}_participant}}" for n in used]
    pieces = st.sampled_from(["{topic}", "<TASK>", "{{topic}}", "<CYCLE>", " and ", '{"a": 1}', *marks])
    template = "".join(draw(st.lists(pieces, max_size=5)))
    return draw(
        optional(
            {"role": st.sampled_from(["critic", "Devil's advocate", "3rd", "meta-analysis"])},
            participant=st.sampled_from(["claude", "grok"]),
            grok_model=st.sampled_from(["grok-a", "grok-b"]),
            model=st.none() | st.just("large"),
            role_instruction=st.sampled_from(["Be fair.", "", "About <TASK>."]),
            template=st.just(template),
            context_from=st.just(sorted(set(used))),
            requires=st.lists(st.sampled_from(["reasoning", "analysis"]), max_size=2),
            prefer=st.none() | st.just("grok"),
            temperature=st.none() | st.integers(0, 2) | st.floats(0, 2),
            max_tokens=st.none() | st.integers(1, 900),
        )
    )


@st.composite
def modes(draw: st.DrawFn) -> dict[str, Any]:
    structure = draw(st.sampled_from(["sequential", "parallel", "mixed", "phased", None]))
    count = draw(st.integers(1, 6))
    split = draw(st.integers(0, count))  # of a phased mode: turns up to here run together
    prompts = {}
    for n in range(1, count + 1):
        earlier = list(range(1, n))
        if structure == "parallel" or (structure == "phased" and n <= split):
            earlier = []
        prompts[f"turn_{n}"] = draw(turns(n, earlier))
    mode: dict[str, Any] = {"name": draw(NAMES), "prompts": prompts, **draw(EXTRAS)}
    if structure == "phased":
        first, rest = list(range(1, split + 1)), list(range(split + 1, count + 1))
        mode |= {"structure": "mixed", "phases": [{"type": "parallel", "turns": first}, {"turns": rest}]}
    elif structure:
        mode["structure"] = structure
    if draw(st.booleans()):
        mode["turns"] = count + draw(st.integers(0, 3))
    if draw(st.booleans()):
        mode["metadata"] = {"template_variables": VARIABLES, **draw(EXTRAS)}
    return mode


ROLE_PROMPTS = optional(
    {"system_prompt": st.sampled_from(["Answer.", "", "Find the flaw."])},
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(1, 4000),
    model=st.none() | st.just("large"),
)
ROLES = st.dictionaries(st.sampled_from(["worker", "reviewer", "orchestrator", "summarizer"]), ROLE_PROMPTS, min_size=1)
UUIDS = st.uuids().map(str)
PLACED = {
    "flat": lambda roles: roles,
    "role_prompts": lambda roles: {"role_prompts": roles},
    "profile": lambda roles: {"profile": roles},
}
PROFILES = st.tuples(
    optional(
        {"profile_id": UUIDS},
        parent_profile_id=st.none() | UUIDS,
        corpus_id=NAMES,
        task_type=NAMES,
        name=NAMES,
        version=VERSIONS | st.integers(0, 9) | st.just("1.0"),
        scores=st.none() | st.dictionaries(NAMES, st.none() | st.floats(0, 1), max_size=3),
        performance=st.dictionaries(NAMES, JSON, max_size=3),
        metadata=st.dictionaries(NAMES, JSON, max_size=2),
        num_workers=st.integers(1, 9),
    ),
    ROLES,
    st.sampled_from(sorted(PLACED)),
).map(lambda parts: {**parts[0], **PLACED[parts[2]](parts[1])})
ANY = {"strategy": STRATEGIES.filter(says_something), "mode": modes(), "profile": PROFILES}


# Everything comes back


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_example_comes_back_equal_to_the_letter(path: Path) -> None:
    assert json.dumps(back(load_foreign(path))) == json.dumps(document(path.name))


@pytest.mark.parametrize("name", sorted(FORMATS))
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_document_is_recognised_and_comes_back_equal_even_from_a_store(name: str, data: st.DataObject) -> None:
    given_document = data.draw(ANY[name])
    before = copy.deepcopy(given_document)
    assert recognise(given_document) == name
    found = import_document(given_document)
    assert back(found) == before
    assert back(found, refs=tuple(found.refs)) == before
    playbook, notes = through_a_store(found)
    assert export(playbook, name, notes) == before
    assert given_document == before


@pytest.mark.parametrize("name", sorted(FORMATS))
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_edits_after_import_are_in_the_export(name: str, data: st.DataObject) -> None:
    found = import_document(data.draw(ANY[name]))
    playbook = edited(found.playbook, data)
    assert values(import_document(back(found, playbook)).playbook) == values(playbook)


@given(parent=modes(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_mode_that_extends_another_comes_back_equal_without_the_other(parent: dict[str, Any], data: Any) -> None:
    names = sorted(parent["prompts"])
    child = {
        "name": "child",
        "extends": "parent",
        "overrides": {data.draw(st.sampled_from(names)): {"template": "Now {topic}.", "context_from": []}},
        "additional_turns": {"turn_9": {"role": "closing", "template": "Close.", "context_from": [1]}},
    }
    if "turns" in parent:
        child["turns"] = 9
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "parent.json").write_text(json.dumps(parent))
        Path(folder, "child.json").write_text(json.dumps(child))
        found = load_foreign(Path(folder, "child.json"))
    playbook, notes = through_a_store(found)
    assert export(playbook, "mode", notes) == child
    steps = {step.name: step for step in found.playbook.all_steps()}
    assert steps.keys() == {*names, "turn_9"}
    assert steps[next(iter(child["overrides"]))].prompt == "Now {topic}."


# Strategies


def test_a_strategy_gives_parameters_rules_names_facts_and_protection() -> None:
    found = example("parcel-desk.yaml")
    playbook = found.playbook
    assert playbook.parameter("refund_readiness") == 0.35
    bounds = {name: (each.low, each.high) for name, each in playbook.parameters.items()}
    assert bounds["refund_readiness"] == (0, 1)
    assert bounds["words_per_answer"] == (None, None)
    assert playbook.may("read_out_full_card_number", 1.0).answer == "forbidden"
    assert playbook.may("issue_refund", 1.0).answer == "confirm"
    assert playbook.may("cancel_order", 0.69).answer == "confirm"
    assert playbook.may("cancel_order", 0.7).answer == "allowed"
    assert found.refs == dict.fromkeys(["versions/parcel-desk/1.3.0", "branches/parcel-desk"], playbook.digest)
    assert found.protection == {
        "require": [{"max_change": {"number": 0.05}}, {"cooldown": "3 days"}, {"review": {"when": "always"}}]
    }
    change = {note.key: note.body for note in found.facts if note.kind == "change"}
    assert list(change) == [
        "parcel-desk/1.3.0/parameters.apology_warmth",
        "parcel-desk/1.3.0/parameters.refund_readiness",
        "parcel-desk/1.2.0/parameters.words_per_answer",
    ]
    assert change["parcel-desk/1.2.0/parameters.words_per_answer"] == {
        "version": "1.2.0",
        "date": "2026-04-20T08:00:00Z",
        "path": "parameters.words_per_answer",
        "from": 80,
        "to": 60,
        "reason": "Nobody read the end",
    }
    assert [note.body for note in found.facts if note.kind == "parent"] == [{"ref": "versions/parcel-desk/1.2.0"}]


def test_a_strategy_exports_exactly_what_changed() -> None:
    found = example("parcel-desk.yaml")
    content = with_genes(found.playbook, {"parameters.refund_readiness": 0.4}).content()
    content["rules"]["never"].append("promise_delivery_times")
    del content["parameters"]["apology_warmth"]
    expected = document("parcel-desk.yaml")
    expected["parameters"]["refund_readiness"] = 0.4
    expected["constraints"]["never_execute"].append("promise_delivery_times")
    del expected["parameters"]["apology_warmth"]
    assert back(found, Playbook.from_document(content)) == expected


def test_a_new_version_names_the_old_one_as_its_parent_and_new_changes_join_the_log() -> None:
    found = example("parcel-desk.yaml")
    body = {"version": "1.4.0", "date": "2026-06-01", "path": "parameters.refund_readiness", "from": 0.35, "to": 0.4}
    note = Note("change", "parcel-desk/1.4.0/parameters.refund_readiness", {**body, "reason": "Fewer calls"})
    playbook = with_genes(found.playbook, {"parameters.refund_readiness": 0.4})
    exported = export(playbook, "strategy", [*found.facts, note], ["versions/parcel-desk/1.4.0"])
    assert exported["metadata"]["version"] == "1.4.0"
    assert exported["metadata"]["parent_version"] == "1.3.0"
    change = {"parameter": "refund_readiness", "from": 0.35, "to": 0.4, "reason": "Fewer calls"}
    assert exported["change_log"] == [
        {"version": "1.4.0", "date": "2026-06-01", "changes": [change]},
        *document("parcel-desk.yaml")["change_log"],
    ]


def test_a_change_told_twice_is_two_facts() -> None:
    strategy = document("parcel-desk.yaml")
    strategy["change_log"][0]["changes"] *= 2
    keys = [note.key for note in import_document(strategy).facts if note.kind == "change"]
    assert len(keys) == len(set(keys)) == 5


def test_limits_that_are_not_set_protect_nothing() -> None:
    strategy = document("parcel-desk.yaml")
    strategy["evolution_metadata"] = {"cooldown_period_days": 0, "requires_human_review": False}
    assert import_document(strategy).protection == {}
    strategy["evolution_metadata"] = {"max_parameter_delta": 0, "cooldown_period_days": 1}
    assert import_document(strategy).protection == {"require": [{"max_change": {"number": 0}}, {"cooldown": "1 day"}]}


@pytest.mark.parametrize("section", ["metadata", "parameters", "constraints", "evolution_metadata"])
def test_a_strategy_without_a_section_is_refused_by_its_name(section: str) -> None:
    strategy = document("parcel-desk.yaml")
    del strategy[section]
    assert refused(strategy).startswith(f"{section}: found nothing; expected a value. ")


def test_everything_wrong_with_a_strategy_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "metadata: {name: desk, version: 2.0}\n"
        "parameters:\n  speed: fast\n"
        "constraints: {never_execute: everything}\n"
        "evolution_metadata: {max_parameter_delta: -1}\n"
        "change_log:\n- {version: one}\n- {version: 1.0.0, changes: [{from: 1}]}\n"
    )
    with pytest.raises(PlaybookError) as told:
        load_foreign(path)
    found = [(problem.path.replace(str(path), "file"), problem.found) for problem in told.value.problems]
    assert found == [
        ("metadata.version (file:1)", "2.0"),
        ("parameters.speed (file:3)", '"fast"'),
        ("constraints.never_execute (file:4)", '"everything"'),
        ("evolution_metadata.max_parameter_delta (file:5)", "-1"),
        ("change_log[0].version (file:7)", '"one"'),
        ("change_log[1].changes[0].parameter (file:8)", "nothing"),
    ]
    assert all(problem.expected and problem.remedy for problem in told.value.problems)


def test_a_strategy_that_says_nothing_is_refused() -> None:
    strategy = document("parcel-desk.yaml") | {"parameters": {}, "constraints": {"never_execute": []}}
    assert "parameters: found none, and no constraints; expected at least one of them" in refused(strategy)


@pytest.mark.parametrize("version", ["2", "2.0", "v2.0.0", "02.0.0", "2.0.0 ", ""])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    strategy = document("parcel-desk.yaml")
    strategy["metadata"]["version"] = version
    assert 'expected a version such as "2.0.0"' in refused(strategy)


# Modes


def test_turns_become_steps_and_speakers_become_roles() -> None:
    playbook = example("code-review.json").playbook
    steps = {step.name: step for step in playbook.all_steps()}
    assert [len(group) for group in playbook.plan] == [1, 1, 1]
    assert steps["turn_1"].role == steps["turn_3"].role == "first_reader"
    assert playbook.roles["first_reader"].system.endswith("House style: {STYLE_GUIDE}")
    assert playbook.roles["first_reader"].model == "claude"
    second = playbook.roles["second_reader"]
    assert (second.model, second.needs, second.prefer) == ("grok-small", ("reasoning",), "grok")
    assert steps["turn_2"].prompt.startswith("{turn_1.model} read {PATCH} and said:\n{turn_1}")
    assert playbook.needed_inputs == {"PATCH", "STYLE_GUIDE"}


def test_a_turn_sees_its_context_once() -> None:
    steps = {step.name: step for step in example("code-review.json").playbook.all_steps()}
    assert steps["turn_2"].sees == ()  # its template quotes turn_1
    assert steps["turn_3"].sees == ("turn_1", "turn_2")


def test_a_prompt_that_comes_to_quote_what_its_turn_sees_needs_no_second_look() -> None:
    found = example("code-review.json")
    exported = back(found, with_genes(found.playbook, {"steps.turn_3.prompt": "Is {turn_2} right?"}))
    assert exported["prompts"]["turn_3"]["template"] == "Is {turn_2} right?"
    assert exported["prompts"]["turn_3"]["context_from"] == [1, 2]
    assert list(import_document(exported).playbook.all_steps())[2].sees == ("turn_1",)


def test_a_text_that_would_mean_something_else_in_a_mode_is_refused() -> None:
    found = example("code-review.json")
    literally = with_genes(found.playbook, {"steps.turn_1.prompt": "Write <PATCH> in angle brackets."})
    with pytest.raises(PlaybookError, match="what a mode can say") as told:
        back(found, literally)
    assert [problem.path for problem in told.value.problems] == ["steps.turn_1.prompt"]


def test_the_same_role_with_other_settings_is_another_speaker() -> None:
    mode = document("code-review.json")
    mode["prompts"]["turn_3"]["role_instruction"] = "You are tired."
    found = import_document(mode)
    assert [step.role for step in found.playbook.all_steps()] == ["first_reader", "second_reader", "first_reader_2"]
    alike = with_genes(found.playbook, {"roles.first_reader_2.system": found.playbook.roles["first_reader"].system})
    exported = back(found, alike)
    assert [turn["role"] for turn in exported["prompts"].values()] == [
        "first reader",
        "second reader",
        "first_reader_2",
    ]
    assert import_document(exported).playbook == alike


def test_parallel_and_mixed_structures_become_steps_that_run_together() -> None:
    assert [len(group) for group in example("name-jury.json").playbook.plan] == [3]
    assert [len(group) for group in example("launch-plan.json").playbook.plan] == [2, 1, 1]
    mode = document("launch-plan.json")
    del mode["phases"]
    assert import_document(mode).playbook == example("launch-plan.json").playbook


def test_phases_may_hold_their_turns_themselves() -> None:
    mode = document("launch-plan.json")
    prompts = mode.pop("prompts")
    mode["phases"] = [
        {"type": "parallel", "prompts": {name: prompts[name] for name in ("turn_1", "turn_2")}},
        {"type": "dynamic", "instructions": "made up at run time"},
        {"type": "sequential", "prompts": {name: prompts[name] for name in ("turn_3", "turn_4")}},
    ]
    found = import_document(mode)
    assert found.playbook == example("launch-plan.json").playbook
    exported = back(found, with_genes(found.playbook, {"steps.turn_2.prompt": "Who would sue over {topic}?"}))
    mode["phases"][0]["prompts"]["turn_2"] |= {"template": "Who would sue over {topic}?", "context_from": []}
    assert exported == mode


def test_more_turns_may_be_announced_than_written_and_fewer_be_played() -> None:
    mode = document("code-review.json")
    mode["turns"] = 8
    assert len(list(import_document(mode).playbook.all_steps())) == 3
    mode["turns"] = 2
    found = import_document(mode)
    assert [step.name for step in found.playbook.all_steps()] == ["turn_1", "turn_2"]
    assert back(found) == mode


def test_a_turn_that_says_nothing_answers_to_all_before_it() -> None:
    mode = {"name": "bare", "turns": 3, "prompts": {f"turn_{n}": {"role": "voice"} for n in (1, 2, 3)}}
    first, second, third = import_document(mode).playbook.all_steps()
    assert (first.prompt, second.sees, third.sees) == ("{topic}", ("turn_1",), ("turn_1", "turn_2"))


def test_what_a_mode_inherits_is_changed_by_overrides() -> None:
    found = example("code-review-thorough.json")
    playbook = with_genes(
        found.playbook,
        {
            "steps.turn_1.prompt": "What can fail in {PATCH}?",
            "steps.turn_2.prompt": "Anything else in {PATCH}?",
            "steps.turn_4.prompt": "Write a test for {turn_1}",
            "roles.tester.model": "strong",
        },
    )
    expected = document("code-review-thorough.json")
    expected["overrides"]["turn_1"] = {"template": "What can fail in <PATCH>?", "context_from": []}
    expected["overrides"]["turn_2"] = {"template": "Anything else in <PATCH>?", "context_from": []}
    expected["additional_turns"]["turn_4"] |= {
        "template": "Write a test for {turn_1}",
        "context_from": [1],
        "model": "strong",
    }
    assert back(found, playbook) == expected


def test_added_removed_and_regrouped_steps_are_written_as_turns() -> None:
    found = example("code-review.json")
    content = found.playbook.content()
    first, second, third = content["steps"]
    check = {"name": "check", "role": "second_reader", "prompt": "Check {PATCH} again."}
    content["steps"] = [{"together": [first, check]}, {**third, "sees": ["turn_1", "check"]}]
    assert second["name"] == "turn_2"
    exported = back(found, Playbook.from_document(content))
    assert list(exported["prompts"]) == ["turn_1", "turn_3", "turn_4"]
    assert exported["structure"] == "mixed"
    assert exported["phases"] == [{"type": "parallel", "turns": [1, 4]}, {"type": "sequential", "turns": [3]}]
    assert exported["prompts"]["turn_3"]["context_from"] == [1, 4]
    assert exported["turns"] == 4
    again = import_document(exported).playbook
    assert [[step.name for step in group] for group in again.plan] == [["turn_1", "turn_4"], ["turn_3"]]


def test_a_parent_that_is_missing_or_extends_its_child_is_refused(tmp_path: Path) -> None:
    for name, parent in {"a": "b", "b": "c", "c": "a", "lost": "nowhere"}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "extends": parent, "turns": 1}))
    for name, expected in {"a": "a circle: a.json → b.json → c.json → a.json", "lost": "nowhere.json"}.items():
        with pytest.raises(PlaybookError, match="extends") as told:
            load_foreign(tmp_path / f"{name}.json")
        assert expected in str(told.value)
    assert "expected a document from a file" in refused({"name": "a", "extends": "b"})


def test_a_problem_of_a_parent_is_told_with_the_parents_file(tmp_path: Path) -> None:
    (tmp_path / "parent.yaml").write_text("name: parent\nprompts: {turn_1: {template: 3}}\n")
    (tmp_path / "child.yaml").write_text("name: child\nextends: parent\n")
    with pytest.raises(PlaybookError) as told:
        load_foreign(tmp_path / "child.yaml")
    assert told.value.source.endswith("parent.yaml")
    assert "prompts.turn_1.template: found 3; expected text" in str(told.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"structure": "random"}, 'structure: found "random"; expected sequential, parallel or mixed'),
        ({"turns": "five"}, 'turns: found "five"; expected a whole number'),
        ({"prompts": {}}, "prompts: found no turns; expected at least one"),
        ({"prompts": {"1st": {"role": "x"}}}, 'prompts.1st: found "1st"; expected turn_1, turn_2 and so on'),
        ({"prompts": {"turn_1": {"context_from": [1.5]}}}, "context_from[0]: found 1.5; expected the number of a turn"),
        ({"prompts": {"turn_1": {"context_from": [1]}}}, "context_from: found turn_1; expected an earlier turn"),
        ({"prompts": {"turn_1": {"template": "{turn_1}"}}}, "(prompts.turn_1): found {turn_1}; expected an earlier"),
        ({"prompts": {"turn_1": {"requires": "wit"}}}, 'requires: found "wit"; expected a list'),
        ({"prompts": {"turn_1": {"temperature": 9}}}, "temperature (prompts.turn_1): found 9"),
        ({"overrides": {"turn_7": {}}}, "overrides.turn_7: found a turn to change that does not exist"),
        ({"additional_turns": {"turn_1": {}}}, "additional_turns.turn_1: found a turn that exists already"),
        ({"phases": [{"prompts": {"turn_1": {}}}]}, "phases[0].prompts.turn_1: found a turn that exists already"),
        ({"name": 3}, "name: found 3; expected text"),
    ],
)
def test_what_is_wrong_with_a_mode_is_told(change: dict[str, Any], told: str) -> None:
    assert told in refused({**document("name-jury.json"), **change})


# Profiles


def test_a_profile_gives_roles_names_and_facts() -> None:
    found = example("tenancy-qa.json")
    worker = found.playbook.roles["worker"]
    assert worker.system.startswith("Answer from the passages only")
    assert (worker.temperature, worker.max_tokens) == (0.2, 600)
    assert list(found.playbook.roles) == ["worker", "reviewer", "orchestrator", "summarizer"]
    assert found.playbook.parameter("max_debate_rounds") == 2
    assert set(found.refs) == {
        "profiles/6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11",
        "corpora/tenancy-law/qa",
        "branches/tenancy",
        "versions/tenancy/1.1.0",
    }
    scores = {note.body["metric"]: note.body["value"] for note in found.facts if note.kind == "score"}
    assert scores == {"f1": 0.71, "grounded": 0.94}
    parents = [note.body["ref"] for note in found.facts if note.kind == "parent"]
    assert parents == ["profiles/0b9a4a0e-3b52-4c61-8a07-2d1f5a9e7c42"]


def test_a_profile_exports_exactly_what_changed_and_new_scores() -> None:
    found = example("tenancy-qa.json")
    playbook = with_genes(found.playbook, {"roles.reviewer.system": "Be kind.", "parameters.max_debate_rounds": 3})
    content = playbook.content()
    del content["roles"]["summarizer"]
    content["roles"]["editor"] = {"system": "Shorten it.", "temperature": 0.1}
    score = Note("score", "later", {"metric": "f1", "value": 0.75})
    expected = document("tenancy-qa.json")
    expected["reviewer"]["system_prompt"] = "Be kind."
    expected["max_debate_rounds"] = 3
    del expected["summarizer"]
    expected["editor"] = {"system_prompt": "Shorten it.", "temperature": 0.1}
    expected["scores"]["f1"] = 0.75
    assert export(Playbook.from_document(content), "profile", [*found.facts, score]) == expected


def test_a_new_profile_names_the_old_one_as_its_parent() -> None:
    found = example("tenancy-qa.json")
    fresh = "11111111-2222-4333-8444-555555555555"
    exported = back(found, refs=(f"profiles/{fresh}", "corpora/leases/summary", "versions/leases/2.0.0"))
    assert exported["profile_id"] == fresh
    assert exported["parent_profile_id"] == "6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11"
    assert (exported["corpus_id"], exported["task_type"]) == ("leases", "summary")
    assert (exported["name"], exported["version"]) == ("leases", "2.0.0")


def test_a_profile_as_a_database_row_or_with_prompt_texts_is_read_too() -> None:
    row = {"id": "6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11", "base_profile_id": None, "corpus_id": "law"}
    row |= {"profile": {"worker": {"system_prompt": "Answer."}, "num_workers": 2}, "performance_stats": {"f1": 0.5}}
    found = import_document(row)
    assert found.playbook.roles["worker"].system == "Answer."
    assert found.playbook.parameter("num_workers") == 2
    assert "corpora/law/qa" in found.refs
    assert [note.body["value"] for note in found.facts if note.kind == "score"] == [0.5]
    texts = {"name": "base", "role_prompts": {"worker": {"role": "worker", "prompt_text": "Answer.", "version": "1.0"}}}
    found = import_document(texts)
    exported = back(found, with_genes(found.playbook, {"roles.worker.system": "Reply."}))
    assert exported["role_prompts"]["worker"] == {"role": "worker", "prompt_text": "Reply.", "version": "1.0"}


def test_everything_wrong_with_a_profile_is_told_at_once() -> None:
    profile = document("tenancy-qa.json") | {"profile_id": "seven", "scores": {"f1": "good"}, "consensus_threshold": 7}
    profile["worker"] |= {"temperature": 3, "max_tokens": 0}
    profile["reviewer"] = "Be critical."
    profile["summarizer"] = {"temperature": 0.5}
    with pytest.raises(PlaybookError) as told:
        import_document(profile)
    assert [problem.path for problem in told.value.problems] == [
        "profile_id",
        "scores.f1",
        "consensus_threshold",
        "worker.temperature",
        "worker.max_tokens",
        "reviewer",
        "summarizer",
    ]
    assert "document: found no role prompts" in refused({"profile_id": UUID, "corpus_id": "law"})


UUID = "6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11"


# Recognition, and playbooks born here


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_a_format_is_recognised_by_structure(path: Path) -> None:
    expected = {"parcel-desk.yaml": "strategy", "tenancy-qa.json": "profile"}.get(path.name, "mode")
    assert recognise(document(path.name)) == expected


@pytest.mark.parametrize(
    "foreign", [None, [], "text", {}, {"roles": {"writer": {"system": "Hi."}}}, {"parameters": {"a": 1}}, {"x": 1}]
)
def test_what_fits_no_format_is_refused_with_what_would(foreign: object) -> None:
    told = refused(foreign, "thing.yaml")
    assert told.startswith("thing.yaml: document: found ")
    assert "a strategy" in told
    assert "a mode" in told
    assert "a prompt profile" in told


def test_what_json_cannot_hold_is_refused() -> None:
    strategy = document("parcel-desk.yaml")
    strategy["metadata"]["created_at"] = datetime(2026, 1, 1, tzinfo=UTC)
    assert "metadata.created_at: found datetime" in refused(strategy)
    strategy["metadata"]["created_at"] = "\ud800"
    assert "lone surrogate" in refused(strategy)


def test_a_format_nobody_knows_is_refused() -> None:
    with pytest.raises(PlaybookError, match="one of: strategy, mode, profile"):
        export(Playbook(), "toml")


NATIVE = {
    "strategy": {
        "parameters": {"speed": 0.5, "user_confirmation": 0.7},
        "rules": {"never": ["pay"], "prefer_confirm": ["book"], "confirm_below": "user_confirmation"},
    },
    "mode": {
        "roles": {
            "proposer": {"model": "fast", "system": "Answer {audience}."},
            "critic": {"needs": ["reasoning"], "prefer": "strong", "temperature": 0.2, "max_tokens": 50},
        },
        "steps": [
            {"name": "answer", "role": "proposer", "prompt": "{question}"},
            {
                "together": [
                    {"name": "facts", "role": "critic", "prompt": "{answer.model} said {answer}"},
                    {"name": "logic", "role": "critic", "prompt": "Is {{answer}} logical?", "sees": ["answer"]},
                ]
            },
            {"name": "final", "role": "proposer", "sees": ["answer", "facts", "logic"]},
        ],
    },
    "profile": {
        "roles": {"worker": {"system": "Answer.", "model": "fast", "max_tokens": 90}, "judge": {"system": "Judge."}},
        "parameters": {"num_workers": {"value": 2, "low": 1, "whole": True}},
    },
}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_playbook_born_here_becomes_a_valid_document(name: str) -> None:
    playbook = Playbook.from_document(NATIVE[name])
    exported = export(playbook, name)
    assert recognise(exported) == name
    again = export(import_document(exported).playbook, name, import_document(exported).facts)
    assert again == exported


def test_a_native_dialogue_is_written_as_numbered_turns() -> None:
    exported = export(Playbook.from_document(NATIVE["mode"]), "mode", refs=["branches/debate"])
    assert (exported["name"], exported["structure"], exported["turns"]) == ("debate", "mixed", 4)
    assert exported["metadata"] == {"template_variables": ["audience", "question"]}
    assert exported["participants"] == ["fast"]
    assert exported["phases"] == [
        {"type": "sequential", "turns": [1]},
        {"type": "parallel", "turns": [2, 3]},
        {"type": "sequential", "turns": [4]},
    ]
    assert exported["prompts"]["turn_1"] == {
        "role": "proposer",
        "participant": "fast",
        "role_instruction": "Answer <audience>.",
        "template": "<question>",
        "context_from": [],
    }
    assert exported["prompts"]["turn_2"]["template"] == "{turn_1_participant} said {turn_1}"
    assert exported["prompts"]["turn_3"]["template"] == "Is {{answer}} logical?"
    assert exported["prompts"]["turn_4"]["context_from"] == [1, 2, 3]


def test_a_native_strategy_takes_its_names_from_refs() -> None:
    exported = export(Playbook.from_document(NATIVE["strategy"]), "strategy", refs=["versions/desk/0.2.0"])
    assert exported["metadata"] == {"name": "desk", "version": "0.2.0"}
    assert exported["parameters"] == {"speed": 0.5, "user_confirmation": 0.7}
    assert exported["constraints"]["never_execute"] == ["pay"]


@pytest.mark.parametrize(
    ("name", "unfit", "paths"),
    [
        ("strategy", {"roles": {"a": {"system": "Hi."}}, "rules": {"never": ["pay"]}}, ["roles.a.system"]),
        ("strategy", {"parameters": {"tone": "dry", "ok": 0.5}}, ["parameters.tone"]),
        ("strategy", {"parameters": {"n": {"value": 3, "high": 9}}}, ["parameters.n.high"]),
        ("strategy", {"rules": {"prefer_confirm": ["pay"], "confirm_below": 0.5}}, ["rules.confirm_below"]),
        ("mode", {"parameters": {"speed": 0.5}}, ["parameters.speed"]),
        ("profile", {"roles": {"a": {"system": "Hi.", "stop": ["."]}}}, ["roles.a.stop"]),
        ("profile", {"roles": {"a": {"system": "Hi."}}, "locked": ["roles.a"]}, ["locked"]),
        ("profile", {"parameters": {"speed": 0.5}}, ["parameters.speed"]),
    ],
)  # fmt: skip
def test_what_a_format_cannot_express_is_named(name: str, unfit: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(PlaybookError, match=f"what a {name} can say") as told:
        export(Playbook.from_document(unfit), name)
    assert [problem.path for problem in told.value.problems] == paths


def test_what_a_mode_cannot_express_is_named() -> None:
    content = copy.deepcopy(NATIVE["mode"])
    content["steps"][-1]["until"] = {"agreement": 0.9}
    content["demos"] = {"final": [{"inputs": {"question": "Why?"}, "output": "Because."}]}
    content["locked"] = ["steps.answer.prompt"]
    with pytest.raises(PlaybookError) as told:
        export(Playbook.from_document(content), "mode")
    assert {problem.path for problem in told.value.problems} == {
        "steps.turn_4.until.agreement",
        "demos.turn_4",
        "locked",
    }
