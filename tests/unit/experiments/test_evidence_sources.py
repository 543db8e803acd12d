"""Past runs and live traffic as sources of a comparison."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from replay_samples import context_of
from test_coverage import CAREFUL, SAME, A, lived, workspace

from seedbed.errors import DatasetError, SettingsError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import compare
from seedbed.experiments.evidence_sources import LiveTraffic, PastRuns, live, past_runs
from seedbed.experiments.options import Comparing

KNOWN = Dataset(tuple(Task(f"t{n}", {"n": n}, "no" if n % 2 else "yes") for n in range(12)))


async def test_past_runs_of_the_control_are_replayed_and_the_verdict_tells_how_far_they_can_be_trusted() -> None:
    space = workspace()
    await lived(space, count=12)
    source = past_runs(expected=KNOWN)
    verdict = await compare(A, CAREFUL, source, ExactMatch(), context_of(space))
    assert (verdict.replay["asked"], verdict.replay["answered"], verdict.at_most) == (12, 9, 9)
    assert verdict.replays
    assert verdict.replays.fidelity.agreement.agreed == 12
    assert len(verdict.replays.replayable.missed) == 3
    again = await compare(A, CAREFUL, source, ExactMatch(), context_of(space))
    assert again == verdict
    assert again.body() == verdict.body()
    assert {"replays", "ranking", "is_final"}.isdisjoint(verdict.body())


async def test_several_candidates_may_be_ranked_on_past_runs() -> None:
    space = workspace()
    await lived(space, count=12)
    verdict = await compare(A, [SAME, CAREFUL], past_runs(expected=KNOWN), ExactMatch(), context_of(space))
    assert verdict.ranking
    assert {each.verdict.candidate for each in verdict.ranking.candidates} == {SAME.digest, CAREFUL.digest}


async def test_runs_are_chosen_by_their_score_status_and_size() -> None:
    space = workspace()
    await lived(space, count=14)  # the thirteenth fails
    await evaluate(A, KNOWN, ExactMatch(), context_of(space))

    def drawn(where: str, **options: Any) -> int:
        source = PastRuns(where=where, **options)
        return len(source.draw(space.store, A.digest, "exact_match", 0).past)

    everything = drawn("")
    assert drawn("status = 'failed'") == 1
    assert drawn("status != failed") == everything - 1
    assert drawn("score >= 0.5") == 12
    assert drawn("score >= 0.5 and tokens > 0 and status = 'completed'", sample=6) == 6
    assert drawn("", sample=6) == 6
    assert drawn("", sample=1_000) == everything
    with pytest.raises(DatasetError, match="runs: found none"):
        drawn("tokens > 1000000")
    with pytest.raises(DatasetError, match="runs: found none"):
        drawn("", since=datetime(2100, 1, 1, tzinfo=UTC))
    with pytest.raises(DatasetError, match="sample: found 1; expected from"):
        drawn("", sample=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "price > 3"}, 'where: found "price > 3"; expected conditions on score, tokens, turns, status'),
        ({"where": "score >= good"}, 'where: found score "good"; expected a number'),
        ({"where": "score >= 0.2 and"}, "where: found"),
        ({"sample": 0}, "sample: found 0; expected at least 1"),
        ({"mode": "loose"}, "mode: found"),
    ],
)
def test_a_source_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        past_runs(**options)


async def test_options_that_past_runs_cannot_have_are_refused() -> None:
    space = workspace()
    await lived(space, count=12)
    options = Comparing(channel="production", replicates=2, first_replicate=1)
    with pytest.raises(SettingsError) as caught:
        await compare(A, SAME, past_runs(), ExactMatch(), context_of(space), options)
    assert [each.path for each in caught.value.problems] == ["channel", "replicates", "first_replicate"]


def test_live_traffic_names_its_channels() -> None:
    assert live("production", "beta", conclude=True) == LiveTraffic(channels=("production", "beta"), conclude=True)
    with pytest.raises(SettingsError, match="channels: found none"):
        LiveTraffic(channels=())
