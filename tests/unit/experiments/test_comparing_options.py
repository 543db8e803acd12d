"""The options of a comparison, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from loop_samples import agent, bench, numbers

from seedbed.errors import SettingsError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import compare
from seedbed.experiments.options import Comparing
from seedbed.storage.memory import MemoryStore

OLD, NEW = agent("[0-4]"), agent(".*")


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"alpha": 0.5}, "alpha", "found 0.5; expected above 0 and below 0.5"),
        ({"effect": 1.0}, "effect", "found 1.0; expected above 0 and below 1"),
        ({"margin": 0.0}, "margin", "found 0.0; expected above 0 and below 1"),
        ({"discordance": 0.05}, "discordance", "expected from the effect, 0.1, to 1"),
        ({"goal": "non-inferior"}, "margin", "found none for the goal non-inferior; expected one such as 0.05"),
        ({"margin": 0.1, "rule": "exact"}, "rule", "found exact with a margin; expected betting"),
        ({"rule": "gsprt"}, "effect", "found none for the rule gsprt; expected one such as 0.1"),
        ({"rule": "sprt", "effect": 0.1}, "discordance", "found none for the rule sprt; expected above the effect"),
        ({"rule": "sprt", "effect": 0.1, "discordance": 0.1}, "discordance", "expected above the effect"),
        ({"rule": "exakt"}, "rule", "Did you mean exact?"),
        ({"goal": "better"}, "goal", "expected one of superior, non-inferior, equivalent"),
        ({"replicates": 0}, "replicates", "expected at least 1"),
        ({"first_replicate": -1}, "first_replicate", "expected at least 0"),
    ],
)
def test_an_option_that_does_not_fit_is_named(options: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Comparing(**options)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in str(problem)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Comparing(alpha=2, effect=2, margin=2)
    assert [each.path for each in caught.value.problems] == ["alpha", "effect", "margin"]


@pytest.mark.parametrize(
    ("options", "registered"),
    [
        ({}, {}),
        ({"rule": "exact"}, {"rule": "exact"}),
        ({"effect": 0.2}, {"effect": 0.2}),
        ({"rule": {"rule": "betting", "d0": 0.1}}, {"rule": "betting", "d0": 0.1}),
        ({"margin": 0.1}, {"rule": "betting", "goal": "superior", "margin": 0.1}),
        (
            {"goal": "equivalent", "margin": 0.1},
            {"rule": "betting", "goal": "equivalent", "margin": 0.1},
        ),
        (
            {"rule": "gsprt", "effect": 0.1, "replicates": 2},
            {"rule": "gsprt", "effect": 0.1, "repeats": 2},
        ),
        (
            {"rule": "sprt", "effect": 0.1, "discordance": 0.3},
            {"rule": "sprt", "effect": 0.1, "discordance": 0.3},
        ),
        ({"effect": 0.1, "discordance": 0.3}, {"effect": 0.1}),
    ],
)
def test_an_experiment_registers_only_what_was_chosen(options: dict[str, Any], registered: dict[str, Any]) -> None:
    assert Comparing(**options).registered_rule() == registered


async def test_options_that_do_not_go_together_with_the_candidates_are_refused_before_anything_is_paid() -> None:
    store, several = MemoryStore(), [NEW, agent("[0-5]")]
    for options, path in [
        (Comparing(channel="production"), "channel"),
        (Comparing(goal="equivalent", margin=0.1), "goal"),
    ]:
        with pytest.raises(SettingsError) as caught:
            await compare(OLD, several, numbers(10), ExactMatch(), bench(store), options)
        assert [each.path for each in caught.value.problems] == [path]
    many = [agent(f"[0-4]|{n}") for n in range(11)]
    with pytest.raises(SettingsError, match="rule: found exact with 11 candidates; expected betting"):
        await compare(OLD, many, numbers(10), ExactMatch(), bench(store), Comparing(rule="exact"))
    with pytest.raises(SettingsError, match=r"alpha: found 0\.1; expected none: the error budget of channel"):
        await compare(OLD, NEW, numbers(10), ExactMatch(), bench(store), Comparing(alpha=0.1, channel="production"))
    assert "run" not in store.kinds()
