"""space.channels: release, promote, roll back, freeze, choose and watch; the alerts about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from seedbed.errors import NotFound, Problem, RefMoved, ReleaseRefused, SettingsError, expect_type
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.seal import expect_open
from seedbed.evaluation.judges.declared import declared_judges
from seedbed.evaluation.metrics.metric import Metric
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.experiments.replay.replay import is_replayed
from seedbed.experiments.verdict import Verdict, verdicts
from seedbed.release import channels
from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.delivery import AlertRecord, Delivery, history, resend, send, undelivered
from seedbed.release.alerts.senders.registry import build_senders
from seedbed.release.alerts.senders.sender import Sender
from seedbed.release.assignment import Choice, Reader, assign, choose, choose_among, feedback
from seedbed.release.channels import Rollout
from seedbed.release.gates.gate import Gate, InUse
from seedbed.release.gates.registry import build_gates
from seedbed.release.gates.review import Review
from seedbed.release.gates.risk import Risk
from seedbed.release.monitor.drill import Drill, drill
from seedbed.release.monitor.guards import build_watch
from seedbed.release.monitor.loop import WatchResult, no_alarm_gate, watch_once
from seedbed.release.monitor.monitor import Monitor
from seedbed.release.monitor.sample_size import BASES, CanaryPlan, plan_canary
from seedbed.release.ramp import build_ramp
from seedbed.release.states import State
from seedbed.runs.history import recall
from seedbed.runs.run import Run
from seedbed.stage.turns.model_choice import routing_outcomes
from seedbed.storage.store import Digest, Fact, Json, Query, Ref, new_id
from seedbed.workspace.resources import AnyPlaybook, Resources, new_seed


class Channels:
    """The channels of a workspace: what each serves, and how it came there."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._readers: dict[str, Reader] = {}
        self._monitors: dict[str, Monitor] = {}

    # Moving

    async def release(
        self, playbook: AnyPlaybook, *, to: str, because: Verdict | str = "", share: float | None = None
    ) -> Ref:
        """Put a playbook on a channel, if the channel's gates let it pass: for a share of those served, or for all.

        `because` is a Verdict, the digest of an experiment, or a reason in words. With a reason alone the evidence is
        the newest verdict about exactly this playbook and what the channel serves now. A channel with a ramp begins
        with its first share. Raises ReleaseRefused with every refusal.
        """
        protection, library = self._resources.protection(to), self._resources.library
        gates, steps = build_gates(to, protection), build_ramp(protection)
        keep_back = build_watch(protection).keep_back_from(library.clock())
        digest = library.keep(self._resources.playbook(playbook), because="released")
        verdict, reason = self._evidence(digest, to, because)
        return await channels.release(
            library,
            to,
            digest,
            gates,
            verdict=verdict,
            because=reason,
            rollout=Rollout(
                share, steps, keep_back, tuple(gate.written for gate in protection.require), self._in_use()
            ),
        )

    def _in_use(self) -> InUse:
        runner = self._resources.runner
        judges = declared_judges(runner) if self._resources.settings.metrics else {}
        return InUse(runner.model_identities, lambda name: parse_metric(name, judges).identity)

    def _evidence(self, candidate: Digest, channel: str, because: Verdict | str) -> tuple[Verdict | None, str]:
        """The verdict to release by, and the reason in words."""
        remedy = "Give the verdict that `compare` returned, the digest of its experiment, or say why in words."
        expect_type(because, Verdict | str, "because", "a verdict or a reason", remedy)
        if isinstance(because, Verdict):
            return because, str(because)
        if re.fullmatch(r"(b2:)?[0-9a-f]{8,64}", because):
            verdict: Verdict | None = self._verdict(because)
            return verdict, str(verdict)
        verdict = self._newest_verdict(candidate, channel)
        return verdict, because or (str(verdict) if verdict else "first release")

    def _verdict(self, experiment: str) -> Verdict:
        store, start = self._resources.store, f"b2:{experiment.removeprefix('b2:')}"
        matches = [fact.key for fact in store.facts(Query(kind="verdict", key_from=start, limit=2))]
        if len(matches) != 1:
            what = "begins several experiments" if matches else "is no experiment with a verdict in this store"
            raise NotFound(f"{experiment} {what}. `seedbed compare` prints the digest, or give a reason in words")
        return Verdict.recall(store, matches[0])

    def _newest_verdict(self, candidate: Digest, channel: str) -> Verdict | None:
        """The newest one that may release; else the newest about live runs; if there is none, one about replays."""
        store = self._resources.store

        def is_live(verdict: Verdict) -> bool:
            try:
                return not any(map(is_replayed, store.get(verdict.experiment)["models"].values()))
            except NotFound:  # the gates report it
                return True

        incumbent = channels.stable(store, channel)
        known = [each for each in reversed(verdicts(store, candidate)) if each.control == incumbent]
        known.sort(key=lambda each: each.mode != "confirmatory" and not each.live)
        return next(filter(is_live, known), known[0] if known else None)

    async def promote(self, channel: str, *, because: str, share: float | None = None) -> Ref:
        """Give the canary of a channel its next share; after the last one the channel serves it to all users.

        Raises ReleaseRefused while the monitor is alarmed about it or a reviewer refuses it.
        """
        protection = self._resources.settings.channel(channel)
        gates: list[Gate] = [gate for gate in build_gates(channel, protection) if isinstance(gate, Risk | Review)]
        monitor, steps = self._watching(channel), build_ramp(protection)
        with suppress(NotFound):  # promote says more about it
            gates.append(no_alarm_gate(monitor.look(), len(steps.shares)))
        keep_back = monitor.watch.keep_back_from(self._resources.library.clock())
        rollout = Rollout(share, steps, keep_back)
        return await channels.promote(self._resources.library, channel, gates, because=because, rollout=rollout)

    async def rollback(self, channel: str, *, because: str) -> Ref:
        """Take the canary of a channel away; without one, return to what was settled before."""
        return channels.rollback(self._resources.library, channel, because=because)

    async def freeze(self, channel: str, *, because: str) -> Ref:
        """Stop every move of a channel except a rollback: the emergency stop."""
        return channels.freeze(self._resources.library, channel, because=because)

    async def unfreeze(self, channel: str, *, because: str) -> Ref:
        """Let a frozen channel move again."""
        return channels.unfreeze(self._resources.library, channel, because=because)

    # Serving

    async def choose(self, channel: str, *others: str, key: str, run: str = "") -> Choice:
        """What a channel serves to the user with that key; the choice is recorded before it is returned.

        The same key gets the same playbook, and stays with the canary when its share grows. Of several channels each is
        chosen with the same probability. While the store cannot be reached, the choice is what the first channel last
        served, flagged `stale`.
        """
        if not isinstance(channel, str):
            raise SettingsError(
                [Problem("key", f"a {type(channel).__name__}", "a channel: only those choose by a key")]
            )
        if others:
            return await choose_among([self._reader(each) for each in (channel, *others)], key)
        return await choose(self._reader(channel), key, run=run)

    async def assignment(self, channel: str, key: str) -> Any:
        """Which playbook the user with that key gets on a channel. Nothing is recorded."""
        return assign(await Reader(self._resources.library, channel).read(), key)

    def feedback(self, on: Run | Choice | str, rating: float, comment: str = "", *, metric: str = "rating") -> Fact:
        """Attach an outcome from 0 to 1 to a run or a choice, such as a user's rating.

        Of several by the same metric the newest counts. Raises NotFound if there is no such run or exposure.
        """
        name = on if isinstance(on, str) else on.exposure if isinstance(on, Choice) else on.id
        stored, store = feedback(self._resources.library, name, rating, comment, metric=metric), self._resources.store
        if metric == "rating":
            with suppress(NotFound):  # a choice without a run
                store.append(routing_outcomes(store, recall(store, name), rating, self._resources.by))
        return stored

    def _reader(self, channel: str) -> Reader:
        name = channel.removeprefix("channels/")
        return self._readers.get(name) or self._readers.setdefault(name, Reader(self._resources.library, name))

    # Watching

    def monitor(self, channel: str) -> Monitor:
        """Watches a channel by the guards under `canary` in its settings. It looks, and changes nothing."""
        guards = build_watch(self._resources.settings.channel(channel))
        return Monitor(self._resources.store, channel, guards, clock=self._resources.library.clock)

    async def watch(self, channel: str, *, alert: bool = True) -> WatchResult:
        """Look at a channel once: roll back what does harm, and alert people as `alerts` in the settings says."""
        receivers = build_senders(self._resources.settings) if alert else []
        return await watch_once(self._resources.library, self._watching(channel), receivers)

    def plan(
        self, channel: str, *, share: float | None = None, bases: Sequence[float] = (), worse: float = 1.5
    ) -> CanaryPlan:
        """How many outcomes of a canary each guard needs to find, in nine of ten cases, one that is worse by `worse`
        times what it allows, if the stable playbook has these shares of bad outcomes, by default 1, 2, 5 and 10 %.

        The default share is that of the canary, or else the first of the ramp, or 5 %. Raises SettingsError.
        """
        canary, settings = self.get(channel).canary, self._resources.settings.channel(channel)
        usual = canary.share if canary else next(iter(settings.canary.shares), 0.05)
        return plan_canary(channel, build_watch(settings), usual if share is None else share, bases or BASES, worse)

    async def promote_if_quiet(self, seen: WatchResult) -> Ref | None:
        """The next step of the ramp, if nothing speaks against it. A step that needs an approval is for a person."""
        health = seen.health
        if health.phase != "canary" or health.alarms:
            return None
        steps = build_ramp(self._resources.settings.channel(health.channel))
        if not steps.shares or (steps.approval and steps.after(health.share, None) == 1):
            return None
        with suppress(ReleaseRefused, RefMoved):
            return await self.promote(health.channel, because="the monitor saw no alarm")
        return None

    def _watching(self, channel: str) -> Monitor:
        """The monitor that remembers what it has read."""
        return self._monitors.get(channel) or self._monitors.setdefault(channel, self.monitor(channel))

    # Looking up

    def names(self) -> list[str]:
        """The channels of the workspace file, and those that something was released to."""
        return self._resources.channel_names()

    def get(self, channel: str) -> State:
        """What a channel serves now: its stable playbook, and the canary if there is one. Raises NotFound."""
        self._resources.expect_channel(channel)
        return channels.state(self._resources.store, channel)

    def show(self, channel: str) -> Json:
        """What a channel serves, its gates, its ramp, and what a rollback would return to. Raises NotFound."""
        now = self.get(channel)
        protection, store = self._resources.settings.channel(channel), self._resources.store
        build_gates(channel, protection)
        steps = build_ramp(protection)
        ref = store.ref(f"channels/{channel}")
        canary = {"playbook": now.canary.playbook, "share": now.canary.share} if now.canary else None
        return {
            "channel": channel,
            "playbook": channels.stable(store, channel),
            "canary": canary and {**canary, "runs": channels.seen_by_canary(store, channel)},
            "frozen": now.frozen,
            "version": ref.version if ref else 0,
            "because": ref.because if ref else "",
            "by": ref.by if ref else "",
            "at": ref.at if ref else None,
            "require": [gate.written for gate in protection.require],
            "ramp": {"shares": steps.shares, "hold": steps.hold, "approval": steps.approval},
            "standing": now.standing,
        }

    # Drills

    async def drill(
        self,
        channel: str,
        tasks: Dataset,
        units: range,
        metric: Metric,
        on_event: Callable[[int], None] | None = None,
    ) -> Drill:
        """Send tasks to a channel as if users asked, and rate the answers. Everything is recorded, as with users.

        Guards read it, live comparisons do not. Raises DatasetError for tasks that are held out."""
        expect_open(self._resources.store, tasks)
        runner = self._resources.runner

        async def serve(key: str, inputs: Mapping[str, Any]) -> Run:
            run = new_id()
            choice = await choose(self._reader(channel), key, run=run, drill=True)
            return await runner.perform_once(run, choice.playbook, dict(inputs), new_seed(None))

        now = self.get(channel)
        served = [each for each in (now.stable, now.canary.playbook if now.canary else None) if each]
        await runner.expect_simulated(map(self._resources.library.get, served))
        return await drill(tasks, units, metric, serve, self.feedback, on_event or (lambda done: None))

    # Alerts

    def alerts(self, channel: str | None = None, limit: int = 50) -> list[AlertRecord]:
        """The alerts about channels, newest first, with their deliveries."""
        return list(islice(history(self._resources.store, channel), limit))

    async def test_alert(self, channel: str) -> tuple[Alert, list[Delivery], int]:
        """Send a test to all receivers: the alert, its deliveries, and how many receivers there are."""
        receivers = [replace(cast("Any", each), at_least="info") for each in self._senders()]
        alert = Alert(
            channel=channel,
            kind="test",
            severity="info",
            message=f"This is a test by {self._resources.by}: nothing has happened.",
            at=self._resources.library.clock(),
            key=f"{channel}/test/{new_id()}",
        )
        return alert, list(await send(self._resources.library, receivers, alert)), len(receivers)

    async def resend_alerts(self, *, dry_run: bool = False) -> list[Delivery]:
        """Try again what could not be delivered, however old it is; in a dry run, what would be tried."""
        receivers, library = self._senders(), self._resources.library
        if not dry_run:
            return list(await resend(library, receivers, everything=True))
        waiting = undelivered(self._resources.store, receivers, at=library.clock(), everything=True)
        return [Delivery(alert.record_key, sender.name, "begun") for alert, sender in waiting]

    def _senders(self) -> Sequence[Sender]:
        """Those of the workspace file. Raises SettingsError if there are none."""
        receivers = build_senders(self._resources.settings)
        if not receivers:
            remedy = "Add a receiver, such as: alerts: [{log: alerts.jsonl}]"
            source = self._resources.settings.source
            raise SettingsError([Problem("alerts", "nobody", "a list of receivers", remedy)], source)
        return receivers
