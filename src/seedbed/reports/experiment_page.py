"""The report of a comparison as one web page that asks nothing of anybody."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.certificate import Certificate
from seedbed.experiments.replay.coverage import STEPS, rows, summary
from seedbed.reports import experiment as written
from seedbed.reports.experiment import Account, Names, Row, signed
from seedbed.reports.experiment_plots import STYLE, strip
from seedbed.reports.page import document, figure, grid, safe, tiles
from seedbed.reports.plots import Line, Point, chart, forest
from seedbed.reports.scorecard import number
from seedbed.stats.betting import Betting
from seedbed.stats.estimates import Interval
from seedbed.stats.exact import ExactMcNemar
from seedbed.stats.rule import Answer
from seedbed.storage.store import short

SHOWN = 50
"""So many tasks that got worse, and as many that got better, are on a page."""

LOOKS = 60
"""At about so many places, and at most at twice as many, it is told where the difference was."""

PARTS = 40
"""So many tags have a line each."""

BADGES = {
    "superior": ("good", "▲"),
    "non-inferior": ("good", "△"),
    "equivalent": ("good", "≈"),
    "inferior": ("bad", "▼"),
    "futile": ("bad", "▽"),
    "inconclusive": ("open", "?"),
    "invalid": ("open", "✕"),
}
"""What a finding is to those who hoped for it, and its sign."""


def to_html(certificate: Certificate, tasks: Dataset, names: Names | None = None) -> str:
    """All of a report with pictures, for light and dark screens. Without names, playbooks are called by digests."""
    account = Account(certificate, tasks, names)
    old, new = account.names
    title = f"{new} against {old}"
    where = "live" if account.verdict.live else f"on dataset {short(account.verdict.dataset)}"
    on = f"{account.verdict.metric} {where}"
    parts = [f"<h1>{safe(title)}</h1><p class=told>{safe(on)}</p>"]
    if account.alarm:
        parts.append(f"<section class=alarm>✕ {safe(account.alarm)}{_list(account.problems)}</section>")
    parts += [_answer(account), _tiles(account), _paths(account), _order(account)]
    parts += [_flips(account, heading, flips) for heading, flips in account.flips.items()]
    parts.append(_strata(account))
    parts.append(_section("Figures", f"<div class=figures>{grid(written.FIGURES, account.figures)}</div>"))
    claims = grid(("holds", "claim"), account.flags)
    parts.append(_section("Integrity", f"{claims}<p>{safe(account.failures)}</p>"))
    if covered := certificate.coverage:
        told = grid(("what", "value"), summary(covered)) + grid(STEPS, rows(covered))
        parts.append(_section("Replays", told))
    parts.append(_section("Registered before anything was run", grid(("what", "value"), account.registered)))
    return document(title, parts, STYLE)


def _section(heading: str, inner: str) -> str:
    return f"<section><h2>{safe(heading)}</h2>{inner}</section>" if inner else ""


def _list(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{safe(text)}</li>' for text in texts)}</ul>" if texts else ""


def _answer(account: Account) -> str:
    kind, sign = BADGES[account.verdict.finding]
    badge = f'<span class="badge {kind}">{sign} {safe(account.verdict.finding)}</span>'
    status = f"<code class=status>{safe(account.status)}</code>"
    return f"<section>{badge}<p class=answer>{safe(account.sentence)}</p>{status}</section>"


def _tiles(account: Account) -> str:
    verdict = account.verdict
    if not verdict.tasks:
        return ""
    plain, adjusted = account.plain, account.adjusted
    means = f"{number(verdict.control_mean)} → {number(verdict.candidate_mean)}"
    shown = [(verdict.metric, means, f"{verdict.better} is better"), _difference("difference as seen", plain)]
    if adjusted is not None:
        shown.append(_difference("stop-adjusted", adjusted))
    read = (
        "by those who were served" if verdict.live else f"of at most {verdict.at_most:,}, for ${verdict.cost_usd:.4f}"
    )
    return tiles([*shown, (f"{account.things} read", f"{verdict.tasks:,}", read)])


def _difference(name: str, interval: Interval) -> tuple[str, str, str]:
    mean, reach = signed(interval)
    return name, mean, f"95 %: {reach}"


def _paths(account: Account) -> str:
    """The evidence against what ends the test, the error rate that was used, and the difference, over the tasks."""
    path, rule = account.certificate.path, account.certificate.experiment.rule
    if not path:
        return ""
    lines = [
        Line("now", _points(path, lambda answer: answer.evidence), "path"),
        Line("ends in favour", _points(path, lambda answer: answer.high), "bound"),
        Line("ends against", _points(path, lambda answer: answer.low), "limit"),
    ]
    picture = chart(lines, "evidence over tasks", logs=rule["rule"] == Betting.name)
    pictures = [figure("Evidence", picture, WATCHED.get(rule["rule"], "log-likelihood ratio"))]
    if any(answer.futility is not None for answer in path):
        enough = math.log(1 / rule["beta"])
        lines = [
            Line("now", _points(path, lambda answer: answer.futility), "path"),
            Line("ends futile", _points(path, lambda _: enough), "limit"),
        ]
        told = "times the money made by betting that the gain is not as large as was hoped for"
        pictures.append(figure("Evidence against it", chart(lines, "futility over tasks", logs=True), told))
    if len({answer.spent for answer in path}) > 1:
        lines = [
            Line("used", _points(path, lambda answer: answer.spent), "path"),
            Line("error rate", _points(path, lambda _: account.verdict.alpha), "bound"),
        ]
        told = "the chance that an equal candidate would have been called better by then"
        pictures.append(figure("Error rate used", chart(lines, "spent alpha over tasks"), told))
    pictures.append(_narrowing(account))
    return _section("How it came about", "".join(pictures))


WATCHED = {
    ExactMcNemar.name: "tasks it did better on, less those it did worse on",
    Betting.name: "times the money made by betting that it is better",
}


def _points(path: Sequence[Answer], value: Callable[[Answer], float | None]) -> list[Point]:
    return [(answer.n, value(answer)) for answer in path]


def _narrowing(account: Account) -> str:
    seen = narrowing(account)
    line = Line("mean so far", [(n, each.mean) for n, each in seen], "path")
    picture = chart([line], "difference over tasks", band=[(n, each.low, each.high) for n, each in seen])
    side = "above" if account.verdict.better == "higher" else "below"
    told = f"candidate minus control, better {side} 0; the true one is never outside the band, with 95 % confidence"
    return figure("Difference", picture, told)


def narrowing(account: Account) -> list[tuple[int, Interval]]:
    """Where the difference was after so many tasks: with 95 % confidence the true one is outside at no look."""
    rule, sign = account.certificate.experiment.start(), 1.0 if account.verdict.better == "higher" else -1.0
    # What another rule reads is bet on only to see where it is: so small an error rate is never reached.
    bet = rule if isinstance(rule, Betting) else Betting(alpha=1e-300)
    found, total, every = [], 0.0, max(1, len(account.gains) // LOOKS)
    for n, gain in enumerate(account.gains, 1):
        if bet.answer.verdict != "continue" or not -1 <= gain <= 1:
            break
        bet.update(gain)
        total += gain
        if n % every == 0 or n == len(account.gains):
            low, high = sorted(sign * bound for bound in bet.interval())
            found.append((n, Interval(sign * total / n, low, high, 0.95, n)))
    return found


def _order(account: Account) -> str:
    verdict = account.verdict
    picture = strip(verdict.outcomes, "better, same and worse in registered order")
    key = (
        f"<div class=key><span><b class=up>▲</b> better {verdict.wins:,}</span>"
        f"<span>• same {verdict.ties:,}</span><span><b class=down>▼</b> worse {verdict.losses:,}</span></div>"
    )
    return _section(f"{account.things.capitalize()} in registered order", key + picture if picture else "")


def _flips(account: Account, heading: str, flips: Sequence[Row]) -> str:
    if not account.verdict.tasks:
        return ""
    sign = "<b class=down>▼</b>" if heading == "Got worse" else "<b class=up>▲</b>"
    more = f"<p class=note>and {len(flips) - SHOWN:,} more</p>" if len(flips) > SHOWN else ""
    rows = grid(account.flip_heads, flips[:SHOWN]) if flips else "<p class=note>None.</p>"
    return f"<section class=flips><h2>{sign} {safe(heading)} ({len(flips):,})</h2>{rows}{more}</section>"


def _strata(account: Account) -> str:
    if not account.strata:
        return ""
    rows = [("all", account.plain, 0), *((tag, interval, 1) for tag, interval in account.strata[:PARTS])]
    picture = forest(rows, "difference by tag", line=0.0, told=signed)
    more = f" {len(account.strata) - PARTS:,} more tags are left out." if len(account.strata) > PARTS else ""
    note = f"<small>{safe(written.PARTS + more)}</small>"
    return _section("By tag", figure("Difference", picture, "candidate minus control") + note)


__all__ = ["to_html"]
