"""A comparison as people see it: texts and numbers, for people who know no statistics and for those who do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.experiments.experiment import Unit
from seedbed.experiments.proof.certificate import CLAIMS, Certificate
from seedbed.experiments.slices import SliceProgress
from seedbed.experiments.verdict import Verdict, in_words, missing_in_words
from seedbed.reports.numbers import TableRow, cost, number, playbook_name, plus, shortened, split_text
from seedbed.stats.effects import cohen_dz, cohen_g, odds_ratio
from seedbed.stats.estimates import Interval
from seedbed.stats.scores import difference_interval
from seedbed.stats.sequential import RULES
from seedbed.stats.sequential.betting import Betting, bets, interval
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.stats.sequential.stopping_rule import Answer
from seedbed.storage.store import Json, canonical, short

SHORTLY = {
    "superior": "Yes: ",
    "inferior": "No: ",
    "futile": "No: ",
    "inconclusive": "Undecided: ",
    "invalid": "Nothing can be said: ",
}
"""The first words of an answer."""

STATISTIC = {ExactMcNemar.name: "lead", Betting.name: "ln e"}
"""The statistic of each rule in the status line; the other rules use a log-likelihood ratio."""

NO_TASKS = Dataset(())

NamePair: TypeAlias = tuple[str, str]
"""The names of the control and the candidate."""


@dataclass(frozen=True)
class ExperimentView:
    """A comparison as people see it, in texts and numbers. Without a certificate: what the verdict says itself."""

    verdict: Verdict
    certificate: Certificate | None = None
    tasks: Dataset = NO_TASKS
    called: NamePair | None = None

    @classmethod
    def of(cls, certificate: Certificate, tasks: Dataset, names: NamePair | None = None) -> ExperimentView:
        return cls(certificate.verdict, certificate, tasks, names)

    @cached_property
    def names(self) -> NamePair:
        """The names that people gave; without one, the part that a playbook has, with its digest."""
        control, candidate = self.called or ("", "")
        if playbook_name(control) != playbook_name(candidate):
            control, candidate = playbook_name(control), playbook_name(candidate)
        return (
            shortened(control, 60) or f"control {short(self.verdict.control)}",
            shortened(candidate, 60) or f"candidate {short(self.verdict.candidate)}",
        )

    @property
    def rule(self) -> Json:
        """The registered rule, as far as it is known."""
        plan = self.certificate and self.certificate.experiment
        return plan.rule if plan else {"rule": self.verdict.rule, "alpha": self.verdict.alpha}

    @property
    def path(self) -> Sequence[Answer]:
        """What the rule answered after each unit."""
        return self.certificate.path if self.certificate else ()

    @cached_property
    def units(self) -> list[Unit]:
        """The units that were read, in registered order."""
        plan = self.certificate and self.certificate.experiment
        return plan.units(self.tasks)[: self.verdict.tasks] if plan else []

    @cached_property
    def gains(self) -> list[float]:
        """By how much the candidate did better on each unit that was read."""
        sign = 1.0 if self.verdict.better == "higher" else -1.0
        read = zip(self.verdict.scores, self.verdict.outcomes, strict=False)
        return [0.0 if outcome == "=" else sign * (after - before) for (before, after), outcome in read]

    @property
    def things(self) -> str:
        """What the units are called."""
        if self.verdict.live or not self.certificate:
            return self.verdict.things
        return "sources" if any(len(unit) > 1 for unit in self.certificate.experiment.units(self.tasks)) else "tasks"

    # The conclusion

    @property
    def subtitle(self) -> str:
        verdict, (control, candidate) = self.verdict, self.names
        where = "live" if verdict.live else f"on dataset {short(verdict.dataset)}"
        which = f"{candidate}: {short(verdict.candidate)}, {control}: {short(verdict.control)}"
        return f"{verdict.metric} {where}. {which}" if any(self.called or ()) else f"{verdict.metric} {where}"

    @property
    def sentence(self) -> str:
        """The answer for people who know no statistics."""
        verdict = self.verdict
        answer = f"{SHORTLY.get(verdict.finding, '')}{in_words(verdict, self.rule, self.names, self.things)}."
        if verdict.finding == "inconclusive":
            answer += " That does not prove that they are equally good; more tasks might settle it."
        if not verdict.tasks:
            return answer
        counts = (
            f"The candidate did better on {verdict.wins:,}, worse on {verdict.losses:,} and as well on "
            f"{verdict.ties:,} of {verdict.tasks:,} {self.things}."
        )
        bound = "" if verdict.at_least is None else f"It is better by at least {number(verdict.at_least)}."
        warning = f"{verdict.warning[:1].upper()}{verdict.warning[1:]}." if verdict.warning else ""
        return " ".join(filter(None, (answer, counts, bound, self._error_rate, warning)))

    @property
    def _error_rate(self) -> str:
        """How often such an answer is wrong."""
        verdict = self.verdict
        wrong, rate = {
            "superior": ("not better would be called better", verdict.alpha),
            "inferior": ("not worse would be called worse", verdict.alpha),
            "non-inferior": ("worse by more than that would pass", verdict.alpha),
            "equivalent": ("further apart would be called equivalent", verdict.alpha),
            "futile": ("as good as hoped for would be given up", self.rule.get("beta") or 0.0),
        }.get(verdict.finding, ("", 0.0))
        if not wrong or not rate:
            return ""
        often = f"{100 * rate:g} of 100 such comparisons"
        if RULES[verdict.rule].guaranteed:
            return f"A candidate that is {wrong} in at most {often}."
        return f"By design, but without a guarantee, a candidate that is {wrong} in {often}."

    @property
    def alarm(self) -> str:
        """What to know before anything else, if the verdict is not what it says."""
        count = len(self.problems)
        what = "1 thing differs" if count == 1 else f"{count} things differ"
        return f"Do not rely on this verdict: when recomputed from the recorded facts, {what}." if count else ""

    @property
    def problems(self) -> list[str]:
        """What differs when everything is computed again."""
        return [str(problem) for problem in self.certificate.problems] if self.certificate else []

    @property
    def status(self) -> str:
        """All in one line, as engine testers know it."""
        verdict = self.verdict
        parts = [
            f"tasks {verdict.tasks}/{verdict.at_most}",
            f"W {verdict.wins} T {verdict.ties} L {verdict.losses}",
            f"delta {100 * verdict.difference:+.1f} [{_percent(verdict.low)},{_percent(verdict.high)}]",
        ]
        if self.path:
            last = self.path[-1]
            bounds = ",".join("–" if bound is None else f"{bound:.2f}" for bound in (last.low, last.high))
            least, effect = self.rule.get("d0") or 0.0, self.rule.get("effect")
            between = "" if effect is None else f" [{least:.2f},{least + effect:.2f}]"
            parts.insert(0, f"{STATISTIC.get(verdict.rule, 'LLR')} {last.evidence:.2f} ({bounds}){between}")
        return " | ".join(parts)

    # Figures

    @property
    def plain(self) -> Interval:
        """The difference as it was seen, candidate minus control."""
        return _known(self.verdict.difference, self.verdict.low, self.verdict.high, self.verdict.tasks)

    @property
    def adjusted(self) -> Interval | None:
        """The difference without what stopping early adds to it, candidate minus control; None if the rule has none."""
        verdict = self.verdict
        if verdict.estimate is None:
            return None
        mean, low, high = verdict.estimate, verdict.estimate_low, verdict.estimate_high
        if verdict.better == "lower":
            mean, low, high = -mean, None if high is None else -high, None if low is None else -low
        return _known(mean, low, high, verdict.tasks)

    @property
    def figures(self) -> list[TableRow]:
        """Each number with what it means."""
        verdict = self.verdict
        saved = verdict.at_most - verdict.tasks
        why = f"{saved:,} did not have to be run" if saved and verdict.tasks else ""
        read = f"{verdict.tasks:,}" if verdict.live else f"{verdict.tasks:,} of at most {verdict.at_most:,}"
        lines: list[TableRow] = [(f"{self.things} read", read, why), *self._arms()]
        if verdict.tasks:
            lines += [*self._means(), *self._tests(), *self._effects()]
        lines.append(("rule", verdict.rule, verdict.guarantee))
        lines.append(("cost", cost(verdict.cost_usd, verdict.unpriced), "of all runs that were read"))
        return lines

    def _arms(self) -> Iterator[TableRow]:
        for name, arm in zip(self.names, ("control", "candidate"), strict=True):
            if counts := self.verdict.live.get(arm):
                yield f"units served by {name}", f"{counts['units']:,}", f"{counts['known']:,} have a known outcome"
        if ratio := self.verdict.live.get("ratio"):
            split, _, why = split_text(**ratio).partition(": ")
            yield "split of the units", split, why

    def _means(self) -> Iterator[TableRow]:
        verdict, (control, candidate) = self.verdict, self.names
        yield f"{verdict.metric} of {control}", number(verdict.control_mean), f"{verdict.better} is better"
        yield f"{verdict.metric} of {candidate}", number(verdict.candidate_mean), f"{verdict.better} is better"
        if self.adjusted is None:
            yield "difference as seen", _one_text(self.plain), "the plain mean"
            yield "difference, stop-adjusted", "–", "this rule has none"
            return
        yield "difference as seen", plus(verdict.difference), "the plain mean"
        if verdict.rule == Betting.name:
            why = "the same mean, with an interval that holds at every look, so it is wider"
        else:
            why = (
                "a test that stops early often stops on a lucky streak, so its plain mean is too far from 0; this one "
                "is too large as often as too small"
            )
        if verdict.finding in ("superior", "inferior") and self.adjusted.low <= 0 <= self.adjusted.high:
            why += "; it can include 0, because it covers both sides and the rule only one"
        yield "difference, stop-adjusted", _one_text(self.adjusted), why
        if verdict.at_least is not None:
            why = "the candidate is better by at least this much, with the error rate of the test"
            yield "at least", plus(verdict.at_least), why

    def _tests(self) -> Iterator[TableRow]:
        verdict = self.verdict
        yield "better, same, worse", f"{verdict.wins:,}, {verdict.ties:,}, {verdict.losses:,}", f"{self.things}"
        if verdict.p is not None:
            yield "p", f"{verdict.p:.2g}", "the chance of a result at least as good if the candidate were no better"
        if verdict.e is not None:
            why = f"how many times its stake a bet on the candidate made; {1 / verdict.alpha:g} is enough"
            yield "e", f"{verdict.e:.3g}", why
        spent = f"{self.path[-1].spent:.2g} of it was used by the end" if self.path else ""
        yield "error rate (alpha)", f"{verdict.alpha:g}", spent

    def _effects(self) -> Iterator[TableRow]:
        verdict = self.verdict
        if {*self.gains} <= {-1.0, 0.0, 1.0}:
            if verdict.wins + verdict.losses:
                # As seen, so without the intervals of a number of tasks fixed in advance, which are too narrow here.
                ratio, share = odds_ratio(verdict.wins, verdict.losses), cohen_g(verdict.wins, verdict.losses)
                won = "∞" if math.isinf(ratio.mean) else number(ratio.mean)
                yield "matched odds ratio", won, f"{self.things} won for each one lost"
                yield "Cohen's g", plus(share.mean), "how far the share of wins is from one half, without ties"
        elif math.isfinite(size := cohen_dz([0.0] * len(self.gains), self.gains)):
            yield "Cohen's d_z", f"{size:+.2f}", "the gain in standard deviations of the differences"

    # What it rests on

    @property
    def failures(self) -> str:
        """What counted as a failure, and how often."""
        if self.verdict.live:
            return "Units without an outcome do not count. If one side has more of them, the verdict is invalid."
        if not self.certificate:
            return f"{len(self.verdict.failed):,} runs counted as failures."
        plan, failed, unscored = self.certificate.experiment, len(self.verdict.failed), len(self.verdict.unscored)
        runs = 2 * plan.replicates * sum(map(len, self.units))
        rule = f"A run that fails, takes too long or cannot be scored counts as {plan.failure_counts_as:g}."
        if not failed:
            return f"{rule} That happened in none of {runs:,} runs."
        missing = missing_in_words(self.verdict)
        also = f"; {unscored:,} of them completed but got no score" if unscored and not missing else ""
        gone = f" Missing: {missing}." if missing else ""
        return f"{rule} That happened in {failed:,} of {runs:,} runs{also}.{gone}"

    @property
    def flags(self) -> list[TableRow]:
        """Each claim about how the verdict came about: whether it holds, and the claim in words."""
        flags = self.certificate.flags if self.certificate else {}
        lines: list[TableRow] = [
            ("✓ yes" if holds else "✗ no", CLAIMS[name][not holds] if name in CLAIMS else name.replace("_", " "))
            for name, holds in flags.items()
        ]
        for judge, known in self.verdict.judges.items():
            checked = "never checked against people" if known is None else f"kappa {known['kappa']:.2f} with people"
            lines.append(("✓ yes" if known else "✗ no", f"Judge {short(judge)}: {checked}"))
        return lines

    @property
    def hacking(self) -> list[TableRow]:
        """What the outputs were searched for, the gain that remains without it, and what was seen."""
        return [
            ("✗ yes" if sign.is_found else "✓ no", sign.name, plus(sign.gain), str(sign)) for sign in self.verdict.signs
        ]

    @property
    def registered(self) -> list[TableRow]:
        """What was fixed before anything was run."""
        verdict, known = self.verdict, self.certificate
        ends: list[TableRow] = [
            ("control", verdict.control),
            ("candidate", verdict.candidate),
            ("experiment", verdict.experiment),
            ("evidence", verdict.evidence),
            ("to check", f"seedbed evidence verify {short(verdict.experiment)}"),
        ]
        if not known:
            return [row for row in ends if row[1]]
        plan = known.experiment
        settings = {name: value for name, value in plan.rule.items() if name != "rule" and value is not None}
        tasks = f"{plan.dataset}, {len(plan.order):,} tasks in an order drawn from seed {plan.seed}"
        lines: list[TableRow] = [
            ("hypothesis", plan.hypothesis),
            *ends[:2],
            ("live", canonical(verdict.live["source"])) if verdict.live else ("dataset", tasks),
            ("metric", canonical(plan.metric)),
            ("rule", f"{plan.rule['rule']}: " + ", ".join(f"{name} {value}" for name, value in settings.items())),
            ("runs of each task", "" if verdict.live else f"{plan.replicates} by each playbook"),
            ("channel", plan.channel),
            *ends[2:],
        ]
        return [row for row in lines if row[1]]

    @property
    def attempts(self) -> list[TableRow]:
        """All attempts to replace the control, with their shares of one error rate."""
        tried = self.certificate.attempts if self.certificate else ()
        return [
            (f"{each.number}", short(each.candidate), f"{each.share:.4f}", f"{each.level:.2g}", each.finding)
            for each in tried
        ]

    # Tasks

    @property
    def flip_heads(self) -> TableRow:
        return ("place", "task", "inputs", *(shortened(name) for name in self.names))

    @cached_property
    def flips(self) -> dict[str, list[TableRow]]:
        """The tasks that got worse and those that got better, the largest change first, with both scores."""
        if self.verdict.live or not self.units:
            return {}
        places = sorted(range(min(len(self.gains), len(self.units))), key=lambda place: -abs(self.gains[place]))
        worse = [self._flip(place) for place in places if self.gains[place] < 0]
        return {"Got worse": worse, "Got better": [self._flip(place) for place in places if self.gains[place] > 0]}

    def _flip(self, place: int) -> TableRow:
        unit, (before, after) = self.units[place], self.verdict.scores[place]
        name = shortened(unit[0].id) if len(unit) == 1 else f"{shortened(unit[0].source)} ({len(unit)} tasks)"
        inputs = shortened(" / ".join(map(_inputs, unit)), 160)
        return f"{place + 1}", name, inputs, number(before), number(after)

    @cached_property
    def strata(self) -> list[tuple[str, Interval]]:
        """The difference, candidate minus control, on the tasks of each tag, the worst first: as it was found out after
        the verdict, or else on the tasks that it read."""
        places: dict[str, list[float]] = {}
        for unit, (before, after) in zip(self.units, self.verdict.scores, strict=False):
            for tag in {tag for task in unit for tag in task.tags}:
                places.setdefault(tag, []).append(after - before)
        by_tag = {tag: difference_interval(differences) for tag, differences in sorted(places.items())}
        for each in self.verdict.slices.tags if self.verdict.slices else ():
            by_tag[each.tag] = _known(each.difference, each.low, each.high, each.tasks)
        sign = 1.0 if self.verdict.better == "higher" else -1.0
        return sorted(by_tag.items(), key=lambda row: sign * row[1].mean)


def _one_text(interval: Interval) -> str:
    if not math.isfinite(interval.low):
        return f"{plus(interval.mean)} (no spread, so no interval)"
    return f"{plus(interval.mean)} ({plus(interval.low)} to {plus(interval.high)})"


def _known(mean: float, low: float | None, high: float | None, n: int) -> Interval:
    return Interval(mean, -math.inf if low is None else low, math.inf if high is None else high, 0.95, n)


def _percent(bound: float | None) -> str:
    return "–" if bound is None else f"{100 * bound:+.1f}"


def _inputs(task: Task) -> str:
    texts = (f"{name}: {value if isinstance(value, str) else canonical(value)}" for name, value in task.inputs.items())
    return ", ".join(texts)


def status_line(answer: Answer, total: int, alpha: float) -> str:
    """A comparison so far in one line, or after its verdict how far its tags are decided."""
    if isinstance(answer, SliceProgress):
        return f"superior; is it worse on any tag? {answer.open} of {answer.tags} open | tasks {answer.tasks}/{total}"
    low, high = interval({1.0: answer.wins, 0.0: answer.ties, -1.0: answer.losses}, bets())
    return (
        f"tasks {answer.n}/{total} | W {answer.wins} T {answer.ties} L {answer.losses} | "
        f"ends at {'–' if answer.boundary is None else answer.boundary} | spent {answer.spent:.3f}/{alpha:g} | "
        f"delta {100 * (answer.wins - answer.losses) / max(answer.n, 1):+.1f} [{_percent(low)},{_percent(high)}]"
    )
