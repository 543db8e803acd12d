"""One base, two corpora: each gets a playbook of its own that follows the base, shows what it gained, and goes back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import MergeClash, RefMoved
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evaluation.scorecard import Scorecard
from seedbed.evaluation.specialisation import Specialist, evaluate_specialisation
from seedbed.playbooks.merging import manual
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.specialised import SpecialisedPlaybook, all_specialised, back_to_base, find, rebase, specialise
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.store import Query
from seedbed.storage.upkeep import gc
from seedbed.workspace import Workspace

BASE = Playbook.from_document(
    {
        "roles": {"reader": {"model": "scripted", "system": "Be kind.", "temperature": 0.5}},
        "steps": [{"name": "answer", "role": "reader", "prompt": "Question: {text}"}],
        "rules": {"never": ["pay"]},
    }
)
PROMPT, SYSTEM, WARMTH = "steps.answer.prompt", "roles.reader.system", "roles.reader.temperature"
# Statutes are only understood when one is told that they are; told so, letters are not.
REPLIES = {r"(?s)Statute.*ought": "duty", r"(?s)Question.*Dear": "greeting", ".": "unsure"}
LAW = Dataset(tuple(Task(f"law {n}", {"text": f"One ought to {n}"}, "duty") for n in range(12)))
MAIL = Dataset(tuple(Task(f"mail {n}", {"text": f"Dear {n}"}, "greeting") for n in range(12)))


def workspace(url: str) -> Workspace:
    models = {"scripted": {"use": "scripted", "args": {"replies": REPLIES}}}
    return Workspace(Settings.model_validate({"models": models, "by": "ann"}), open_store(url))


def edit(space: Workspace, name: str, values: dict[str, Any]) -> str:
    digest = space.resources.library.derive(space.resources.library.find(name), values, because="edited")
    space.resources.library.name(name, digest, because="edited")
    return digest


def begun(url: str) -> Workspace:
    space = workspace(url)
    library = space.resources.library
    library.name("main", library.keep(BASE, because="the first"), because="the first")
    for corpus in ("law", "mail"):
        specialise(library, corpus, "qa", "main", because=f"{corpus} asks otherwise")
    return space


async def test_a_specialised_playbook_from_its_beginning_back_to_its_base(tmp_path: Path) -> None:
    space = begun(f"sqlite:///{tmp_path}/seedbed.db")
    library = space.resources.library

    # It runs like any other playbook, and a corpus without one of its own gets the base.
    edit(space, "corpora/law/qa", {PROMPT: "Statute: {text}"})
    assert (await space.run("corpora/law/qa", text="One ought to pay")).output == "duty"
    assert (await space.run("main", text="One ought to pay")).output == "unsure"
    assert (await space.run(library.specialised("tax", "qa", base="main"), text="Dear Ann")).output == "greeting"

    # The base moves on; what clashes is listed, what does not is inherited.
    edit(space, "main", {PROMPT: "Question: {text}\nAnswer.", SYSTEM: "Be kind and brief.", WARMTH: 0.2})
    assert [each.behind for each in all_specialised(library)] == [True, True]
    with pytest.raises(MergeClash, match=r"ours \"Statute: {text}\", theirs \"Question: {text} Answer.\""):
        rebase(library, "law/qa")
    settled = {PROMPT: manual({PROMPT: "Statute: {text}\nAnswer."})}
    done = rebase(library, "law/qa", by_path=settled)
    rebase(library, "mail/qa")
    law = library.get("corpora/law/qa")
    assert (law.roles["reader"].system, law.roles["reader"].temperature) == ("Be kind and brief.", 0.2)
    assert law.steps[0].prompt == "Statute: {text}\nAnswer."  # type: ignore[union-attr]
    assert library.find("corpora/mail/qa") == library.find("main")

    # Over all corpora it shows what was gained, and what was lost elsewhere.
    async def evaluate(name: str, playbook: Playbook, corpus: str, tasks: Dataset) -> Scorecard:
        return await space.evaluate(playbook, tasks, metric=ExactMatch())

    def specialist(known: SpecialisedPlaybook) -> Specialist:
        return Specialist(known.name, known.corpus, known.base, library.get(known.playbook))

    specialists = [specialist(each) for each in all_specialised(library, "qa")]
    bases = {"branches/main": library.get("main")}
    found = await evaluate_specialisation(bases, specialists, {"law": LAW, "mail": MAIL}, evaluate)
    for_law, for_mail = specialists
    assert found.gain(for_law, "law").low > 0.5
    assert found.transfer(for_law)["mail"].high < -0.5
    assert found.gain(for_mail, "mail").mean == 0
    assert [corpus for corpus, _ in found.difficulty("branches/main")] == ["law", "mail"]
    again = await evaluate_specialisation(bases, specialists, {"law": LAW, "mail": MAIL}, evaluate)
    assert all(card.reused == 12 for card in again.cards.values())

    # And back, after the store was cleaned and opened anew.
    gc(space.store, dry_run=False)
    space.close()
    space = workspace(f"sqlite:///{tmp_path}/seedbed.db")
    library = space.resources.library
    assert find(library, "law/qa") == done.after
    back_to_base(library, "law/qa", because="lawyers left")
    assert library.find("corpora/law/qa") == library.find("main")
    assert [move.body["because"] for move in library.history("corpora/law/qa")][:2] == [
        "lawyers left",
        "rebased onto branches/main",
    ]
    space.close()


def test_many_who_rebase_at_once_leave_one_that_holds_everything(postgres_url: str) -> None:
    first = begun(postgres_url)
    edit(first, "corpora/law/qa", {PROMPT: "Statute: {text}"})
    edit(first, "main", {WARMTH: 0.2})
    ready = threading.Barrier(6)
    outcomes: list[str] = []

    def attempt() -> None:
        space = workspace(postgres_url)
        try:
            ready.wait()
            rebase(space.resources.library, "law/qa")
            outcomes.append("done")
        except RefMoved:
            outcomes.append("somebody was quicker")
        finally:
            space.close()

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 6
    assert "done" in outcomes
    law = first.resources.library.get("corpora/law/qa")
    assert law.steps[0].prompt == "Statute: {text}"  # type: ignore[union-attr]
    assert law.roles["reader"].temperature == 0.2
    assert not find(first.resources.library, "law/qa").behind
    remembered = list(first.store.facts(Query(kind="specialisation", subject="corpora/law/qa")))
    assert len(remembered) <= 1 + outcomes.count("done")
    first.close()
