"""Branches: three moves from the best playbook; the next three begin from the best of them.

The greedy move follows rising scores, the conservative one goes half as far with the least other change, and the
exploratory one goes elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from seedbed.errors import PlaybookError, Problem
from seedbed.evaluation.cells import Cell
from seedbed.evolution.protocols import Offer, Operator, Search, check_settings, settings_of
from seedbed.evolution.variation.checks import build_child
from seedbed.evolution.variation.numbers import clip, has_room
from seedbed.evolution.variation.operators import operators as all_operators
from seedbed.playbooks.genes import Gene, distance, genes
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest, Json

MoveKind = Literal["greedy", "conservative", "exploratory"]
BranchStatus = Literal["active", "merged", "archived"]

WHY: Mapping[MoveKind, str] = {
    "greedy": "as far as allowed where scores rise",
    "conservative": "a small step where scores rise",
    "exploratory": "where it has not been",
}

CLEAR = 0.2
"""A weaker direction is ignored."""

DOUBT = 2.0
"""The weight, in tries, of the prior that a gene does not matter."""

LEAST = 0.1
"""The smallest step, as a share of the largest."""

TRIES = 3
"""How many children operators make: the conservative move takes the nearest, the exploratory one the farthest."""

ATTEMPTS = 8


@dataclass(frozen=True)
class Signal:
    """What the recent scores show: `trend` is from -1, all branches are worse than their parents, to 1, all are better.

    `directions` is for each number how clearly a higher value is better: from -1 to 1, 0 if unknown. `options` is the
    gain of each option of a choice over what it replaced, `operators` that of each operator.
    """

    trend: float
    directions: Mapping[str, float]
    options: Mapping[str, Mapping[str, float]]
    operators: Mapping[str, float]


@dataclass(frozen=True)
class BranchMove:
    """One move from a parent: merged if it became the next parent, archived otherwise."""

    name: MoveKind
    playbook: Digest
    parent: Digest
    why: str
    operator: str | None = None
    status: BranchStatus = "active"


@dataclass(kw_only=True, eq=False)
class Branches:
    """Each ask offers one child of the best playbook for each of the three moves.

    No number changes by more than `most`, as a share of its range, or of itself if it has no bounds; a whole number may
    always change by one. The better the last branches were, the longer the greedy and conservative steps and the
    shorter the exploratory ones. Texts and demos change by `operators`, by default all that need no model. `history`
    has every branch and its status. The first metric decides.
    """

    most: float = 0.1
    recent: int = 24
    operators: Sequence[Operator] | None = None

    def __post_init__(self) -> None:
        check_settings(
            "branches",
            most=(self.most, 0 < self.most <= 1, "a share above 0 and at most 1"),
            recent=(self.recent, self.recent >= 3, "at least 3 branches"),
        )
        self.history: list[BranchMove] = []

    @property
    def identity(self) -> Json:
        return {"optimizer": "branches", **settings_of(self)}

    def begin(self, search: Search) -> None:
        self._search = search
        self._ways = all_operators(search.start, tasks=search.reflect) if self.operators is None else self.operators
        if not self._ways and not any(_movable(gene) for gene in genes(search.start).values()):
            remedy = "Unlock some genes, or pass operators."
            raise PlaybookError([Problem("genes", "none that a branch can change", "at least one", remedy)])
        self.history = []
        self._offers: dict[Digest, Offer] = {}
        self._round = 0

    async def ask(self) -> Sequence[Offer]:
        self._round += 1
        parent, signal = self.parent, self.signal()
        offers = self._offers = {}
        moves: tuple[MoveKind, ...] = ("greedy", "conservative", "exploratory")
        for move in moves:
            for attempt in range(ATTEMPTS):
                made, operator = await self._branch(move, parent, signal, f"branches {self._round} {move} {attempt}")
                if made is not None and self._is_new(made):
                    offers[made.digest] = Offer(made, (parent.digest,), f"{move}: {operator or 'numbers'}")
                    self.history.append(BranchMove(move, made.digest, parent.digest, WHY[move], operator))
                    break
        return list(offers.values())

    def _is_new(self, child: Playbook) -> bool:
        return child.digest not in self._search.pool and child.digest not in self._offers

    async def tell(self, cells: Sequence[Cell]) -> None:
        """Merge the branch that is now the best of all, if one is, and archive the others."""
        best = self.parent.digest
        for place, branch in enumerate(self.history):
            if branch.status == "active":
                self.history[place] = replace(branch, status="merged" if branch.playbook == best else "archived")

    @property
    def parent(self) -> Playbook:
        """The estimated best, from which the next branches begin."""
        pool = self._search.pool
        return pool.playbooks[pool.best()] if len(pool) else self._search.start

    def signal(self) -> Signal:
        """What the recent branches show, each compared with its parent."""
        tried = self._tried()
        gains = np.array([gain for _, _, _, gain in tried])
        total = float(np.abs(gains).sum())
        moved: dict[str, list[tuple[float, float]]] = {}
        options: dict[str, dict[str, list[float]]] = {}
        ways: dict[str, list[float]] = {}
        for branch, before, after, gain in tried:
            if branch.operator is not None:
                ways.setdefault(branch.operator, []).append(gain)
            for path, gene in before.items():
                now = after[path].value if path in after else gene.value
                if gene.kind in ("number", "integer"):
                    moved.setdefault(path, []).append(((now - gene.value) / _scale(gene), gain))
                elif gene.kind == "choice" and now != gene.value:
                    options.setdefault(path, {}).setdefault(repr(now), []).append(gain)
        return Signal(
            float(gains.sum()) / total if total else 0.0,
            {path: _direction(np.array(pairs)) for path, pairs in moved.items()},
            {path: {option: float(np.mean(each)) for option, each in some.items()} for path, some in options.items()},
            {name: float(np.mean(each)) for name, each in ways.items()},
        )

    def _tried(self) -> Sequence[tuple[BranchMove, Mapping[str, Gene], Mapping[str, Gene], float]]:
        """Recent branches that have scores, their genes before and after, and their gains."""
        pool = self._search.pool
        means, _, tasks = pool.standings()
        pairs = []
        for branch in self.history[-self.recent :]:
            if branch.playbook not in pool or branch.parent not in pool:
                continue
            child, parent = pool.place(branch.playbook), pool.place(branch.parent)
            if tasks[child] and tasks[parent]:
                gain = float(means[child] - means[parent])
                pairs.append((branch, genes(pool.playbooks[parent]), genes(pool.playbooks[child]), gain))
        return pairs

    async def _branch(
        self, move: MoveKind, parent: Playbook, signal: Signal, event: str
    ) -> tuple[Playbook | None, str | None]:
        """A child that makes this move, and the operator it used, if any."""
        chance = self._search.chance(event, "move")
        values = dict(self._values(move, parent, signal, chance))
        child = build_child(parent, values)
        moved = child if values else None
        if not self._ways or (moved and not self._words_too(move, signal)):
            return moved, None
        made, operator = await self._vary(move, child or parent, signal, chance, event)
        return (self._hold(parent, made), operator) if made else (moved, None)

    def _words_too(self, move: MoveKind, signal: Signal) -> bool:
        """Whether a move that changes numbers also uses an operator: the conservative one does not, the greedy one only
        if there is one without a loss so far."""
        if move == "greedy":
            return any(signal.operators.get(way.name, 0.0) >= 0 for way in self._ways)
        return move == "exploratory"

    def _values(
        self, move: MoveKind, parent: Playbook, signal: Signal, chance: np.random.Generator
    ) -> Iterator[tuple[str, Any]]:
        for path, gene in genes(parent).items():
            if gene.kind in ("number", "integer") and _movable(gene):
                share = _step(move, signal, signal.directions.get(path, 0.0), chance)
                value = _move(gene, share * self.most, self.most)
                if value != gene.value:
                    yield path, value
            elif gene.kind == "choice" and _movable(gene):
                option = _option(move, gene, signal.options.get(path, {}), chance)
                if option != gene.value:
                    yield path, option

    async def _vary(
        self, move: MoveKind, parent: Playbook, signal: Signal, chance: np.random.Generator, event: str
    ) -> tuple[Playbook | None, str | None]:
        """Greedy: by the operator that gained most, or an unused one. Others: the nearest or farthest of a few."""
        order = [self._ways[place] for place in chance.permutation(len(self._ways))]
        if move == "greedy":
            order.sort(key=lambda way: -signal.operators.get(way.name, 0.0))
        pool = self._search.pool
        mates = [pool.playbooks[place] for place in chance.permutation(len(pool))[:2].tolist()]
        made: list[tuple[Playbook, str]] = []
        for n, way in enumerate(order):
            child = await way(parent, mates, self._search, f"{event} {n}")
            if child is not None and self._is_new(child):
                made.append((child, way.name))
            if len(made) == (1 if move == "greedy" else TRIES):
                break
        if not made:
            return None, None
        nearest_first = sorted(made, key=lambda each: distance(parent, each[0]))
        return nearest_first[-1 if move == "exploratory" else 0]

    def _hold(self, parent: Playbook, child: Playbook) -> Playbook | None:
        """The child with every number within the allowed distance of its parent's, whatever an operator did."""
        before, after = genes(parent), genes(child)
        held = {}
        for path, gene in after.items():
            if path in before and gene.kind in ("number", "integer"):
                share = (gene.value - before[path].value) / _scale(before[path])
                value = _move(before[path], share, self.most)
                # Only numbers that went too far are moved back: rounding would change the rest.
                if abs(gene.value - before[path].value) > abs(value - before[path].value):
                    held[path] = value
        return build_child(child, held) if held else child


