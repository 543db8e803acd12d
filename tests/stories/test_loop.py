"""The whole loop through the Python API: from a first draft to a proved, reviewed, watched release, and back."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import seedbed
from seedbed import BestOf, Dataset, ExactMatch, Playbook, Task, Workspace
from seedbed.errors import DatasetError, ReleaseRefused
from seedbed.evolution.plan import NO_TASKS
from seedbed.evolution.variation.operators import demonstrate, reword
from seedbed.experiments.options import Comparing
from seedbed.experiments.proof import certificate
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.release.assignment import Reader, assign
from seedbed.release.channels import state
from seedbed.release.review.review import approve
from seedbed.release.states import Canary, State
from seedbed.runs.history import recall
from seedbed.settings.channels import ChannelSettings
from seedbed.storage.store import CHAINED, Query, short
from seedbed.storage.upkeep import verify

PLEASED = [
    "I love how light this suitcase is.",
    "The jacket fits perfectly and keeps me warm.",
    "Wonderful course, the teacher explains everything clearly.",
    "Great service, thank you so much!",
    "The best coffee I have ever had.",
    "My daughter adores the puzzle.",
    "Fast delivery and a lovely card, I am very happy.",
    "What a beautiful lamp, it is perfect in our hall.",
    "Excellent headphones, the sound is fantastic.",
    "The staff were kind and helpful.",
    "We enjoyed every minute of the tour.",
    "Works great and looks amazing.",
    "Delicious cake, everybody loved it.",
    "I am so glad I bought this bicycle.",
    "Superb quality, I recommend it to all my friends.",
    "Thank you for the quick and friendly answer!",
]
ANGRY = [
    "The shoes fell apart after one week.",
    "The hotel room was dirty and smelled of smoke.",
    "Your driver threw the parcel over the fence and broke it.",
    "The soup was cold and the waiter was rude.",
    "Terrible quality, I want my money back.",
    "The screen is cracked and nobody answers my calls.",
    "I have been waiting for three weeks, this is awful.",
    "The worst trip of my life.",
    "It stopped working after two days and I am disappointed.",
    "The shirt shrank and the colour is ugly.",
    "You sent the wrong size again, I am angry.",
    "The battery is dead and the charger is broken.",
    "Horrible noise, useless machine.",
    "The food made me sick.",
    "My order was lost and you refuse to help.",
    "The zip broke on the first day, what a waste of money.",
]
MESSAGES = Dataset(
    tuple(
        Task(f"{mood}-{number}", {"text": text}, mood)
        for number, pair in enumerate(zip(PLEASED, ANGRY, strict=True))
        for mood, text in zip(("positive", "negative"), pair, strict=True)
    )
)
START = Playbook.from_document(
    {
        "roles": {"sorter": {"model": "sorter", "system": "Read the message.", "max_tokens": 4, "stop": ["\n"]}},
        "steps": [{"name": "label", "role": "sorter", "prompt": "Message: {text}\nMood:"}],
        "rules": {"never": ["reply_to_customer"]},
        "locked": ["roles.sorter.model"],
    }
)
BAD_WORDS = (
    "fell|dirty|broke|cold|Terrible|cracked|waiting|worst|stopped|shrank|wrong|dead|Horrible|sick|lost|useless|zip"
)


@dataclass(frozen=True)
class World:
    """A model that sorts messages, which gene teaches it to, and the texts to try."""

    model: dict[str, Any]
    gene: str
    bank: tuple[str, ...]


SCRIPTED = World(
    {
        "use": "scripted",
        "args": {
            "replies": {rf"^Positive or negative\? .*({BAD_WORDS})": "negative", "^Positive": "positive", ".": "Yes."}
        },
        "usd_per_million": [1, 2],
    },
    "steps.label.prompt",
    ("Tell me: {text}", "Positive or negative? {text}"),
)
EMBEDDED = World(
    {"use": "embedded", "args": {"template": "raw"}},
    "roles.sorter.system",
    ("Is the mood of the message positive or negative?",),
)


@pytest.fixture(
    params=[
        "memory",
        "postgresql",
        pytest.param("sqlite and the embedded model", marks=pytest.mark.xdist_group("embedded model")),
    ]
)
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A workspace file in this folder, for each store."""
    url = {"memory": "memory:", "postgresql": ""}.get(request.param, "sqlite:///seedbed.db")
    world = EMBEDDED if "embedded" in request.param else SCRIPTED
    settings = {"by": "ada", "models": {"sorter": world.model}, "quota": {"runs_per_day": 1000}}
    settings["reviewers"] = {"ben": ["product"]}
    steps = {"shares": ["5%", "25%", "100%"], "hold": "2 runs", "roll_back_if": {"rating": -0.05, "error_rate": 0.05}}
    settings["channels"] = {"production": {"require": ["better", "held_out", "rules_kept", "review"], "canary": steps}}
    (tmp_path / "seedbed.yaml").write_text(json.dumps(settings))
    monkeypatch.setenv("SEEDBED_STORE", url or request.getfixturevalue("postgres_url"))
    monkeypatch.chdir(tmp_path)
    return world


