"""Router: chooses a model for each call, by declared skill and outcomes, among those that can do it and fit the budget.

A choice depends on the cards, on the outcomes learned so far and on its seed, but not on earlier choices or on the
order of the models. Its chance is exact, so that other policies can be evaluated by it later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Literal, Self, TypeAlias

from seedbed.errors import BudgetSpent, ModelUnavailable, Problem, SeedbedError, SettingsError, shown
from seedbed.models.cards import Model, Registry
from seedbed.models.routing.request import Considered, ModelChoice, RoutingRequest
from seedbed.plugins import unknown
from seedbed.settings import Card
from seedbed.spending.ledger import LEAST_TOKENS
from seedbed.stats.bandits import ArmOutcomes, Belief, chances, draw, expectation, follow, level, mix

ModelsByName: TypeAlias = Registry | Mapping[str, Model]

FORGETTING = 0.1
"""The weight of the newest measurement in the moving averages of cost and latency, from the tenth on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingPolicy:
    """How the router chooses.

    A declared skill counts as `prior_strength` outcomes: enough to be followed at once, and outvoted by twice as many
    that say otherwise. Where nothing is declared, a model is expected to be as good as others are at this type of
    task, which counts as `guess_strength` outcomes, and as much better or worse as it was at other types, which counts
    as at most `borrowed` more. Beliefs are `sharpness` times as firm when choosing as when learning, since plain
    Thompson sampling explores more than a few hundred choices can pay back; in return a share `explore` of choices
    is random. A model that costs as much as the average of those that fit loses `cost_weight` of quality, one that
    costs twice as much loses twice that; the same holds for latency. After `half_life` further outcomes of its type an
    outcome counts half.
    """

    prior_strength: float = 12.0
    guess_strength: float = 1.0
    borrowed: float = 20.0
    sharpness: float = 20.0
    explore: float = 0.03
    cost_weight: float = 0.005
    latency_weight: float = 0.002
    half_life: float = 200.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            above = name in ("prior_strength", "guess_strength", "sharpness", "half_life")
            most = 1 if name == "explore" else math.inf
            if not (0 <= value <= most and math.isfinite(value)) or (above and value == 0):
                expected = "a share from 0 to 1" if most == 1 else f"a finite number {'above' if above else 'from'} 0"
                raise SettingsError([Problem(f"routing.{name}", shown(value), expected)])


@dataclass(slots=True)
class _Record:
    """The record of a model at one type of task: decayed sums of scores and outcomes, moving averages."""

    score: float = 0.0
    weight: float = 0.0
    costs: int = 0
    cost_usd: float | None = None
    latencies: int = 0
    latency_seconds: float | None = None

    @property
    def seen(self) -> ArmOutcomes:
        return ArmOutcomes(self.score, self.weight)


@dataclass(frozen=True, slots=True)
class _Rejection:
    why: Literal["capability", "context", "money"]
    text: str


