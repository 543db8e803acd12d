"""Genes: one flat mapping, typed and bounded, that nothing protected is part of."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playbook_samples import random_edit, random_playbook

from seedbed.errors import PlaybookError
from seedbed.playbooks.genes import (
    build,
    distance,
    edited_characters,
    flatten,
    genes,
    get,
    text_distance,
    with_genes,
)
from seedbed.playbooks.playbook import Playbook

DEBATE = Playbook.from_document(
    {
        "roles": {"proposer": {"model": "fast", "system": "Be brief.", "temperature": 0.5}, "critic": {"system": "x"}},
        "steps": [
            {"name": "answer", "role": "proposer", "prompt": "{question}"},
            {"name": "final", "role": "proposer", "sees": ["answer"], "until": {"agreement": 0.85}},
        ],
        "parameters": {
            "confirm_below": {"value": 0.6, "low": 0, "high": 1},
            "tries": {"value": 3, "low": 1, "high": 5, "whole": True},
            "tone": {"value": "warm", "options": ["warm", "dry"]},
            "motto": "Be kind.",
            "strict": True,
        },
        "rules": {"never": ["pay"]},
        "locked": ["roles.critic.*"],
    }
)
seeds = st.integers(0, 2**32)


def test_genes_have_kinds_and_bounds() -> None:
    found = {path: (gene.kind, gene.low, gene.high) for path, gene in genes(DEBATE).items()}
    assert found["roles.proposer.system"] == ("text", None, None)
    assert found["roles.proposer.model"][0] == "choice"
    assert found["roles.proposer.temperature"] == ("number", 0, 2)
    assert found["steps.final.until.agreement"] == ("number", 0, 1)
    assert found["steps.final.until.at_most"] == ("integer", 2, 50)  # one answer has none to agree with
    assert found["demos.final"][0] == "demos"
    assert found["parameters.confirm_below"] == ("number", 0, 1)
    assert found["parameters.tries"] == ("integer", 1, 5)
    assert found["parameters.tone"][0] == "choice"
    assert found["parameters.motto"][0] == "text"
    assert genes(DEBATE)["parameters.strict"].options == (False, True)


def test_how_many_rounds_there_are_may_be_all_that_a_playbook_may_say() -> None:
    steps = [{"name": "say", "role": "a", "prompt": "{q}", "until": {"says": "done", "at_most": 50}}]
    playbook = Playbook.from_document({"roles": {"a": {}}, "steps": steps})
    assert genes(playbook)["steps.say.until.at_most"].problem(50) is None
    assert get(with_genes(playbook, {"steps.say.until.at_most": 1}), "steps.say.until.at_most") == 1


def test_rounds_never_evolve_to_fewer_than_the_rules_take() -> None:
    until = {"any": [{"stable": 3, "rounds": 2}, {"says": "done"}], "at_most": 9}
    steps = [{"name": "say", "role": "a", "prompt": "{q}", "until": until}]
    playbook = Playbook.from_document({"roles": {"a": {}}, "steps": steps})
    gene = genes(playbook)["steps.say.until.at_most"]
    assert gene.low == 4
    with_genes(playbook, {gene.path: 4})
    with pytest.raises(PlaybookError, match="from 4 up to 50"):
        with_genes(playbook, {gene.path: 3})


def test_rules_structure_and_locked_paths_are_no_genes() -> None:
    assert not any(path.startswith(("rules", "locked", "program", "inputs")) for path in genes(DEBATE))
    assert "steps" not in genes(DEBATE)
    assert "roles.critic.system" not in genes(DEBATE)


def test_with_genes_returns_a_new_playbook_and_leaves_the_old_one() -> None:
    changed = with_genes(DEBATE, {"parameters.tries": 4, "roles.proposer.system": "Be long."})
    assert get(changed, "parameters.tries") == 4
    assert get(DEBATE, "parameters.tries") == 3
    assert changed.digest != DEBATE.digest
    assert with_genes(changed, {"parameters.tries": 3, "roles.proposer.system": "Be brief."}) == DEBATE


def test_demos_can_be_set_where_there_were_none() -> None:
    demo = {"inputs": {"question": "Why?"}, "output": "Because."}
    assert with_genes(DEBATE, {"demos.answer": [demo]}).demos["answer"][0].output == "Because."


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("parameters.confirm_below", 1.5, "a number from 0 up to 1"),
        ("parameters.confirm_below", True, "a number"),
        ("parameters.confirm_below", float("nan"), "a number"),
        ("parameters.tries", 2.5, "a whole number"),
        ("parameters.tone", "loud", 'one of "warm", "dry"'),
        ("roles.proposer.system", 3, "text"),
        ("roles.proposer.model", "", "a name"),
        ("demos.final", "x", "a list of demos"),
        ("roles.critic.system", "y", "a gene that is not locked"),
        ("rules.never", [], "Rules do not evolve"),
        ("rules", {}, "Rules do not evolve"),
        ("nonsense", 1, "no such gene"),
        ("steps.answer.prompt", "{final}", "an earlier step"),
    ],
)
def test_values_that_may_not_be_are_refused(path: str, value: Any, says: str) -> None:
    with pytest.raises(PlaybookError, match=says):
        with_genes(DEBATE, {path: value})


def test_all_refused_values_are_told_at_once() -> None:
    with pytest.raises(PlaybookError) as wrong:
        with_genes(DEBATE, {"parameters.tries": 9, "rules.never": [], "nonsense": 1})
    assert len(wrong.value.problems) == 3


@settings(deadline=None)
@given(seeds)
def test_leaves_put_together_give_the_playbook_back(seed: int) -> None:
    playbook = random_playbook(random.Random(seed))
    assert build(flatten(playbook)) == playbook


@settings(deadline=None)
@given(seeds)
def test_distance_is_a_symmetric_measure_between_0_and_1(seed: int) -> None:
    rng = random.Random(seed)
    one = random_playbook(rng)
    other = random_edit(one, rng)
    apart = distance(one, other)
    assert 0 <= apart <= 1
    assert distance(other, one) == pytest.approx(apart)
    assert distance(one, one) == 0


@given(st.text(max_size=60), st.text(max_size=60))
def test_text_measures_are_symmetric_and_zero_only_for_equal_texts(one: str, other: str) -> None:
    assert text_distance(one, other) == text_distance(other, one)
    assert edited_characters(one, other) == edited_characters(other, one)
    assert (edited_characters(one, other) == 0) is (one == other)
    assert 0 <= text_distance(one, other) <= 1


def test_farther_values_are_farther_apart() -> None:
    near, far = (with_genes(DEBATE, {"parameters.confirm_below": value}) for value in (0.65, 0.9))
    assert distance(DEBATE, near) < distance(DEBATE, far)


def test_the_length_of_a_gene_is_what_it_puts_into_prompts() -> None:
    shown = with_genes(DEBATE, {"demos.answer": [{"inputs": {"question": "Why?"}, "output": "So."}] * 2})
    lengths = {path: gene.length for path, gene in genes(shown).items() if gene.length}
    assert lengths == {"roles.proposer.system": 9, "steps.answer.prompt": 10, "demos.answer": 14, "parameters.motto": 8}
