from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from driven import Driven, playbook

from seedbed.errors import SettingsError
from seedbed.evolution.optimizers.assembly import LEAST, Assembly
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook

GOOD = [f"Good {n}." for n in range(5)]
BAD = [f"Bad {n}." for n in range(5)]


def worth(each: Playbook, task: str) -> float:
    """Each good sentence adds as much as each bad one takes, and one task is harder than another."""
    said = str(each.document())
    return 0.4 + 0.08 * said.count("Good ") - 0.08 * said.count("Bad ") + 0.01 * (len(task) - 2)


async def assembled(
    tried: Sequence[Playbook],
    rounds: int = 6,
    *,
    seed: int = 0,
    score: Callable[[Playbook, str], float] = worth,
    assembly: Assembly | None = None,
) -> Driven:
    """A search in which the first of these is the start and all were tried before anything is put together."""
    search = Driven(assembly or Assembly(), tried[0], score, tasks=20, seed=seed)
    search.pay([Offer(each) for each in tried[1:]])
    return await search.run(rounds)


def pairs() -> list[Playbook]:
    """The start, and candidates that have a good and a bad sentence each: none of them is better than the start."""
    return [playbook(), *(playbook(f"Be brief. {good} {bad}") for good in GOOD for bad in BAD)]


@pytest.mark.parametrize("seed", range(3))
async def test_good_parts_are_put_together_and_bad_ones_left_out(seed: int) -> None:
    done = await assembled(pairs(), seed=seed)
    said = done.best.roles["agent"].system
    assert all(good in said for good in GOOD)
    assert not any(bad in said for bad in BAD)
    assert said.startswith("Be brief.")


async def test_each_offer_is_new_a_child_of_the_best_and_says_where_it_is_from() -> None:
    done = await assembled(pairs(), 1)
    (best,) = {parent for offer in done.offers for parent in offer.parents}
    assert best in {each.digest for each in pairs()}
    assert {offer.how for offer in done.offers} == {"assembled from parts of others"}
    assert 1 <= len({offer.playbook.digest for offer in done.offers}) == len(done.offers) <= 4


async def test_it_makes_no_parts_of_its_own() -> None:
    done = await assembled(pairs())
    known = {"Be brief.", *GOOD, *BAD}
    for offer in done.offers:
        said = offer.playbook.roles["agent"].system
        assert {f"{each}." for each in said.rstrip(".").split(". ")} <= known


async def test_before_enough_was_tried_nothing_is_put_together() -> None:
    assert (await assembled(pairs()[: LEAST - 1])).offers == []
    assert (await assembled(pairs()[:LEAST])).offers


async def test_where_all_runs_failed_nothing_is_put_together() -> None:
    """Where lower is better a run that failed tells nothing."""
    search = Driven(Assembly(), playbook(), lambda each, task: None, tasks=20, better="lower")
    search.pay([Offer(each) for each in pairs()[1:]])
    assert await search.step() == []


def asking(prompt: str, **more: Any) -> Playbook:
    return Playbook.from_document(
        {
            "roles": {"agent": {"model": "fast", "system": "Be brief."}},
            "steps": [{"name": "answer", "role": "agent", "prompt": prompt}],
            **more,
        }
    )


async def test_what_has_a_placeholder_stays_and_is_not_told_twice() -> None:
    tried = [
        asking("Be exact.\nText: {text}\nAnswer:"),
        asking("Be exact.\nBad 0.\nText: {text}\nAnswer:"),
        asking("Be exact.\nGood 0.\nText: {text}\nAnswer:"),
        asking("Be exact.\nGood 1.\nText: {text}\nAnswer:"),
        asking("Good 2.\nGood 3.\nRead this: {text}\nAnswer:"),
        asking("Bad 1.\nRead this: {text}\nAnswer:"),
    ]
    done = await assembled(tried)
    assert done.offers
    for offer in done.offers:
        prompt = offer.playbook.steps[0].prompt
        assert prompt.count("{text}") == 1
        assert prompt.endswith("\nAnswer:")
    assert done.best.steps[0].prompt.count("Good") >= 3


async def test_locked_genes_stay() -> None:
    tried = [playbook(f"Be brief. {each}", locked=["roles"]) for each in ("Bad 0.", "Good 0.", "Good 1.", "Good 2.")]
    tried += [
        playbook("Be brief. Bad 0.", locked=["roles"], steps=[{"name": "answer", "role": "agent", "prompt": each}])
        for each in ("Good 3. Say {n}.", "Good 4. Say {n}.", "Bad 1. Say {n}.")
    ]
    done = await assembled(tried)
    assert done.offers
    known = {each.roles["agent"].system for each in tried}
    for offer in done.offers:
        parent = done.pool.playbooks[done.pool.place(offer.parents[0])]
        assert offer.playbook.roles == parent.roles
        assert offer.playbook.roles["agent"].system in known