class Router:
    """Chooses among models and learns from outcomes."""

    def __init__(self, models: ModelsByName, policy: RoutingPolicy | None = None) -> None:
        self.policy = policy or RoutingPolicy()
        self._models = {name: models[name] for name in sorted(models)}
        self._records: dict[str, dict[str, _Record]] = {}
        self._levels: dict[str, float] = {}

    def choose(self, request: RoutingRequest) -> ModelChoice:
        """The model for one call.

        Raises BudgetSpent if no model fits and one would for more money, otherwise ModelUnavailable; both say of every
        model why not.
        """
        self._check(request)
        task_type, prefer = request.task_type, request.prefer
        costs_usd, fitting, rejected = self._fitting(request)
        costs = self._costs(task_type, costs_usd)
        beliefs = {name: self.belief(task_type, name, request.needs) for name in fitting}
        balanced = request.quality == "balanced"
        penalties = self._penalties(task_type, fitting, costs) if balanced else dict.fromkeys(fitting, 0.0)
        if prefer in fitting:
            chosen, because, odds = prefer, "it is preferred", {name: float(name == prefer) for name in fitting}
        else:
            chosen, because, odds = self._draw(task_type, request.seed, beliefs, penalties)
        if prefer in rejected:
            because += f"; {prefer} is preferred, but {rejected[prefer].text}"
        considered = [
            Considered(
                model=name,
                expected=beliefs[name].mean,
                score=beliefs[name].mean - penalties[name],
                cost_usd=costs[name],
                chance=odds[name],
            )
            for name in fitting
        ]
        considered += [Considered(model=name, rejected=rejected[name].text) for name in sorted(rejected)]
        return ModelChoice(
            model=chosen,
            propensity=odds[chosen],
            considered=tuple(considered),
            because=because,
            task_type=task_type,
            quality=request.quality,
            preferred=chosen == prefer,
        )

    def _check(self, request: RoutingRequest) -> None:
        if request.quality not in ("balanced", "maximum"):
            raise SettingsError([Problem("quality", shown(request.quality), "balanced or maximum")])
        if request.prefer is not None and request.prefer not in self._models:
            remedy = "Choose one of them, or leave prefer out."
            raise SettingsError([unknown("prefer", request.prefer, self._models, remedy, kind="model")])

    def _fitting(self, request: RoutingRequest) -> tuple[dict[str, float | None], list[str], dict[str, _Rejection]]:
        """The most that each model that fits may cost, their names, and why the others were rejected."""
        prompt, reply = request.prompt_tokens, request.max_tokens
        most = prompt if request.most_prompt_tokens is None else request.most_prompt_tokens
        estimates = {name: _CallEstimate(model, prompt, reply) for name, model in self._models.items()}
        highest = {name: _CallEstimate(model, most, reply) for name, model in self._models.items()}
        limits = [(request.affordable, "left"), (request.max_cost_usd, "allowed")]
        limit, which = min(((usd, word) for usd, word in limits if usd is not None), default=(math.inf, ""))
        rejected: dict[str, _Rejection] = {}
        for name, estimate in estimates.items():
            if why := estimate.rejection(request.needs) or (which and highest[name].over_limit(limit, which)):
                rejected[name] = why
        fitting = [name for name in estimates if name not in rejected]
        if not fitting:
            raise _nothing_fits(request.task_type, rejected)
        cut = [name for name in fitting if (highest[name].cost_usd or 0.0) > limit]
        if len(cut) < len(fitting):
            rejected |= dict.fromkeys(cut, _Rejection("money", f"${limit:.6f} {which} would cut its reply short"))
            fitting = [name for name in fitting if name not in cut]
        return {name: estimates[name].cost_usd for name in fitting}, fitting, rejected

    def learn(
        self, task_type: str, model: str, score: float, cost_usd: float | None, latency_seconds: float | None
    ) -> None:
        """Learn from an outcome: a score from 0 to 1, with its cost and latency if they are known."""
        if not 0 <= score <= 1:
            raise SeedbedError(f"score: found {shown(score)}; expected a number from 0 to 1")
        for name, value in (("cost_usd", cost_usd), ("latency_seconds", latency_seconds)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise SeedbedError(f"{name}: found {shown(value)}; expected a finite number from 0, or None")
        task = self._records.setdefault(task_type, {})
        decay = 0.5 ** (1 / self.policy.half_life)
        for record in task.values():
            record.score *= decay
            record.weight *= decay
        record = task.setdefault(model, _Record())
        record.score += score
        record.weight += 1
        if cost_usd is not None:
            record.costs += 1
            record.cost_usd = follow(record.cost_usd, cost_usd, record.costs, FORGETTING)
        if latency_seconds is not None:
            record.latencies += 1
            record.latency_seconds = follow(record.latency_seconds, latency_seconds, record.latencies, FORGETTING)
        self._levels[task_type] = self._level(task_type)

    def belief(self, task_type: str, model: str, needs: Sequence[str] = ()) -> Belief:
        """The belief about a model at a type of task: from the skill its card declares, and from outcomes."""
        declared = _declared(self._models[model].card, task_type, needs)
        if declared is not None:
            prior = Belief.prior(declared, self.policy.prior_strength)
        else:
            elsewhere = [
                (task[model].seen, self._levels[other])
                for other, task in sorted(self._records.items())
                if other != task_type and model in task
            ]
            here = self._levels.get(task_type) or self._level(task_type)
            prior = expectation(here, elsewhere, self.policy.guess_strength, self.policy.borrowed)
        record = self._records.get(task_type, {}).get(model, _Record())
        return Belief(prior.good + record.score, prior.bad + record.weight - record.score)

    def _level(self, task_type: str) -> float:
        task = self._records.get(task_type, {})
        # In the order of names, so that sums do not depend on the order of outcomes.
        return level((task[name].seen for name in sorted(task)), self.policy.guess_strength)

    @classmethod
    def from_outcomes(
        cls, models: ModelsByName, outcomes: Iterable[Mapping[str, Any]], policy: RoutingPolicy | None = None
    ) -> Self:
        """The router that learned these outcomes, the oldest first: facts of kind "outcome"."""
        router = cls(models, policy)
        for each in outcomes:
            router.learn(
                each["task_type"], each["model"], each["score"], each.get("cost_usd"), each.get("latency_seconds")
            )
        return router

    def _draw(
        self, task_type: str, seed: int | str, beliefs: Mapping[str, Belief], penalties: Mapping[str, float]
    ) -> tuple[str, str, dict[str, float]]:
        if len(beliefs) == 1:
            (only,) = beliefs
            return only, "no other model fits", {only: 1.0}
        firm = {name: belief.sharpened(self.policy.sharpness) for name, belief in beliefs.items()}
        best = chances(firm, penalties)
        odds = mix(best, self.policy.explore)
        # The choice is drawn from the computed chances, not from the beliefs: so the propensity is exact.
        if _uniform("explore", seed, task_type) < self.policy.explore:
            chosen = draw(dict.fromkeys(best, 1 / len(best)), _uniform("choose", seed, task_type))
            return chosen, f"chosen blindly out of {len(best)}, as {self.policy.explore:.0%} of all are", odds
        chosen = draw(best, _uniform("choose", seed, task_type))
        expected = f"expected {beliefs[chosen].mean:.2f}, less {penalties[chosen]:.2f} for cost and latency"
        return chosen, f"{expected}: the best of {len(best)} with chance {best[chosen]:.2f}", odds

    def _costs(self, task_type: str, most: Mapping[str, float | None]) -> dict[str, float | None]:
        """The expected cost of a call: as measured, otherwise the share of the most it can cost that others needed."""
        task = self._records.get(task_type, {})
        measured = {name: task[name].cost_usd for name in most if name in task}
        both = [(paid, highest) for name, paid in measured.items() if paid is not None and (highest := most[name])]
        share = min(1.0, sum(paid for paid, _ in both) / sum(highest for _, highest in both)) if both else 1.0
        costs: dict[str, float | None] = {}
        for name, highest in most.items():
            paid = measured.get(name)
            costs[name] = paid if paid is not None else None if highest is None else highest * share
        return costs

    def _penalties(self, task_type: str, fitting: Sequence[str], costs: Mapping[str, float | None]) -> dict[str, float]:
        task = self._records.get(task_type, {})
        latencies = {name: task[name].latency_seconds if name in task else None for name in fitting}
        cost, latency = _relative(costs), _relative(latencies)
        policy = self.policy
        return {name: policy.cost_weight * cost[name] + policy.latency_weight * latency[name] for name in fitting}


@dataclass(frozen=True, slots=True)
class _CallEstimate:
    """The tokens of one call to a model, and the most that it may cost."""

    model: Model
    prompt_tokens: int
    max_tokens: int

    @property
    def cost_usd(self) -> float | None:
        return self.model.cost_usd(self.prompt_tokens, self.max_tokens)

    def rejection(self, needs: Sequence[str]) -> _Rejection | None:
        if missing := [need for need in needs if not self.model.card.masters(need)]:
            return _Rejection("capability", f"it cannot do {', '.join(missing)}")
        tokens, room = self.prompt_tokens + self.max_tokens, self.model.card.context_tokens
        if room is not None and tokens > room:
            return _Rejection("context", f"its context holds {room:,} tokens, prompt and reply take {tokens:,}")
        return None

    def over_limit(self, limit_usd: float, which: str) -> _Rejection | None:
        least = self.model.cost_usd(self.prompt_tokens, min(LEAST_TOKENS, self.max_tokens))
        if least is None:
            return _Rejection("money", "its price is not known, and there is a limit")
        if least > limit_usd:
            return _Rejection("money", f"even a short reply may cost ${least:.6f}, ${limit_usd:.6f} is {which}")
        return None


def _declared(card: Card, task_type: str, needs: Sequence[str]) -> float | None:
    """The skill that a card declares for a type of task, or the lowest of its skills in what is needed."""
    skill = card.skill
    if task_type in skill:
        return skill[task_type]
    return min(skill[need] for need in needs) if needs and all(need in skill for need in needs) else None


def _relative(values: Mapping[str, float | None]) -> dict[str, float]:
    """Each value relative to the average of the known ones. An unknown value counts as average."""
    known = [value for value in values.values() if value is not None]
    average = math.fsum(known) / len(known) if known else 0.0
    return {name: value / average if value is not None and average else 1.0 for name, value in values.items()}


def _uniform(purpose: str, seed: int | str, task_type: str) -> float:
    """A number in [0, 1) that depends on the arguments alone."""
    drawn_bytes = blake2b(f"{purpose}|{seed}|{task_type}".encode(), digest_size=8).digest()
    return (int.from_bytes(drawn_bytes) >> 11) / 2**53


def _nothing_fits(task_type: str, rejected: Mapping[str, _Rejection]) -> SeedbedError:
    listed = "; ".join(f"{name}: {rejected[name].text}" for name in sorted(rejected)) or "there are no models"
    message = f"found no model for {shown(task_type)}: {listed}. Expected one that fits"
    reasons = {each.why for each in rejected.values()}
    if "money" in reasons:
        return BudgetSpent(f"{message}. Raise the limit, ask for a shorter reply, or add a cheaper model")
    if "context" in reasons:
        remedy = "Shorten the prompt or the reply, or add a model with a larger context"
        return ModelUnavailable(f"{message}. {remedy}", "context")
    return ModelUnavailable(f"{message}. Add a model that can, or drop what is not needed", "ours")
