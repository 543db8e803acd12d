"""The report of a comparison: what was found, for people who know no statistics and for those who do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.experiments.certificate import CLAIMS, Certificate
from seedbed.experiments.experiment import Unit
from seedbed.experiments.replay.coverage import STEPS, rows, summary
from seedbed.experiments.verdict import Verdict, in_words
from seedbed.reports.plots import shortened
from seedbed.reports.scorecard import inert, number, table
from seedbed.stats.betting import Betting
from seedbed.stats.effects import cohen_dz, cohen_g, odds_ratio, risk_difference
from seedbed.stats.estimates import Interval, paired_interval
from seedbed.stats.exact import ExactMcNemar
from seedbed.stats.sequential import RULES
from seedbed.storage.store import canonical, short

Names = tuple[str, str]
"""What the control and the candidate are called."""

Row = tuple[str, ...]

FIGURES = ("figure", "value", "what it means")
SHOWN = 10
"""So many tasks that got worse, and as many that got better, are in a report to read."""

SHORTLY = {
    "superior": "Yes: ",
    "inferior": "No: ",
    "futile": "No: ",
    "inconclusive": "Not known: ",
    "invalid": "Nothing can be said: ",
}
"""What an answer begins with."""

WATCHED = {ExactMcNemar.name: "lead", Betting.name: "ln e"}
"""What each rule watches; the others watch a log-likelihood ratio."""

PARTS = (
    "Parts are to look at, not to decide by: of many, some differ by chance. Intervals are those of as many tasks, "
    "fixed in advance. What has several tags, or a source whose tasks have, counts in each."
)


def to_markdown(certificate: Certificate, tasks: Dataset, names: Names | None = None) -> str:
    """A report to read, or to put into a merge request. Without names, playbooks are called by their digests."""
    account = Account(certificate, tasks, names)
    old, new = map(inert, account.names)
    parts = [f"# {new} against {old}"]
    parts += [f"**{inert(account.alarm, 2000)}**"] if account.alarm else []
    parts += [f"**{inert(account.sentence, 2000)}**", f"`{account.status}`"]
    parts.append("## Figures\n\n" + table(FIGURES, account.figures))
    parts.append("## Failures\n\n" + inert(account.failures, 2000))
    if outcomes := account.verdict.outcomes:
        lines = "\n".join(outcomes[start : start + 100] for start in range(0, len(outcomes), 100))
        parts.append(f"## In registered order\n\n`+` better, `=` the same, `-` worse\n\n```text\n{lines}\n```")
    for heading, flips in account.flips.items():
        more = f"\n\nand {len(flips) - SHOWN:,} more" if len(flips) > SHOWN else ""
        body = table(account.flip_heads, flips[:SHOWN]) + more if flips else "None."
        parts.append(f"## {heading} ({len(flips):,})\n\n{body}")
    if account.strata:
        tags = [(name, *signed(each), f"{each.n}") for name, each in account.strata]
        parts.append(f"## By tag\n\n{table(('tag', 'difference', '95 % interval', 'tasks'), tags)}\n\n{PARTS}")
    parts.append("## Integrity\n\n" + table(("holds", "claim"), account.flags))
    if covered := certificate.coverage:
        parts.append("## Replays\n\n" + table(("what", "value"), summary(covered)))
        parts.append(table(STEPS, rows(covered)))
    if account.problems:
        parts.append("\n".join(f"- {inert(problem, 500)}" for problem in account.problems))
    parts.append("## Registered\n\n" + table(("what", "value"), account.registered))
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True)
class Account:
    """All that a report tells of a comparison, as plain texts and numbers."""

    certificate: Certificate
    tasks: Dataset
    called: Names | None = None

    @property
    def verdict(self) -> Verdict:
        return self.certificate.verdict

    @cached_property
    def names(self) -> Names:
        old, new = self.called or ("", "")
        return shortened(old, 60) or short(self.verdict.control), shortened(new, 60) or short(self.verdict.candidate)

    @cached_property
    def units(self) -> list[Unit]:
        """What was read, in registered order."""
        return self.certificate.experiment.units(self.tasks)[: self.verdict.tasks]

    @cached_property
    def gains(self) -> list[float]:
        """By how much the candidate did better on each unit that was read."""
        sign = 1.0 if self.verdict.better == "higher" else -1.0
        read = zip(self.verdict.scores, self.verdict.outcomes, strict=False)
        return [0.0 if told == "=" else sign * (after - before) for (before, after), told in read]

    @property
    def things(self) -> str:
        """What units are called."""
        if self.verdict.live:
            return self.verdict.things
        return "sources" if any(len(unit) > 1 for unit in self.certificate.experiment.units(self.tasks)) else "tasks"

    # What was found

    @property
    def sentence(self) -> str:
        """The answer for people who know no statistics."""
        verdict, rule = self.verdict, self.certificate.experiment.rule
        answer = f"{SHORTLY.get(verdict.finding, '')}{in_words(verdict, rule, self.names, self.things)}."
        if verdict.finding == "inconclusive":
            answer += " That is no proof that they are equally good; more may tell."
        if not verdict.tasks:
            return answer
        counts = (
            f"The candidate did better on {verdict.wins:,}, worse on {verdict.losses:,} and as well on "
            f"{verdict.ties:,} of {verdict.tasks:,} {self.things}."
        )
        return " ".join(filter(None, (answer, counts, self._chance)))

    @property
    def _chance(self) -> str:
        """How often such an answer is wrong."""
        verdict, rule = self.verdict, self.certificate.experiment.rule
        wrong, rate = {
            "superior": ("not better would be called better", verdict.alpha),
            "inferior": ("not worse would be called worse", verdict.alpha),
            "non-inferior": ("worse by more than that would pass", verdict.alpha),
            "equivalent": ("further apart would be called so", verdict.alpha),
            "futile": ("as good as hoped for would be given up", rule.get("beta") or 0.0),
        }.get(verdict.finding, ("", 0.0))
        if not wrong:
            return ""
        often = f"{100 * rate:g} of 100 such comparisons"
        if RULES[verdict.rule].guaranteed:
            return f"A candidate that is {wrong} in at most {often}."
        return f"The rule is made so that a candidate that is {wrong} in {often}; that is not guaranteed."

    @property
    def alarm(self) -> str:
        """What to know before anything else, if the verdict is not what it says."""
        count = len(self.certificate.problems)
        what = "1 thing differs" if count == 1 else f"{count} things differ"
        return f"Do not rely on this: computed again from what is recorded, {what}." if count else ""

    @property
    def status(self) -> str:
        """All in one line, as engine testers know it."""
        verdict, rule = self.verdict, self.certificate.experiment.rule
        parts = [
            f"tasks {verdict.tasks}/{verdict.at_most}",
            f"W {verdict.wins} T {verdict.ties} L {verdict.losses}",
            f"delta {100 * verdict.difference:+.1f} [{_percent(verdict.low)},{_percent(verdict.high)}]",
        ]
        if self.certificate.path:
            last = self.certificate.path[-1]
            bounds = ",".join("–" if bound is None else f"{bound:.2f}" for bound in (last.low, last.high))
            least, effect = rule.get("d0") or 0.0, rule.get("effect")
            between = "" if effect is None else f" [{least:.2f},{least + effect:.2f}]"
            parts.insert(0, f"{WATCHED.get(verdict.rule, 'LLR')} {last.evidence:.2f} ({bounds}){between}")
        return " | ".join(parts)

    # Figures

    @property
    def plain(self) -> Interval:
        """The difference as it was seen, candidate minus control."""
        return _known(self.verdict.difference, self.verdict.low, self.verdict.high, self.verdict.tasks)

    @property
    def adjusted(self) -> Interval | None:
        """The difference without what stopping early adds to it, candidate minus control; None if no one can say."""
        verdict = self.verdict
        if verdict.estimate is None:
            return None
        mean, low, high = verdict.estimate, verdict.estimate_low, verdict.estimate_high
        if verdict.better == "lower":
            mean, low, high = -mean, None if high is None else -high, None if low is None else -low
        return _known(mean, low, high, verdict.tasks)

    @property
    def figures(self) -> list[Row]:
        """Each number with what it means."""
        verdict = self.verdict
        saved = verdict.at_most - verdict.tasks
        why = f"{saved:,} did not have to be run" if saved and verdict.tasks else ""
        read = f"{verdict.tasks:,}" if verdict.live else f"{verdict.tasks:,} of at most {verdict.at_most:,}"
        rows: list[Row] = [(f"{self.things} read", read, why), *self._arms()]
        if verdict.tasks:
            rows += [*self._means(), *self._tests(), *self._effects()]
        rows.append(("rule", verdict.rule, verdict.guarantee))
        rows.append(("cost", f"${verdict.cost_usd:.4f}", "of all runs that were read, whenever they were paid"))
        return rows

    def _arms(self) -> Iterator[Row]:
        for name, arm in zip(self.names, ("control", "candidate"), strict=True):
            if told := self.verdict.live.get(arm):
                yield f"units that met {name}", f"{told['units']:,}", f"of {told['known']:,} an outcome was known"

    def _means(self) -> Iterator[Row]:
        verdict, (old, new) = self.verdict, self.names
        yield f"{verdict.metric} of {old}", number(verdict.control_mean), f"{verdict.better} is better"
        yield f"{verdict.metric} of {new}", number(verdict.candidate_mean), f"{verdict.better} is better"
        yield (
            "difference as seen",
            _one_text(self.plain),
            "the plain mean, with the interval of a fixed number of tasks",
        )
        if self.adjusted is None:
            yield "difference, stop-adjusted", "–", "this rule has none"
            return
        if verdict.rule == Betting.name:
            why = "the same mean, with an interval that holds although one looked after every task: so it is wider"
        else:
            why = (
                "a test that ends as soon as it is sure ends on a lucky streak, which takes the plain mean too far "
                "from 0; this one is too large as often as too small"
            )
        if verdict.finding in ("superior", "inferior") and self.adjusted.low <= 0 <= self.adjusted.high:
            why += "; it may hold 0 after an answer, as it guards both ends at once and the rule one"
        yield "difference, stop-adjusted", _one_text(self.adjusted), why

    def _tests(self) -> Iterator[Row]:
        verdict = self.verdict
        yield "better, same, worse", f"{verdict.wins:,}, {verdict.ties:,}, {verdict.losses:,}", f"{self.things}"
        if verdict.p is not None:
            yield "p", f"{verdict.p:.2g}", "the chance of a result as good or better, were the candidate no better"
        if verdict.e is not None:
            why = f"how many times their money one made who bet on the candidate; {1 / verdict.alpha:g} is enough"
            yield "e", f"{verdict.e:.3g}", why
        spent = self.certificate.path[-1].spent if self.certificate.path else 0.0
        yield "error rate (alpha)", f"{verdict.alpha:g}", f"{spent:.2g} of it was used by the end"

    def _effects(self) -> Iterator[Row]:
        verdict = self.verdict
        if {*self.gains} <= {-1.0, 0.0, 1.0}:
            if verdict.wins + verdict.losses:
                ratio, share = odds_ratio(verdict.wins, verdict.losses), cohen_g(verdict.wins, verdict.losses)
                yield "matched odds ratio", _one_text(ratio, plus=False), f"{self.things} won for each one lost"
                yield "Cohen's g", _one_text(share), "how far the share of wins is from one half, ties left out"
        elif math.isfinite(size := cohen_dz([0.0] * len(self.gains), self.gains)):
            yield "Cohen's d_z", f"{size:+.2f}", "the gain in standard deviations of the differences"

    # What it rests on

    @property
    def failures(self) -> str:
        """What counted as a failure, and how often that was so."""
        if self.verdict.live:
            return "Units of whom nothing was heard do not count; it is invalid if they are more on one side."
        plan, failed, unscored = self.certificate.experiment, len(self.verdict.failed), len(self.verdict.unscored)
        runs = 2 * plan.replicates * sum(map(len, self.units))
        rule = f"A run that fails, takes too long or cannot be scored counts as {plan.failure_counts_as:g}."
        if not failed:
            return f"{rule} None of {runs:,} runs did."
        also = f"; {unscored:,} of them ended well and got no score" if unscored else ""
        return f"{rule} So did {failed:,} of {runs:,} runs{also}."

    @property
    def flags(self) -> list[Row]:
        """Each claim about how the verdict came about: whether it holds, and in words what is so."""
        rows: list[Row] = [
            ("✓ yes" if holds else "✗ no", CLAIMS[name][not holds] if name in CLAIMS else name.replace("_", " "))
            for name, holds in self.certificate.flags.items()
        ]
        for judge, known in self.verdict.judges.items():
            told = "never checked against people" if known is None else f"kappa {known['kappa']:.2f} with people"
            rows.append(("✓ yes" if known else "✗ no", f"Judge {short(judge)}: {told}"))
        return rows

    @property
    def problems(self) -> list[str]:
        """What differs when everything is computed again."""
        return [str(problem) for problem in self.certificate.problems]

    @property
    def registered(self) -> list[Row]:
        """What was fixed before anything was run."""
        plan = self.certificate.experiment
        settings = {name: value for name, value in plan.rule.items() if name != "rule" and value is not None}
        tasks = f"{plan.dataset}, {len(plan.order):,} tasks in an order drawn from seed {plan.seed}"
        rows: list[Row] = [
            ("hypothesis", plan.hypothesis),
            ("control", plan.control),
            ("candidate", plan.candidate),
            ("live", canonical(self.verdict.live["source"])) if self.verdict.live else ("dataset", tasks),
            ("metric", canonical(plan.metric)),
            ("rule", f"{plan.rule['rule']}: " + ", ".join(f"{name} {value}" for name, value in settings.items())),
            ("runs of each task", "" if self.verdict.live else f"{plan.replicates} by each playbook"),
            ("channel", plan.channel),
            ("experiment", plan.digest),
            ("evidence", self.verdict.evidence),
            ("to check", f"seedbed evidence verify {short(self.verdict.experiment)}"),
        ]
        return [row for row in rows if row[1]]

    # Tasks

    @property
    def flip_heads(self) -> Row:
        return ("place", "task", "inputs", *(shortened(name) for name in self.names))

    @cached_property
    def flips(self) -> dict[str, list[Row]]:
        """The tasks that got worse and those that got better, the largest change first, with both scores."""
        if self.verdict.live:
            return {}
        places = sorted(range(min(len(self.gains), len(self.units))), key=lambda place: -abs(self.gains[place]))
        worse = [self._flip(place) for place in places if self.gains[place] < 0]
        return {"Got worse": worse, "Got better": [self._flip(place) for place in places if self.gains[place] > 0]}

    def _flip(self, place: int) -> Row:
        unit, (before, after) = self.units[place], self.verdict.scores[place]
        name = shortened(unit[0].id) if len(unit) == 1 else f"{shortened(unit[0].source)} ({len(unit)} tasks)"
        asked = shortened(" / ".join(map(_inputs, unit)), 160)
        return f"{place + 1}", name, asked, number(before), number(after)

    @cached_property
    def strata(self) -> list[tuple[str, Interval]]:
        """The difference, candidate minus control, on the tasks of each tag."""
        places: dict[str, list[tuple[float, float]]] = {}
        for unit, scores in zip(self.units, self.verdict.scores, strict=False):
            for tag in {tag for task in unit for tag in task.tags}:
                places.setdefault(tag, []).append(scores)
        return [(tag, _difference(scores)) for tag, scores in sorted(places.items())]


def signed(interval: Interval) -> tuple[str, str]:
    """A difference and its range as people read them; the range says so where nothing can be said."""
    if not interval.n:
        return "no score", ""
    if not math.isfinite(interval.low):
        return _plus(interval.mean), "not known"
    return _plus(interval.mean), f"{_plus(interval.low)} to {_plus(interval.high)}"


def _plus(value: float) -> str:
    return f"+{number(value)}" if value > 0 else number(value)


def _one_text(interval: Interval, *, plus: bool = True) -> str:
    told = _plus if plus else number
    mean = "∞" if math.isinf(interval.mean) else told(interval.mean)
    if not math.isfinite(interval.low):
        return f"{mean} (no spread to tell an interval from)"
    high = "∞" if math.isinf(interval.high) else told(interval.high)
    return f"{mean} ({told(interval.low)} to {high})"


def _known(mean: float, low: float | None, high: float | None, n: int) -> Interval:
    return Interval(mean, -math.inf if low is None else low, math.inf if high is None else high, 0.95, n)


def _percent(bound: float | None) -> str:
    return "–" if bound is None else f"{100 * bound:+.1f}"


def _difference(scores: Sequence[tuple[float, float]]) -> Interval:
    """By how much the second scores exceed the first, with an interval that holds at few tasks if it can."""
    before, after = ([pair[arm] for pair in scores] for arm in (0, 1))
    if {*before, *after} <= {0.0, 1.0}:
        return risk_difference(scores.count((0.0, 1.0)), scores.count((1.0, 0.0)), len(scores))
    plain = paired_interval(before, after)
    return plain if plain.low < plain.high else _known(plain.mean, None, None, plain.n)


def _inputs(task: Task) -> str:
    told = (f"{name}: {value if isinstance(value, str) else canonical(value)}" for name, value in task.inputs.items())
    return ", ".join(told)


__all__ = ["Account", "to_markdown"]
