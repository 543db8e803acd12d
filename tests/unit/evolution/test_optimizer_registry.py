"""Optimizers by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import PlaybookError, SettingsError
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.optimizers.portfolio import Portfolio
from seedbed.evolution.optimizers.registry import SearchInputs, make_optimizer, names, only_text
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.testing.optimizer import BANK, READ, START

MEANS = SearchInputs(START, instructions=BANK, gene="roles.writer.system", tasks=READ.tasks)
PLAIN = Playbook.from_document(
    {
        "roles": {"a": {"model": "m", "system": "Be kind."}},
        "steps": [{"name": "answer", "role": "a", "prompt": "{question}"}],
        "locked": ["steps"],
    }
)
NO_DEMOS = Playbook.from_document({**PLAIN.document(), "locked": ["steps", "demos"]})


def test_names_are_sorted_and_each_makes_the_one_it_names() -> None:
    assert names() == sorted(names())
    assert {"best_of", "nsga2", "portfolio", "reflection"} <= {*names()}
    for name in names():
        assert make_optimizer(name, replace(MEANS, reflector="deep")).identity["optimizer"] == name


def test_options_are_written_in_brackets() -> None:
    assert make_optimizer("best_of(brood=3)", MEANS).identity["brood"] == 3
    assert make_optimizer("best_of", MEANS).identity["brood"] == 8


def test_an_optimizer_object_is_taken_as_it_is() -> None:
    mine = BestOf([])
    assert make_optimizer(mine, MEANS) is mine


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (BestOf, r"found the class BestOf; expected an optimizer\. Make one first: BestOf\(\)"),
        (3, "found int; expected a name or an object with identity, begin, ask and tell"),
    ],
)
def test_what_is_no_optimizer_is_refused(value: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make_optimizer(value, MEANS)


def test_a_name_nearly_right_is_guessed() -> None:
    with pytest.raises(SettingsError, match=r"\"nsga\".*expected one of: .*portfolio.*Did you mean nsga2\?"):
        make_optimizer("nsga", MEANS)
    with pytest.raises(SettingsError, match="expected one of") as wrong:
        make_optimizer("qqqqqq", MEANS)
    assert "Did you mean" not in str(wrong.value)


@pytest.mark.parametrize("written", ["best_of(size=3)", "portfolio(brood=3)", "nsga2(colour='red')"])
def test_options_that_it_does_not_have_are_refused(written: str) -> None:
    with pytest.raises(SettingsError, match=r"expected options that it has\. Its options: "):
        make_optimizer(written, MEANS)


@pytest.mark.parametrize("written", ["best_of(", "best_of(3)", "best_of(brood=open('x'))"])
def test_what_cannot_be_read_is_refused(written: str) -> None:
    with pytest.raises(SettingsError, match="such as nsga2"):
        make_optimizer(written, MEANS)


def test_one_that_reads_transcripts_needs_a_model_for_that() -> None:
    with pytest.raises(SettingsError, match="--reflector"):
        make_optimizer("reflection", MEANS)
    assert "reflection" in make_optimizer("portfolio", replace(MEANS, reflector="deep")).identity["arms"]


def test_best_of_n_is_always_an_arm_of_the_portfolio_and_learns_nothing() -> None:
    found = make_optimizer("portfolio", MEANS)
    assert isinstance(found, Portfolio)
    assert isinstance(found.optimizers["best_of"], BestOf)
    proposed = make_optimizer("portfolio", replace(MEANS, reflector="deep"))
    assert isinstance(proposed, Portfolio)
    assert proposed.optimizers["best_of"].identity["from_start"] is True
    assert proposed.optimizers["reflection"].identity["from_start"] is False


@pytest.mark.parametrize(
    ("means", "arms"),
    [
        (MEANS, ["best_of", "bootstrap", "population"]),
        (replace(MEANS, tasks=()), ["best_of", "population"]),
        (replace(MEANS, instructions=()), ["best_of", "bootstrap", "population"]),
        (replace(MEANS, reflector="deep"), ["bank", "best_of", "bootstrap", "reflection"]),
        (replace(MEANS, reflector="deep", instructions=()), ["best_of", "bootstrap", "reflection"]),
        (SearchInputs(PLAIN, instructions=BANK, tasks=READ.tasks), ["best_of", "bootstrap", "population"]),
        (SearchInputs(NO_DEMOS, instructions=BANK, tasks=READ.tasks), ["best_of", "population"]),
    ],
)
def test_the_portfolio_has_an_arm_for_all_there_are_means_for(means: SearchInputs, arms: list[str]) -> None:
    assert sorted(make_optimizer("portfolio", means).identity["arms"]) == arms


def test_a_function_may_read_and_propose_instead_of_a_model() -> None:
    def propose(*asked: object) -> list[str]:
        return ["Be kind."]

    means = replace(MEANS, reflector=propose)
    assert "reflection" in make_optimizer("portfolio", means).identity["arms"]
    for name in ("reflection", "gepa"):
        identity = make_optimizer(name, means).identity
        assert identity["propose"].endswith("propose")
        assert "model" not in identity


def test_a_package_may_offer_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "garden.py").write_text(
        "from seedbed.evolution.optimizers.best_of import BestOf\n"
        "def weeds(means, *, rows=2):\n    return BestOf(means.candidates(), brood=rows)\n"
    )
    about = tmp_path / "garden-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: garden\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[seedbed.optimizers]\nweeds = garden:weeds\n")
    assert "weeds" not in names()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "weeds" in names()
    assert make_optimizer("weeds(rows=5)", MEANS).identity["brood"] == 5
    with pytest.raises(SettingsError, match="optimizer weeds"):
        make_optimizer("weeds(columns=5)", MEANS)


def test_candidates_are_the_start_with_each_text_of_the_bank() -> None:
    found = MEANS.candidates()
    assert [each.roles["writer"].system for each in found] == [*BANK]
    assert SearchInputs(START).candidates() == []


def test_with_worked_examples_the_start_comes_first_and_each_text_alone_and_with_them() -> None:
    found = SearchInputs(PLAIN, instructions=BANK, tasks=READ.tasks, demos=2).candidates()
    shown = [(each.roles["a"].system, len(genes(each)["demos.answer"].value)) for each in found]
    assert shown == [("Be kind.", 2), *((text, demos) for text in BANK for demos in (0, 2))]


def test_which_text_must_be_said_where_there_are_several_or_none() -> None:
    assert only_text(PLAIN) == "roles.a.system"
    two = Playbook.from_document({"roles": {"a": {"model": "m", "system": "x"}, "b": {"model": "m", "system": "y"}}})
    with pytest.raises(PlaybookError, match=r"found 2 texts.*roles\.a\.system.*--gene"):
        only_text(two)
    with pytest.raises(PlaybookError, match="found 0 texts"):
        only_text(Playbook.from_document({**PLAIN.document(), "locked": ["roles", "steps"]}))


def test_operators_keep_to_the_gene_that_was_named() -> None:
    texts = [way.name for way in MEANS.operators() if ".system" in way.name or ".prompt" in way.name]
    assert texts
    assert all("roles.writer.system" in name for name in texts)