@pytest.fixture
async def space(world: World) -> AsyncIterator[Workspace]:
    async with seedbed.open("seedbed.yaml") as space:
        yield space


def facts(space: Workspace, kind: str, **about: Any) -> list[Any]:
    return list(space.store.facts(Query(kind=kind, **about)))


async def test_a_better_playbook_is_found_proved_released_and_taken_back(space: Workspace, world: World) -> None:
    train, test = MESSAGES.split(0.35, seed=1)
    metric = ExactMatch()

    # Run
    run = await space.run(START, seed=1, **train.tasks[0].inputs)
    assert run.status == "completed"
    assert recall(space.store, run.id) == run

    # Evaluate
    card = await space.evaluate(START, train, metric=metric)
    assert len(card.scored) == len(train) == 11
    assert len(facts(space, "cell", subject=START.digest)) == 11

    # Evolve
    words = list(reword(START, world.gene, world.bank))
    shown = demonstrate(words[-1], "demos.label", train.tasks, count=2, seed=1)
    search = BestOf([*words, shown])
    options = seedbed.SearchOptions(confirm=NO_TASKS)
    found = await space.evolve(START, train, metric=metric, optimizer=search, budget="60 runs", options=options)
    assert found.best != START.digest
    assert 0 < found.spent["runs"] <= 60
    better = space.playbooks.get(found.best)
    assert better.rules == START.rules
    assert [entry.digest for entry in space.resources.library.children(START.digest)] == [
        each.digest for each in (*words, shown)
    ]
    (evolution,) = facts(space, "evolution", subject=found.best)
    assert evolution.body["start"] == START.digest

    # Without evidence nothing is released, whoever asks
    ben = Library(space.store, "ben")
    approve(ben, "production", START.digest, because="we have to begin somewhere")
    await space.release(START, to="production", because="the first one")
    with pytest.raises(ReleaseRefused) as refused:
        await space.release(better, to="production")
    refusals = {refusal.path: refusal for refusal in refused.value.refusals}
    assert list(refusals) == ["better", "held_out", "review"]
    assert f"seedbed review approve production {found.best[3:13]}" in refusals["review"].remedy

    # Compare, on tasks that the search never saw
    verdict = await space.compare(START, better, on=test, metric=metric)
    assert verdict.finding == "superior", str(verdict)
    assert (verdict.control, verdict.candidate, verdict.dataset) == (START.digest, found.best, test.digest)
    assert Verdict.recall(space.store, verdict.experiment) == verdict
    assert space.store.get(verdict.experiment)["dataset"] == test.digest

    # Release: the gates decide, and a person
    with pytest.raises(ReleaseRefused) as refused:
        await space.release(better, to="production")
    assert [refusal.path for refusal in refused.value.refusals] == ["review"]
    with pytest.raises(DatasetError, match="11 of 11 that the candidate was evolved on"):
        await space.compare(START, better, on=train, metric=metric, options=Comparing(alpha=0.2))
    with pytest.raises(ReleaseRefused, match="ada, who made it"):
        approve(space.resources.library, "production", found.best, because="I wrote it, I should know")
    approve(ben, "production", found.best, because="read it, and its answers")
    await space.release(better, to="production", because=verdict)
    assert state(space.store, "production") == State((START.digest,), Canary(found.best, 0.05))

    # Step by step, as people come
    for share in (0.25, 1.0):
        with pytest.raises(ReleaseRefused, match="hold: found 0 runs"):
            await space.channels.promote("production", because="too soon")
        await come(space, test, 8)
        assert (await space.channels.watch("production")).health.alarms == ()
        await space.channels.promote("production", because=f"nothing speaks against {share:.0%}")
    assert state(space.store, "production") == State((START.digest, found.best))
    assert (await space.run("production", seed=1, text=ANGRY[0])).playbook == found.best

    # A worse one is forced into a canary, and the monitor takes it back
    ungated = {"by": "sam", "channels": {"production": ChannelSettings(require=[])}}
    hasty, worse = Workspace(space.settings.model_copy(update=ungated), space.store), muddled(better)
    await hasty.release(worse, to="production", because="trust me", share=0.5)
    await come(space, test, 80)
    seen = await space.channels.watch("production")
    assert seen.moved is not None, seen.health.rows
    assert [alert.kind for alert in seen.alerts] == ["rolled back"]
    assert state(space.store, "production") == State((START.digest, found.best))

    # Every step is a fact, and so is every decision
    assert [fact.key for fact in facts(space, "verdict", subject=found.best)] == [verdict.experiment]
    moved = [(fact.body["to"]["how"], fact.body["because"], fact.by) for fact in facts(space, "move")]
    assert moved == [
        ("release", "the first one", "ada"),
        ("release", str(verdict), "ada"),
        ("promote", "nothing speaks against 25%", "ada"),
        ("promote", "nothing speaks against 100%", "ada"),
        ("release", "trust me", "sam"),
        ("rollback", seen.moved.because, "monitor"),
    ]
    assert short(worse.digest) in seen.moved.because
    assert facts(space, "move")[1].body["to"]["verdict"] == verdict.experiment

    # And nobody edited any of it
    store: Any = space.store
    report = verify(store)
    assert report.problems == ()
    assert (report.chained, report.refs) == (sum(store.kinds().values()), 1)
    assert {"move", "verdict", "approval", "trial"} <= CHAINED
    assert certificate.verify(store, [verdict.experiment]) == {verdict.experiment: []}


