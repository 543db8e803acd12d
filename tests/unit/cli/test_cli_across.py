"""seedbed evaluate --across, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import BETTER, SORTER, Seedbed, keeps_promise, tasks, write

WHY = ("--because", "test")


@pytest.fixture
def corpora(space: Path, seedbed: Seedbed) -> Path:
    """A base that is always wrong, one for shops that is right, one for mail that still is the base; kept tasks."""
    write(space, shop__jsonl=tasks(12), mail__jsonl=tasks(8).replace("item", "letter"))
    for command in (
        ("playbook", "name", "main", "sorter.yaml", *WHY),
        ("playbook", "specialise", "main", "shop/sort", *WHY),
        ("playbook", "specialise", "main", "mail/sort", *WHY),
        ("playbook", "derive", "main", "--set", f"steps.label.prompt={BETTER}", "--branch", "corpora/shop/sort", *WHY),
        ("dataset", "add", "shop.jsonl", "--name", "shop/sort"),
        ("dataset", "add", "mail.jsonl", "--name", "mail/sort"),
    ):
        done = seedbed(*command)
        assert done.code == 0, done.err
    return space


def gains(document: Any, kind: str) -> dict[tuple[str, str], tuple[float, int]]:
    return {(each["name"], each["corpus"]): (each["mean"], each["tasks"]) for each in document[kind]}


@pytest.mark.usefixtures("corpora")
def test_specialised_and_base_stand_side_by_side_on_all_corpora(seedbed: Seedbed) -> None:
    done = seedbed("evaluate", "--across", "sort", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "evaluate", form="JSON with --across")
    scores = {(each["name"], each["corpus"]): each["mean"] for each in done.json["scores"]}
    assert scores["branches/main", "shop"] == scores["corpora/mail/sort", "mail"] == 0.0
    assert scores["corpora/shop/sort", "shop"] == scores["corpora/shop/sort", "mail"] == 1.0
    assert gains(done.json, "effects") == {
        ("corpora/mail/sort", "mail"): (0.0, 8),
        ("corpora/shop/sort", "shop"): (1.0, 12),
    }
    assert gains(done.json, "transfer")["corpora/shop/sort", "mail"] == (1.0, 8)


@pytest.mark.usefixtures("corpora")
def test_what_is_known_is_not_paid_again(seedbed: Seedbed) -> None:
    first = seedbed("evaluate", "--across", "sort", "--json").json
    # The base and the one that still is the base share their cells.
    assert sum(each["cost_usd"] for each in first["scores"] if each["name"] == "corpora/mail/sort") == 0
    assert sum(each["cost_usd"] for each in first["scores"]) > 0
    runs = len(seedbed("runs", "list", "--limit", "1000", "--json").json["runs"])
    assert runs == 2 * 20
    again = seedbed("evaluate", "--across", "sort", "--json").json
    assert sum(each["cost_usd"] for each in again["scores"]) == 0
    assert len(seedbed("runs", "list", "--limit", "1000", "--json").json["runs"]) == runs


@pytest.mark.usefixtures("corpora")
def test_people_see_scores_gains_and_which_corpus_is_hard(seedbed: Seedbed) -> None:
    shown = seedbed("evaluate", "--across", "sort").out
    assert "gain over branches/main" in shown
    assert "+1.000 [" in shown
    assert "the same *" in shown
    assert "branches/main, hardest first: mail, shop" in shown
    assert "To prove one, run: seedbed compare" in " ".join(shown.split())


@pytest.mark.usefixtures("corpora")
def test_some_of_them_and_tasks_from_files_can_be_named(seedbed: Seedbed) -> None:
    done = seedbed("evaluate", "--across", "sort", "shop/sort", "shop=shop.jsonl", "new=mail.jsonl", "--json")
    assert done.json["corpora"] == ["new", "shop"]
    assert {each["name"] for each in done.json["scores"]} == {"branches/main", "corpora/shop/sort"}


@pytest.mark.usefixtures("corpora")
def test_several_bases_are_named_in_a_column_of_their_own(seedbed: Seedbed) -> None:
    seedbed("playbook", "branch", "other", "main", *WHY)
    seedbed("playbook", "specialise", "other", "post/sort", *WHY)
    done = seedbed("evaluate", "--across", "sort", "post=mail.jsonl")
    assert "gain over the base" in done.out
    assert "branches/other, hardest first" in done.out


def test_tasks_that_it_is_shown_do_not_count_for_it(corpora: Path, seedbed: Seedbed) -> None:
    demo = '{inputs: {text: "I love item 0"}, output: good}'
    write(corpora, shown__yaml=f"{SORTER.replace('Message: {text}', BETTER)}demos:\n  label: [{demo}]\n")
    seedbed("playbook", "name", "corpora/shop/sort", "shown.yaml", *WHY)
    done = seedbed("evaluate", "--across", "sort", "--json")
    [effect] = [each for each in done.json["effects"] if each["corpus"] == "shop"]
    assert (effect["seen"], effect["tasks"]) == (1, 11)
    assert "corpora/shop/sort has seen 1 of 12 tasks of shop" in seedbed("evaluate", "--across", "sort").out


@pytest.mark.parametrize("ending", ["md", "html", "csv", "json"])
def test_it_can_be_written_to_a_file(ending: str, corpora: Path, seedbed: Seedbed) -> None:
    done = seedbed("evaluate", "--across", "sort", "-o", f"report.{ending}")
    assert done.code == 0
    text = (corpora / f"report.{ending}").read_text()
    assert "corpora/shop/sort" in text
    if ending == "json":
        assert json.loads(text)["corpora"] == ["mail", "shop"]


@pytest.mark.usefixtures("corpora")
def test_money_that_does_not_last_is_told(seedbed: Seedbed) -> None:
    done = seedbed("evaluate", "--across", "sort", "--max-cost", "0.1")
    assert done.code == 2
    assert "Budget exhausted: " in done.err
    assert "Run again with a higher --max-cost." in done.err


@pytest.mark.usefixtures("corpora")
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--across", "qa"), 1, "Known kinds of task: sort"),
        (("--across", "sort", "shop/qa"), 1, "no specialised playbook named"),
        (("--across", "sort", "--suite", "."), 64, "expected none with --suite"),
        (("--across", "sort", "--front"), 64, "expected none with --front"),
        (("--across", "sort", "--on", "mail.jsonl"), 64, "expected none with --on"),
        (("--across", "sort", "=mail.jsonl"), 64, "expected name=value"),
        (("--across", "sort", "--metric", "luck"), 64, "--metric"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], code: int, told: str, seedbed: Seedbed) -> None:
    done = seedbed("evaluate", *arguments)
    assert done.code == code
    assert told in " ".join(done.err.split())


@pytest.mark.usefixtures("corpora")
def test_a_corpus_without_tasks_is_told_with_what_to_do(seedbed: Seedbed) -> None:
    seedbed("playbook", "specialise", "main", "law/sort", *WHY)
    done = seedbed("evaluate", "--across", "sort")
    assert done.code == 1
    assert "seedbed dataset add FILE --name law/sort, or add law=FILE" in " ".join(done.err.split())


@pytest.mark.usefixtures("corpora")
def test_a_base_that_is_gone_is_told_before_anything_is_paid(seedbed: Seedbed) -> None:
    seedbed("playbook", "archive", "main", *WHY)
    done = seedbed("evaluate", "--across", "sort")
    assert (done.code, "--onto BASE" in done.err) == (1, True)
    assert seedbed("runs", "list", "--json").json["runs"] == []
