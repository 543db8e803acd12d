"""Comparing: how a comparison is decided. SettingsError names the option that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from seedbed.errors import Problem, SettingsError, shown
from seedbed.experiments.experiment import RULE_NAMES, Design, Mode, RuleChoice
from seedbed.experiments.proof.attempts import AttemptTerms
from seedbed.experiments.proof.error_budget import BudgetTerms
from seedbed.experiments.slices import SliceTerms
from seedbed.playbooks.values import is_number, is_whole
from seedbed.plugins import unknown
from seedbed.stats.sequential.betting import BettingGoal

USUAL_ALPHA = 0.05
USUAL_EFFECT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """How a comparison is decided: which stopping rule, at which error rate, for what goal.

    `rule` is a name (exact, betting, gsprt, sprt), or a mapping of a name and further settings of that rule. Default:
    the exact test where each task is one run that passes or fails, else betting. Raises SettingsError with a problem
    for each option that does not fit.
    """

    rule: RuleChoice = None
    alpha: float | None = None
    """The highest chance of a false winner. Default: 0.05, or what the channel's error budget allows."""
    effect: float | None = None
    """The gain worth having: the comparison ends sooner if the candidate falls short of it."""
    goal: BettingGoal = "superior"
    margin: float | None = None
    """How much worse still counts as not worse."""
    replicates: int = 1
    """How often each task is run."""
    first_replicate: int | tuple[int, int] = 0
    """The first replicate of each task, for both arms or for each: a replicate without a result is run."""
    discordance: float | None = None
    """The share of tasks on which scores will differ; for the rule sprt, and for a forecast."""
    seed: int = 0
    """Draws the order of the tasks, and the sample of past runs."""
    channel: str = ""
    """The channel whose error budget pays for the comparison; the budget sets the error rate."""
    terms: BudgetTerms | None = None
    """The terms of that budget, which a workspace takes from its settings."""
    exploratory: bool = False
    """Whether the comparison is only to find out: it may not release anything, and is no attempt to."""
    fresh: bool = False
    """Whether only units are compared that are new to both arms; a workspace sets this for tasks named `NAME:fresh`."""
    attempts: AttemptTerms | None = None
    """How attempts to replace the control share the error rate, if a channel serves it; a workspace takes this from its
    settings. None if no channel does: the comparison is exploratory."""
    slices: tuple[SliceTerms, ...] = ()
    """How to look for tags on which the candidate is worse, after a verdict that may release it; a workspace takes this
    from the gates `no_slice_worse` of the channels that serve the control."""

    def __post_init__(self) -> None:
        if problems := [*self._problems()]:
            raise SettingsError(problems)

    @property
    def rule_name(self) -> str | None:
        """The name of the rule, if one was chosen."""
        return self.rule.get("rule") if isinstance(self.rule, Mapping) else self.rule

    @property
    def first_replicates(self) -> tuple[int, int]:
        """The first replicates of the control and the candidate."""
        first = self.first_replicate
        return (first, first) if isinstance(first, int) else first

    def registered_rule(self) -> dict[str, Any]:
        """The rule as an experiment registers it: only what was chosen."""
        rule: dict[str, Any] = {"rule": self.rule} if isinstance(self.rule, str) else dict(self.rule or {})
        if self.goal != "superior" or self.margin is not None:
            rule |= {"rule": "betting", "goal": self.goal, "margin": self.margin}
        if self.effect is not None:
            rule["effect"] = self.effect
        if self.rule == "gsprt" and self.replicates == 2:
            rule["repeats"] = 2
        if self.rule == "sprt":
            rule["discordance"] = self.discordance
        return rule

    def design(self, alpha: float, rule: RuleChoice, mode: Mode = "exploratory", attempt: int = 0) -> Design:
        """The design that an experiment registers, with this rule at this error rate."""
        return Design(alpha, rule, self.seed, self.replicates, self.first_replicates, self.channel, mode, attempt)

    def _problems(self) -> list[Problem]:
        problems = []

        def expect(holds: bool, path: str, actual: object, expected: str) -> None:
            if not holds:
                problems.append(Problem(path, shown(actual), expected))

        name = self.rule_name
        if name is not None and not (isinstance(name, str) and name in RULE_NAMES):
            problems.append(unknown("rule", name, RULE_NAMES))
        expect(self.goal in get_args(BettingGoal), "goal", self.goal, f"one of {', '.join(get_args(BettingGoal))}")
        alpha = USUAL_ALPHA if self.alpha is None else self.alpha
        expect(is_number(alpha) and 0 < alpha < 0.5, "alpha", alpha, "above 0 and below 0.5")
        for path, size in (("effect", self.effect), ("margin", self.margin)):
            expect(size is None or (is_number(size) and 0 < size < 1), path, size, "above 0 and below 1")
        expect(isinstance(self.discordance, int | float | None), "discordance", self.discordance, "a share, up to 1")
        count, first = self.replicates, self.first_replicates
        expect(is_whole(count) and count >= 1, "replicates", count, "at least 1, a whole number")
        fits = isinstance(first, tuple) and len(first) == 2 and all(is_whole(each) and each >= 0 for each in first)
        expect(fits, "first_replicate", self.first_replicate, "at least 0, a whole number or two")
        expect(is_whole(self.seed), "seed", self.seed, "a whole number")
        expect(isinstance(self.channel, str), "channel", self.channel, "the name of a channel")
        return problems or [*self._misfits()]

    def _misfits(self) -> list[Problem]:
        """Options that do not fit together."""
        problems = []
        effect, discordance = self.effect, self.discordance
        if discordance is not None and not (effect or USUAL_EFFECT) <= discordance <= 1:
            expected = f"from the effect, {effect or USUAL_EFFECT}, to 1"
            problems.append(Problem("discordance", f"{discordance}", expected))
        if self.goal != "superior" and self.margin is None:
            problems.append(Problem("margin", f"none for the goal {self.goal}", "one such as 0.05"))
        if self.margin is not None and self.rule_name not in (None, "betting"):
            problems.append(Problem("rule", f"{self.rule_name} with a margin", "betting, which keeps one"))
        if isinstance(self.rule, str) and self.rule in ("gsprt", "sprt") and effect is None:
            problems.append(Problem("effect", f"none for the rule {self.rule}", "one such as 0.1"))
        if self.rule == "sprt" and not problems and (discordance is None or discordance == effect):
            actual = f"{discordance or 'none'} for the rule sprt"
            problems.append(Problem("discordance", actual, "above the effect, such as 0.3"))
        return problems


DEFAULT = Comparing()