def _movable(gene: Gene) -> bool:
    if gene.kind in ("number", "integer"):
        return has_room(gene)
    return gene.kind == "choice" and len(gene.options) > 1


def _scale(gene: Gene) -> float:
    """The range that shares of a number refer to."""
    return gene.span or abs(float(gene.value)) or 1.0


def _direction(pairs: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The correlation of moves and gains, from -1 to 1, shrunk where there are few."""
    moves, gains = pairs[:, 0], pairs[:, 1]
    length = math.sqrt(float((moves**2).sum() * (gains**2).sum()))
    n = np.count_nonzero(moves)
    return float((moves * gains).sum()) / length * n / (n + DOUBT) if length else 0.0


def _step(move: MoveKind, signal: Signal, direction: float, chance: np.random.Generator) -> float:
    """How far to move a number, and in which direction: from -1 to 1, as a share of the largest step."""
    trend = signal.trend if move != "exploratory" else -signal.trend
    length = LEAST + (1 - LEAST) * (1 + trend) / 2
    guess = 1.0 if chance.random() < 0.5 else -1.0
    jitter = chance.uniform(0.5, 1.0)
    clear = abs(direction) >= CLEAR
    towards = math.copysign(1.0, direction) if clear else guess
    match move:
        case "greedy":
            return towards * length * jitter
        case "conservative":
            return towards * length * jitter / 2
        case "exploratory":
            # Against a clear direction with a probability that grows with it; anywhere if none is clear.
            against = clear and chance.random() < (1 + abs(direction)) / 2
            return (-towards if against else guess) * length * jitter


def _move(gene: Gene, share: float, most: float) -> float | int:
    """The number moved by a share of its range, within its bounds and the largest allowed change."""
    step = min(max(share, -most), most) * _scale(gene)
    if gene.kind == "integer":
        step = math.copysign(max(1.0, math.floor(abs(step))), step) if step else 0.0
        moved = gene.value + step
        return int(moved) if clip(gene, moved) == moved else gene.value
    limit = most * _scale(gene)
    return float(min(max(clip(gene, gene.value + step), gene.value - limit), gene.value + limit))


def _option(move: MoveKind, gene: Gene, gains: Mapping[str, float], chance: np.random.Generator) -> Any:
    """Greedy: the option that gained most so far. Exploratory: any other, half the time. Conservative: the same."""
    at = chance.random()
    others = [option for option in gene.options if option != gene.value]
    if move == "greedy":
        best = max(others, key=lambda option: gains.get(repr(option), 0.0))
        return best if gains.get(repr(best), 0.0) > 0 else gene.value
    if move == "exploratory" and at < 0.5:
        return others[int(at * 2 * len(others))]
    return gene.value
