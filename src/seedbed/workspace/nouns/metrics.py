"""space.metrics: what channels serve and how users rate it, what waits for people, and what was spent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from statistics import fmean

from seedbed.errors import Problem, SettingsError
from seedbed.experiments.proof.attempts import list_attempts
from seedbed.plugins import optional
from seedbed.release import channels
from seedbed.runs.doubts import calls_in_doubt
from seedbed.stage.confirmation import questions
from seedbed.storage.store import Query, now
from seedbed.telemetry.gauges import Gauge
from seedbed.workspace.nouns.reviews import Reviews
from seedbed.workspace.resources import Resources

RATED_WITHIN = timedelta(days=1)


class Metrics:
    """What can be measured of a workspace now, for people and for Prometheus."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def gauges(self) -> list[Gauge]:
        """Every gauge and its value."""
        return [*_gauges(self._resources)]

    @contextmanager
    def serve(self, host: str = "127.0.0.1", port: int = 9464) -> Iterator[str]:
        """Serve the gauges and the figures of this process under /metrics while the block lasts; gives the address.

        Raises SettingsError if the port is taken.
        """
        module = optional("seedbed.telemetry.metrics", extra="metrics", needed_for="metrics serve")
        try:
            server, thread = module.serve(self.gauges, host, port)
        except OSError as error:
            remedy = "Choose another --port; 0 takes a free one."
            raise SettingsError([Problem("port", f"{host}:{port}: {error.strerror}", "a free port", remedy)]) from None
        try:
            yield f"http://{host}:{server.server_port}/metrics"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _gauges(resources: Resources) -> Iterator[Gauge]:
    for channel in resources.channel_names():
        if channels.stable(resources.store, channel):
            yield from _channel(resources, channel)
    yield from _waiting(resources)
    runs, usd = resources.spent.today()
    yield Gauge("quota_runs", "Runs within 24 hours", runs)
    yield Gauge("quota_usd", "US dollars spent or held within 24 hours", usd)
    quota = resources.settings.quota
    for name, limit in (("runs", quota.runs_per_day), ("usd", quota.usd_per_day)):
        if limit is not None:
            yield Gauge("quota_limit", "What the quota allows within 24 hours", limit, {"of": name})


def _channel(resources: Resources, channel: str) -> Iterator[Gauge]:
    store, labels = resources.store, {"channel": channel}
    serving = channels.state(store, channel)
    yield Gauge("canary_share", "Share of users that the canary serves", getattr(serving.canary, "share", 0.0), labels)
    yield Gauge("channel_frozen", "1 if the channel is frozen", float(serving.frozen), labels)
    attempts = list_attempts(store, serving.stable)
    spent = max((each.number for each in attempts), default=0)
    yield Gauge("attempts", "Attempts to replace what the channel serves", spent, labels)
    for (arm, metric), values in sorted(_ratings(resources, channel).items()):
        about = {**labels, "arm": arm, "metric": metric}
        yield Gauge("rating", "Mean feedback within 24 hours", fmean(values), about)
        yield Gauge("ratings", "Pieces of feedback within 24 hours", len(values), about)


def _ratings(resources: Resources, channel: str) -> dict[tuple[str, str], list[float]]:
    """The feedback on what each arm of a channel served, by arm and metric: the newest of each unit's exposure."""
    store, since = resources.store, now() - RATED_WITHIN
    exposures = store.facts(Query(kind="exposure", subject=f"channels/{channel}", since=since))
    arms = {fact.key: str(fact.body["arm"]) for fact in exposures}
    newest = {
        (fact.subject, str(fact.body["metric"])): fact.value
        for fact in store.facts(Query(kind="feedback", since=since))
        if fact.subject in arms
    }
    ratings = defaultdict(list)
    for (exposure, metric), value in newest.items():
        if value is not None:
            ratings[arms[exposure], metric].append(value)
    return ratings


def _waiting(resources: Resources) -> Iterator[Gauge]:
    store, at = resources.store, now()
    waiting = {
        "questions": sum(each.status(at) == "open" for each in questions(store)),
        "reviews": len(Reviews(resources).queue()),
        "calls in doubt": len(calls_in_doubt(store)),
    }
    for what, count in waiting.items():
        yield Gauge("waiting", "What waits for a person", count, {"for": what})
