"""Forecast: the expected cost and power of a comparison, before anything is spent on it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from itertools import islice

from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.metrics.metric import Metric
from seedbed.experiments.experiment import Experiment, Mode, RuleChoice
from seedbed.experiments.options import DEFAULT, USUAL_ALPHA, USUAL_EFFECT, Comparing
from seedbed.experiments.proof.error_budget import BudgetTerms, next_level
from seedbed.experiments.proof.held_out import inputs_read
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.power import detectable_effect, sample_size
from seedbed.stats.sequential.planning import SamplePlan, plan, power_curve
from seedbed.storage.store import Json, Query, Store

USUAL_DISCORDANCE = 0.3
"""The default share of tasks on which two playbooks differ."""

LOOKED_AT = 100
"""The cost of a playbook is the mean of this many of its latest runs."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a comparison will be if it is begun now: which attempt at which level, or why it is exploratory, and then
    what to do. Of `fresh` of the `tasks` no result of the candidates is known, and they repeat no other task."""

    tasks: int
    fresh: int
    mode: Mode
    attempt: int
    level: float
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """What to expect of an experiment if scores differ on a share `discordance` of tasks and the gain is `effect`.

    `fixed` is how many tasks a test of fixed size would need for the same power, `detectable` the smallest effect that
    this one finds with 90 % power on all its tasks. Costs are those of each playbook's latest runs; None if there are
    none.
    """

    rule: str
    guarantee: str
    alpha: float
    units: int
    runs_per_unit: float
    effect: float
    discordance: float
    expected: SamplePlan
    curve: tuple[tuple[float, float], ...]
    fixed: int
    detectable: float
    usd_per_unit: float | None
    tags: int = 0
    """Of how many tags it is found out after a superior verdict whether the candidate is worse on them."""
    tag_units: int = 0
    """How many units these have: so many may be run in all."""
    prospect: Prospect | None = None

    def usd(self, units: float) -> float | None:
        """The expected cost of this many units."""
        return None if self.usd_per_unit is None else units * self.usd_per_unit

    def document(self) -> Json:
        chances = asdict(self)
        cost = {name: self.usd(getattr(self.expected, f"tasks_if_{name}")) for name in ("equal", "better", "worse")}
        return {**chances, "curve": [list(each) for each in self.curve], "expected_cost_usd": cost}


def forecast(
    control: Playbook,
    candidate: Playbook,
    tasks: Dataset,
    metric: Metric,
    store: Store,
    options: Comparing = DEFAULT,
    prospect: Prospect | None = None,
) -> Forecast:
    """What to expect of a comparison with these options: at the level of the prospect, if that is known.

    Raises SeedbedError for an effect that cannot be found.
    """
    alpha, chosen = USUAL_ALPHA if options.alpha is None else options.alpha, options.registered_rule()
    if prospect and prospect.attempt:
        alpha = prospect.level
    choice: RuleChoice = chosen
    if options.channel:
        terms = options.terms or BudgetTerms()
        alpha = terms.alpha(next_level(store, options.channel, terms), chosen)
        choice = terms.rule(chosen)
    design = replace(options.design(alpha, choice), first_replicates=(0, 0), channel="")
    read = inputs_read(control, candidate)
    experiment = Experiment.plan(control.digest, candidate.digest, tasks, metric, models={}, design=design, inputs=read)
    expected = forecast_experiment(
        store, experiment, tasks, effect=options.effect or USUAL_EFFECT, discordance=options.discordance
    )
    expected = replace(expected, prospect=prospect)
    if options.exploratory or not options.slices:
        return expected
    by_terms = [terms.tags(experiment.units(tasks)) for terms in options.slices]
    units = {place for tags in by_terms for places in tags.values() for place in places}
    return replace(expected, tags=max(map(len, by_terms)), tag_units=len(units))


def forecast_experiment(
    store: Store,
    experiment: Experiment,
    tasks: Dataset,
    *,
    effect: float = USUAL_EFFECT,
    discordance: float | None = None,
) -> Forecast:
    """What to expect of an experiment. Raises SeedbedError for an effect or a discordance that cannot be."""
    rule, units = experiment.start(), experiment.units(tasks)
    share = max(USUAL_DISCORDANCE, effect) if discordance is None else discordance
    effects = [round(share * step / 10, 4) for step in range(11)]
    runs = experiment.replicates * len(tasks) / len(units)
    costs = [_usual_cost(store, playbook) for playbook in (experiment.control, experiment.candidate)]
    return Forecast(
        rule=rule.name,
        guarantee=rule.guarantee,
        alpha=rule.alpha,
        units=len(units),
        runs_per_unit=2 * runs,
        effect=effect,
        discordance=share,
        expected=plan(rule, effect=effect, discordance=share),
        curve=tuple(power_curve(rule, effects=effects, discordance=share)),
        fixed=sample_size(effect, share, alpha=rule.alpha),
        detectable=detectable_effect(len(units), share, alpha=rule.alpha),
        usd_per_unit=None if None in costs else runs * math.fsum(cost or 0.0 for cost in costs),
    )


def _usual_cost(store: Store, playbook: str) -> float | None:
    latest = list(islice(store.facts(Query(kind="run", subject=playbook, newest=True)), LOOKED_AT))
    return math.fsum(float(fact.body["cost_usd"]) for fact in latest) / len(latest) if latest else None