async def test_of_options_the_best_is_taken_and_numbers_stay() -> None:
    def toned(tone: str, patience: float, sentence: str) -> Playbook:
        tones = {"value": tone, "options": ["dry", "warm", "loud"]}
        patiences = {"value": patience, "low": 0, "high": 1}
        return playbook(f"Be brief. {sentence}", parameters={"tone": tones, "patience": patiences})

    def score(each: Playbook, task: str) -> float:
        return worth(each, task) + 0.3 * (genes(each)["parameters.tone"].value == "warm")

    tried = [toned("dry", 0.5, ""), toned("warm", 0.1, "Bad 0."), toned("warm", 0.2, "Bad 1. Bad 2.")]
    tried += [toned("loud", 0.3, "Good 0."), toned("dry", 0.9, "Good 1."), toned("loud", 0.4, "Good 2.")]
    done = await assembled(tried, score=score)
    best = genes(done.best)
    assert best["parameters.tone"].value == "warm"
    assert all(good in best["roles.agent.system"].value for good in GOOD[:3])
    known = {genes(each)["parameters.patience"].value for each in tried}
    assert {genes(offer.playbook)["parameters.patience"].value for offer in done.offers} <= known


async def test_of_worked_examples_a_set_that_was_tried_is_taken_as_a_whole() -> None:
    def showing(sentence: str, *outputs: str) -> Playbook:
        return playbook(
            f"Be brief. {sentence}".strip(),
            demos={"answer": [{"inputs": {"n": str(n)}, "output": said} for n, said in enumerate(outputs)]},
        )

    tried = [showing(""), showing("Bad 1.", "Good a", "Good b"), showing("Bad 2.", "Bad c", "Good b")]
    tried += [showing("Good 0."), showing("Good 1.", "Bad c"), showing("Good 2.")]
    done = await assembled(tried)
    sets = [tuple(each.output for each in book.demos.get("answer", ())) for book in tried]
    assert {tuple(each.output for each in offer.playbook.demos.get("answer", ())) for offer in done.offers} <= {*sets}
    assert [each.output for each in done.best.demos["answer"]] == ["Good a", "Good b"]


async def test_the_same_seed_puts_the_same_together_and_another_does_not() -> None:
    one, same, other = [await assembled(pairs(), 3, seed=seed) for seed in (1, 1, 2)]
    assert one.tried == same.tried != other.tried
    again = Assembly()
    assert (await assembled(pairs(), 3, seed=1, assembly=again)).tried == one.tried
    assert (await assembled(pairs(), 3, seed=1, assembly=again)).tried == one.tried


async def test_no_more_than_a_brood_at_a_time() -> None:
    done = await assembled(pairs(), 1, assembly=Assembly(brood=2))
    assert 1 <= len(done.offers) <= 2
    assert Assembly(brood=2).identity != Assembly().identity
    with pytest.raises(SettingsError, match="brood: found 0"):
        Assembly(brood=0)


async def test_a_role_gets_the_best_of_the_models_that_were_tried() -> None:
    def asked_of(model: str, sentence: str) -> Playbook:
        return playbook(f"Be brief. {sentence}", roles={"agent": {"model": model, "system": f"Be brief. {sentence}"}})

    def score(each: Playbook, task: str) -> float:
        return worth(each, task) + 0.3 * (each.roles["agent"].model == "large")

    tried = [asked_of("small", ""), asked_of("large", "Bad 0. Bad 1. Bad 2. Bad 3. Bad 4."), asked_of("tiny", "Bad 0.")]
    tried += [asked_of("small", "Good 0."), asked_of("tiny", "Good 1."), asked_of("small", "Good 2.")]
    done = await assembled(tried, score=score)
    assert done.best.roles["agent"].model == "large"
    assert all(good in done.best.roles["agent"].system for good in GOOD[:3])


async def test_a_text_ends_with_one_cue_the_one_that_is_worth_most() -> None:
    def score(each: Playbook, task: str) -> float:
        return worth(each, task) + 0.2 * ("Result:" in each.steps[0].prompt)

    ends = [
        ("Good 0.", "Answer:"),
        ("Good 1.", "Answer:"),
        ("Bad 0.", "Result:"),
        ("Bad 1.", "Result:"),
        ("Bad 2.", ""),
    ]
    tried = [asking("Text: {text}\nAnswer:"), *(asking(f"{said}\nText: {{text}}\n{cue}") for said, cue in ends)]
    done = await assembled(tried, score=score)
    assert done.offers
    for offer in done.offers:
        prompt = offer.playbook.steps[0].prompt
        assert prompt.count("Answer:") + prompt.count("Result:") <= 1, prompt
        assert prompt.endswith((":", "{text}")), prompt
    assert done.best.steps[0].prompt.endswith("\nResult:")
    assert "Good 0." in done.best.steps[0].prompt
