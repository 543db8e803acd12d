"""Documents written elsewhere, real and at random."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from seedbed import documents
from seedbed.errors import PlaybookError
from seedbed.playbooks.formats import Import, Note, export, import_document, load_foreign
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
            if gene.kind in ("number", "integer") and gene.low is not None:
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
            context_compression=st.sampled_from(["relevant_only", "none", None]),
        )
    )


@st.composite
def modes(draw: st.DrawFn, limited: bool = True) -> dict[str, Any]:
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
    if not limited:
        return mode
    limits = {"convergence_threshold": st.floats(0, 1), "context_compression": st.just("relevant_only")}
    return mode | draw(st.fixed_dictionaries({}, optional=limits | {"max_turns": st.none() | st.integers(1, 20)}))


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
        max_debate_rounds=st.none() | st.integers(1, 9),
        consensus_threshold=st.none() | st.floats(0, 1),
    ),
    ROLES,
    st.sampled_from(sorted(PLACED)),
).map(lambda parts: {**parts[0], **PLACED[parts[2]](parts[1])})
TEXTS = st.fixed_dictionaries({"text": WORDS})
ANY = {"text": TEXTS, "strategy": STRATEGIES.filter(says_something), "mode": modes(), "profile": PROFILES}

UUID = "6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11"

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
    "text": {"roles": {"writer": {"system": "Answer in one line."}}},
    "profile": {
        "roles": {"worker": {"system": "Answer.", "model": "fast", "max_tokens": 90}, "judge": {"system": "Judge."}},
        "parameters": {"num_workers": {"value": 2, "low": 1, "whole": True}},
    },
}
