"""seedbed search: past searches, told again from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from command_line import BANK, Seedbed, held, keeps_promise, promised, tasks, write
from search_samples import searched

from seedbed.evolution.evolve import SearchProgress
from seedbed.storage import open_store
from seedbed.storage.store import Store, short

EVOLVE = ("evolve", "sorter.yaml", "tasks.jsonl", "--bank", "bank.txt", "--budget", "200 runs", "--json")


@pytest.fixture
def mail(space: Path) -> Path:
    write(space, tasks__jsonl=tasks(40), bank__txt=BANK)
    return space


@pytest.fixture
def store(mail: Path) -> Iterator[Store]:
    with closing(open_store("sqlite:///seedbed.db")) as opened:
        yield opened


def test_without_a_search_it_says_so(mail: Path, seedbed: Seedbed) -> None:
    assert seedbed("search", "list").out == "No searches yet.\n"
    assert seedbed("search", "list", "--json").json == []


def test_searches_are_listed_with_what_they_found(mail: Path, prepared: Seedbed, seedbed: Seedbed) -> None:
    found = prepared(*EVOLVE).json
    (each,) = seedbed("search", "list", "--json").json
    assert ["a", "list", "of", *each] == list(promised("search", "list"))
    same = ("search", "start", "best", "improved", "score", "spent", "budget", "ended")
    assert [each[name] for name in same] == [found[name] for name in same]
    assert each["gain"] == found["confirmed"]["gain"]
    assert (each["by"], each["optimizer"], each["metric"]) == ("ann", "portfolio", "exact_match")
    out = seedbed("search", "list").out
    assert short(found["search"]) in out
    assert "+1.000 [+0.564, +1.000]" in out
    assert f"{found['spent']['runs']} runs" in out


def test_a_search_is_shown_as_it_was_told(mail: Path, prepared: Seedbed, seedbed: Seedbed) -> None:
    found = prepared(*EVOLVE).json
    before = held()
    again = seedbed("search", "show", short(found["search"]), "--json").json
    assert held() == before
    assert keeps_promise(again, "search", "show")
    told_later = {"branch", "begun", "by"}
    known_by_now = {"arms", "tried", "steps"}
    for name in found.keys() - told_later - known_by_now:
        assert again[name] == found[name], name
    same = ("playbook", "how", "parents", "score", "tasks")
    assert [[each[name] for name in same] for each in again["tried"]] == [
        [each[name] for name in same] for each in found["tried"]
    ]
    assert [(each["runs"], each["best"], each["score"]) for each in again["steps"]] == [
        (each["runs"], each["best"], each["score"]) for each in found["steps"]
    ]


def test_what_a_surrogate_skipped_is_told_and_told_again(mail: Path, seedbed: Seedbed) -> None:
    hopeless = "".join(
        f"What about {word} {number} {{text}}\n" for number in range(13) for word in ("it", "this", "that")
    )
    good = "".join(f"Good or bad, in {number} words? {{text}}\n" for number in range(4))
    write(mail, tasks__jsonl=tasks(28), bank__txt=f"{good}{hopeless}")
    plain = seedbed(*EVOLVE, "--optimizer", "best_of", "--budget", "2000 runs").json
    assert plain["skipped"] is None
    found = seedbed(*EVOLVE, "--optimizer", "best_of", "--budget", "2000 runs", "--surrogate").json
    assert found["best"] == plain["best"]
    assert found["spent"]["runs"] < plain["spent"]["runs"]
    assert found["skipped"]["candidates"] > 12
    assert found["search"] != plain["search"]
    again = seedbed("search", "show", short(found["search"]), "--json").json
    assert again["skipped"] == found["skipped"]
    assert (
        f"{found['skipped']['hopeless']} candidates seemed hopeless" in seedbed("search", "show", again["search"]).out
    )
    assert seedbed("evolve", "--resume", short(found["search"]), "--json").json["skipped"] == found["skipped"]


def test_its_report_can_be_written_again(mail: Path, seedbed: Seedbed) -> None:
    found = seedbed(*EVOLVE, "-o", "first.md").json
    done = seedbed("search", "show", short(found["search"]), "-o", "again.md")
    assert (done.code, done.out.splitlines()[-1]) == (0, "✓ wrote again.md")
    first, again = ((mail / name).read_text(encoding="utf-8") for name in ("first.md", "again.md"))
    assert first.startswith("# Search from sorter\n")  # the store does not know the file that somebody typed
    first, again = (text.partition("\n")[2].partition("## What each arm earned")[0] for text in (first, again))
    start = short(found["start"])
    assert again == first.replace(f"{start} sorter", start)
    assert seedbed("search", "show", short(found["search"]), "-o", "page.html").code == 0
    assert seedbed("search", "show", short(found["search"]), "-o", "again.md").code == 1
    assert seedbed("search", "show", short(found["search"]), "-o", "again.txt").code == 64


def test_what_is_no_search_is_told(mail: Path, seedbed: Seedbed) -> None:
    done = seedbed("search", "show", "beef")
    assert done.code == 1
    assert "is no search of this store" in done.err


def test_a_search_of_python_with_metrics_of_its_own_is_shown_too(store: Store, seedbed: Seedbed) -> None:
    found = asyncio.run(searched(store))
    score = found.pool.standing(found.pool.place(found.best)).mean
    (each,) = seedbed("search", "list", "--json").json
    assert (each["metric"], each["best"], each["score"]) == ("score", found.best, pytest.approx(score))
    done = seedbed("search", "show", short(found.search))
    assert done.code == 0
    assert "Yes: on 40 tasks" in done.out


def test_a_search_that_has_not_ended_is_listed_and_shown(store: Store, seedbed: Seedbed) -> None:
    class Interrupted(Exception):
        pass

    def watch(told: SearchProgress) -> None:
        if len(told.steps) == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        asyncio.run(searched(store, watch=watch))
    assert "unfinished" in seedbed("search", "list").out
    (each,) = seedbed("search", "list", "--json").json
    assert (each["ended"], each["gain"]) == (None, None)
    done = seedbed("search", "show", short(each["search"]))
    assert (done.code, "not finished yet" in done.out) == (0, True)
