"""The surrogate is as good as it says: checked where the truth is known, because we made it up."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy.stats import binom, binomtest, spearmanr

from seedbed import Playbook
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.surrogate import LEAST, Surrogate, audit, features
from seedbed.storage import open_store
from seedbed.storage.store import Query

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FILLER = ["please", "answer", "the", "question", "in", "plain", "words", "and", "keep", "to", "it", "as", "you", "can"]
HELPS, HARMS = "verify each step before you conclude", "guess quickly without checking anything"


class World:
    """Playbooks whose worth follows from their genes, and something of their own, at tasks of known difficulty."""

    def __init__(self, seed: int, *, by_genes: float = 1.0, tasks: int = 30) -> None:
        self.chance = random.Random(seed)
        self.by_genes = by_genes
        self.difficulty = {f"t{n}": self.chance.gauss(0, 1.2) for n in range(tasks)}
        self.worth: dict[str, float] = {}

    def playbooks(self, count: int) -> list[Playbook]:
        return [self._playbook() for _ in range(count)]

    def _playbook(self) -> Playbook:
        said, warmth = self.chance.choice(["", HELPS, HARMS]), self.chance.random()
        text = " ".join([*self.chance.sample(FILLER, 9), said])
        made = Playbook.from_document(
            {
                "roles": {"writer": {"system": text}},
                "parameters": {"warmth": {"value": warmth, "low": 0, "high": 1}},
            }
        )
        known = {HELPS: 1.0, HARMS: -1.0}.get(said, 0.0) + 2 * (warmth - 0.5)
        own = self.chance.gauss(0, 0.3 if self.by_genes else 0.8)
        self.worth[made.digest] = self.by_genes * known + own
        return made

    def cells(self, playbooks: Iterable[Playbook], tasks: Iterable[str] | None = None) -> list[Cell]:
        return [
            cell(each, task, float(self.chance.random() < self._right(each, task)))
            for each in playbooks
            for task in tasks or self.difficulty
        ]

    def _right(self, playbook: Playbook, task: str) -> float:
        return 1 / (1 + math.exp(self.difficulty[task] - self.worth[playbook.digest]))


def cell(playbook: Playbook, task: str, value: float | None, metric: str = "right") -> Cell:
    key = f"{playbook.digest}/{task}/{metric}"
    return Cell(key=key, playbook=playbook.digest, task=task, replicate=0, metric=metric, value=value)


def scores(cells: Iterable[Cell]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for each in cells:
        found.setdefault(each.playbook, []).append(each.value or 0.0)
    return {name: sum(values) / len(values) for name, values in found.items()}


def by_task(cells: Iterable[Cell]) -> dict[str, float]:
    return {each.task: each.value or 0.0 for each in cells}


def table(cells: Iterable[Cell]) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for each in cells:
        rows.setdefault(each.playbook, {})[each.task] = each.value or 0.0
    return rows


def fit(cells: Iterable[Cell], known: Iterable[Playbook]) -> Surrogate:
    return Surrogate(table(cells), {each.digest: each for each in known}, "right")


def fitted(world: World, count: int) -> tuple[Surrogate, float]:
    """A surrogate, and the score of the best playbook it was told about."""
    known = world.playbooks(count)
    cells = world.cells(known)
    return fit(cells, known), max(scores(cells).values())


def test_intervals_cover_and_skips_are_wrong_as_often_as_said() -> None:
    covered, beaten, skipped = [], [], []
    for seed in range(25):
        world = World(seed)
        surrogate, best = fitted(world, 60)
        for new in world.playbooks(16):
            score = scores(world.cells([new]))[new.digest]
            told = surrogate.predict(new, confidence=0.9)
            covered.append(told.low <= score <= told.high)
            skipped.append(surrogate.skip(new, best) is not None)
            beaten.append(skipped[-1] and score > best)
    # Bounds that chance alone passes once in a thousand times or less, in a world that is always the same.
    assert binom.ppf(0.001, len(covered), 0.9) <= sum(covered) <= binom.ppf(0.9999, len(covered), 0.95)
    assert sum(beaten) <= binom.ppf(0.999, len(beaten), 0.05)
    assert sum(skipped) > len(skipped) / 3


def test_better_playbooks_are_predicted_to_score_higher() -> None:
    world = World(1)
    surrogate, _ = fitted(world, 80)
    new = world.playbooks(60)
    predicted = [surrogate.predict(each).mean for each in new]
    assert spearmanr(predicted, [world.worth[each.digest] for each in new]).statistic > 0.6


def test_it_says_how_good_it_is_by_playbooks_it_was_not_told_about() -> None:
    world = World(2)
    surrogate, _ = fitted(world, 80)
    quality = surrogate.quality(confidence=0.9)
    new = world.playbooks(200)
    truth = scores(world.cells(new))
    error = np.sqrt(np.mean([(surrogate.predict(each).mean - truth[each.digest]) ** 2 for each in new]))
    assert (quality.refusal, quality.playbooks) == ("", 80)
    assert quality.error == pytest.approx(error, rel=0.25)
    assert quality.error < 0.7 * quality.mean_error
    assert 0.8 <= quality.coverage <= 1


@pytest.mark.parametrize(("count", "reason"), [(LEAST - 1, "expected at least 20"), (0, "expected at least 20")])
def test_with_few_playbooks_it_refuses(count: int, reason: str) -> None:
    world = World(3)
    surrogate = fit(world.cells(known := world.playbooks(count)), known)
    (new,) = world.playbooks(1)
    told = surrogate.predict(new)
    assert reason in surrogate.quality().refusal
    assert math.isnan(told.mean)
    assert (told.low, told.high) == (-math.inf, math.inf)
    assert surrogate.skip(new, 2.0) is None


def test_where_genes_tell_nothing_it_refuses_or_is_next_to_the_mean() -> None:
    refused = 0
    for seed in range(12):
        world = World(seed, by_genes=0.0)
        surrogate, _ = fitted(world, 40)
        quality = surrogate.quality()
        refused += bool(quality.refusal)
        assert quality.error > 0.8 * quality.mean_error
        if quality.refusal:
            assert "of the mean" in quality.refusal
            assert all(math.isnan(surrogate.predict(each).mean) for each in world.playbooks(3))
    assert refused >= 6


def test_cells_a_candidate_has_already_sharpen_what_is_foretold() -> None:
    world = World(4, by_genes=0.0)
    surrogate, _ = fitted(world, 60)
    tasks = [*world.difficulty]
    new = world.playbooks(40)
    cells = world.cells(new)
    truth = scores(cells)
    errors = []
    for count in (0, 10, 30):
        seen = {
            each.digest: by_task(c for c in cells if c.playbook == each.digest and c.task in tasks[:count])
            for each in new
        }
        assert surrogate.quality(seen[new[0].digest]).refusal == "" or count == 0
        if count:
            errors.append(np.mean([abs(surrogate.predict(e, seen[e.digest]).mean - truth[e.digest]) for e in new]))
    assert errors[1] < 1e-9 < errors[0] < np.std([*truth.values()])


def test_who_has_met_the_easy_tasks_only_is_not_thought_better() -> None:
    world = World(5, by_genes=0.0, tasks=40)
    surrogate, _ = fitted(world, 60)
    tasks = sorted(world.difficulty, key=world.difficulty.__getitem__)
    new = world.playbooks(60)
    cells = world.cells(new)
    truth = np.mean([*scores(cells).values()])
    for some in (tasks[:10], tasks[-10:]):
        seen = {each.digest: by_task(c for c in cells if c.playbook == each.digest and c.task in some) for each in new}
        raw = np.mean([value for own in seen.values() for value in own.values()])
        told = np.mean([surrogate.predict(each, seen[each.digest]).mean for each in new])
        assert abs(told - truth) < 0.05 < abs(raw - truth)


def test_what_it_says_does_not_depend_on_the_order_of_what_it_is_told() -> None:
    world = World(6)
    known = world.playbooks(40)
    cells = world.cells(known)
    (new,) = world.playbooks(1)
    one = fit(cells, known).predict(new)
    world.chance.shuffle(cells)
    other = fit(cells, known[::-1]).predict(new)
    assert (one.mean, one.low, one.high) == pytest.approx((other.mean, other.low, other.high), abs=1e-6)


def test_genes_of_every_kind_count_and_locked_ones_do_not() -> None:
    document = {
        "roles": {"a": {"system": "Be brief.", "model": "fast", "temperature": 0.5}, "b": {"system": "Be kind."}},
        "steps": [{"name": "answer", "role": "a", "prompt": "{q}"}],
        "demos": {"answer": [{"inputs": {"q": "1"}, "output": "2"}]},
        "locked": ["roles.b.system"],
    }
    found = features(Playbook.from_document(document))
    assert found["roles.a.model"] == {"fast": 1.0}
    assert found["roles.a.temperature"] == {"": 0.5}
    assert found["roles.a.system.length"] == {"": math.log1p(2)}
    assert sum(map(abs, found["roles.a.system.words"].values())) <= 3
    assert found["demos.answer"] == {"": 1.0}
    assert not any("roles.b" in path for path in found)


def test_each_skip_is_a_fact_and_a_share_of_them_is_evaluated_all_the_same() -> None:
    world = World(9)
    surrogate, best = fitted(world, 60)
    candidates = world.playbooks(600)
    skips, again, other = (
        [skip for each in candidates if (skip := surrogate.skip(each, best + 0.1, seed=seed))] for seed in (3, 3, 4)
    )
    assert skips == again
    assert len(skips) > 200
    audited = [skip for skip in skips if skip.audited]
    assert binom.ppf(0.001, len(skips), 0.05) <= len(audited) <= binom.ppf(0.999, len(skips), 0.05)
    assert audited != [skip for skip in other if skip.audited]

    store = open_store("memory:")
    assert store.append(skip.fact(NOON, "ann") for skip in skips) == len(skips)
    fact = next(store.facts(Query(kind="skip", subject=skips[0].playbook)))
    assert fact.value == skips[0].predicted.mean
    assert fact.body["high"] < fact.body["incumbent"] == best + 0.1
    assert (fact.body["metric"], fact.body["tasks"], fact.body["chance"]) == ("right", 30, 0.05)


def test_the_audit_tells_how_often_skipping_was_wrong_exactly() -> None:
    world = World(10)
    surrogate, best = fitted(world, 60)
    candidates = world.playbooks(900)
    skips = [skip for each in candidates if (skip := surrogate.skip(each, best, seed=1))]
    facts = [skip.fact(NOON, "ann") for skip in skips]
    evaluated = [each for each in candidates if each.digest in {skip.playbook for skip in skips if skip.audited}]
    # Three of them did better than the incumbent after all; one was evaluated in part, and does not count.
    cells = [cell(each, task, float(place < 3)) for place, each in enumerate(evaluated) for task in world.difficulty]
    partly = [each for each in cells if (each.playbook, each.task) != (evaluated[-1].digest, "t0")]
    told = audit(facts, table(partly))
    expected = binomtest(3, len(evaluated) - 1).proportion_ci(0.95, method="exact")
    assert told.n == len(evaluated) - 1
    assert (told.mean, told.low, told.high) == pytest.approx((3 / told.n, expected.low, expected.high))
    nothing = audit(facts, {})
    assert (nothing.low, nothing.high, nothing.n) == (0.0, 1.0, 0)