async def come(space: Workspace, tasks: Dataset, count: int) -> None:
    """So many people come who are compared with others, and each says whether the answer was right."""
    serving = await Reader(space.resources.library, "production").read()
    keys = (f"{serving.version}/{number}" for number in itertools.count())
    compared = (key for key in keys if assign(serving, key).compared)
    for key, task in zip(itertools.islice(compared, count), itertools.cycle(tasks), strict=False):
        run = await space.run("production", key=key, **task.inputs)
        space.feedback(run, float(run.output.strip() == task.expected))


def muddled(playbook: Playbook) -> Playbook:
    """One that is asked for something else."""
    document = playbook.document()
    document["roles"]["sorter"]["system"] = "Name a fruit."
    document["steps"][0]["prompt"] = "{text}\nFruit:"
    return Playbook.from_document({key: value for key, value in document.items() if key != "demos"})


async def test_the_loop_once_more_pays_nothing_and_says_the_same(space: Workspace, world: World) -> None:
    train, test = MESSAGES.split(0.2, seed=2)
    words = list(reword(START, world.gene, world.bank))

    async def around(space: Workspace) -> tuple[Any, ...]:
        card = await space.evaluate(START, train, metric=ExactMatch())
        found = await space.evolve(START, train, metric=ExactMatch(), optimizer=BestOf(words))
        tried = found.pool.table().tolist()
        verdict = await space.compare(START, words[-1], on=test, metric=ExactMatch())
        return card.interval, found.best, tried, found.confirmed, verdict

    first = await around(space)
    runs = len(facts(space, "run"))
    if space.settings.store == "memory:":
        again = await around(Workspace(space.settings, space.store))
    else:
        async with seedbed.open("seedbed.yaml") as reopened:
            again = await around(reopened)
    assert again == first
    assert len(facts(space, "run")) == runs
    assert verify(space.store).clean  # type: ignore[arg-type]
