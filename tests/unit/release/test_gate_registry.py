"""What may stand under a channel, and what is said about what may not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from seedbed.errors import SettingsError
from seedbed.experiments.proof.error_budget import BudgetTerms
from seedbed.experiments.slices import SliceTerms
from seedbed.playbooks.formats import import_document
from seedbed.release.gates.better import BetterGate
from seedbed.release.gates.content import ContentGate
from seedbed.release.gates.cooldown import Cooldown
from seedbed.release.gates.error_budget import error_budget
from seedbed.release.gates.gate import Gate
from seedbed.release.gates.held_out import held_out
from seedbed.release.gates.max_change import MaxChange
from seedbed.release.gates.not_worse import NoSliceWorse, NotWorse
from seedbed.release.gates.redundant import redundant
from seedbed.release.gates.registry import build_gates, build_panel, build_terms
from seedbed.release.gates.replay_fidelity import ReplayFidelity
from seedbed.release.gates.review import Review
from seedbed.release.gates.risk import Risk
from seedbed.release.gates.rules_kept import RulesKept, rules_kept
from seedbed.release.gates.schema import schema
from seedbed.release.review.panel import Panel
from seedbed.settings import ChannelSettings


def gates(channel: str, protection: Any) -> list[Gate]:
    return build_gates(channel, ChannelSettings.read(protection, f"channels.{channel}"))


def panel(protection: Any) -> Panel:
    return build_panel("production", ChannelSettings.read(protection, "channels.production"))


def terms(protection: Any) -> BudgetTerms:
    return build_terms(ChannelSettings.read(protection, "channels.production"))


def test_a_channel_that_says_nothing_requires_all_evidence() -> None:
    assert gates("production", {}) == [BetterGate(), held_out, rules_kept, ContentGate(), NoSliceWorse()]


def test_every_gate_is_read_with_its_settings_and_the_same_panel() -> None:
    listed: list[Any] = [
        "schema",
        {"not_worse": {"metrics": ["safety", "cost_usd"], "margin": 0.01}},
        {"not_worse": {"metrics": {"safety": 0.01, "cost_usd": 0.002}, "error": 0.01}},
        "no_slice_worse",
        {"no_slice_worse": {"margin": 0.05, "false": 0.2, "least": 50}},
        {"max_change": {"number": 0.1, "text": 400, "since_last_review": 0.3}},
        "redundant",
        "content",
        {"content": {"constant": 0.9, "offence": 0.5, "allow": ["an address"]}},
        "risk",
        {"risk": {"impact": 0.3, "allow": ["models"]}},
        {"rules_kept": {"unless": "reviewed"}},
        {"better": {"replays": True}},
        {"replay_fidelity": 0.95},
        "error_budget",
        {"review": {"roles": ["safety"], "expires": "30 days"}},
    ]
    jury = Panel({"ann": ("safety",), "ben": ()}, ("safety",), timedelta(days=30))
    assert gates("production", {"require": listed, "reviewers": {"ann": ["safety"], "ben": []}}) == [
        schema,
        NotWorse({"safety": 0.01, "cost_usd": 0.01}),
        NotWorse({"safety": 0.01, "cost_usd": 0.002}, 0.01),
        NoSliceWorse(),
        NoSliceWorse(SliceTerms(0.05, 0.2, 50)),
        MaxChange(0.1, 400, 0.3, jury),
        redundant,
        ContentGate(),
        ContentGate(0.9, 0.5, ("an address",)),
        Risk(panel=jury),
        Risk(0.3, ("models",), jury),
        RulesKept(jury),
        BetterGate(replays=True),
        ReplayFidelity(0.95),
        error_budget,
        Review("always", jury),
    ]


@pytest.mark.parametrize(
    ("protection", "told"),
    [
        ({"require": [{"not_worse": {"metrics": ["safety"]}}]}, "require[0].not_worse.margin"),
        ({"require": [{"not_worse": {"metrics": [], "margin": 0.1}}]}, "require[0].not_worse.metrics"),
        ({"require": [{"not_worse": {"metrics": {"safety": -1}}}]}, "require[0].not_worse.metrics"),
        ({"require": [{"no_slice_worse": {"margin": 0.0}}]}, "require[0].no_slice_worse.margin"),
        ({"require": [{"no_slice_worse": {"false": 0.5}}]}, "require[0].no_slice_worse.false"),
        ({"require": [{"no_slice_worse": {"least": 0}}]}, "require[0].no_slice_worse.least"),
        ({"require": [{"risk": {"allow": ["fun"]}}]}, "require[0].risk.allow"),
        ({"require": [{"content": {"constant": 2.0}}]}, "require[0].content.constant"),
        ({"require": [{"content": {"allow": ["lies"]}}]}, "require[0].content.allow"),
        ({"require": [{"replay_fidelity": 1}]}, "require[0].replay_fidelity"),
        ({"require": [{"rules_kept": {"unless": "urgent"}}]}, "require[0].rules_kept.unless"),
        ({"require": [{"review": {"expires": "soon"}}]}, "require[0].review.expires"),
        ({"require": [{"review": {"roles": "safety"}}]}, "require[0].review.roles"),
        ({"require": [{"review": {"roles": ["safety"]}}]}, "require[0].review.roles"),
        ({"require": [], "reviewers": ["ann"]}, "reviewers"),
        ({"require": [], "reviewers": {"ann": "safety"}}, "reviewers"),
        ({"require": [{"better": {"replays": True}}]}, "require"),
    ],
)
def test_a_setting_that_a_gate_cannot_have_is_told(protection: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        gates("production", protection)
    assert [problem.path for problem in caught.value.problems] == [f"channels.production.{told}"]


def test_the_panel_of_a_channel_is_that_of_its_review_or_all_reviewers() -> None:
    people = {"ann": ["safety"]}
    assert panel({"reviewers": people, "require": []}) == Panel({"ann": ("safety",)})
    listed = [{"review": {"roles": ["safety"]}}]
    assert panel({"reviewers": people, "require": listed}).roles == ("safety",)
    assert panel({}) == Panel()


def test_a_channel_that_requires_nothing_has_no_gates() -> None:
    assert gates("playground", {"require": []}) == []


def test_gates_with_values_are_read_in_order() -> None:
    listed = [
        {"cooldown": "1 week"},
        "better",
        {"better": {"error": 0.01}},
        {"max_change": {"number": 0.1, "text": 400}},
        {"review": {"when": "rules or roles change"}},
    ]
    expected = [
        Cooldown(timedelta(days=7)),
        BetterGate(),
        BetterGate(0.01),
        MaxChange(0.1, 400),
        Review("rules or roles change"),
    ]
    assert gates("production", {"require": listed}) == expected


@pytest.mark.parametrize(("text", "wait"), [("12 hours", timedelta(hours=12)), ("1.5 days", timedelta(hours=36))])
def test_a_cooldown_is_told_as_people_say_it(text: str, wait: timedelta) -> None:
    assert gates("production", {"require": [{"cooldown": text}]}) == [Cooldown(wait)]


def test_everything_wrong_is_told_at_once_with_its_place() -> None:
    wrong: dict[str, Any] = {
        "colour": "green",
        "require": [
            "beter",
            {"cooldown": "soon"},
            {"max_change": {"number": -1}},
            {"max_change": {"speed": 1}},
            {"review": {"when": "never"}},
            {"better": True, "held_out": True},
            {"max_change": {}},
            {"max_change": {"number": True}},
            {"better": {"error": 0.5}},
        ],
    }
    with pytest.raises(SettingsError) as caught:
        gates("production", wrong)
    places = [problem.path for problem in caught.value.problems]
    assert places == [
        "channels.production.require[0]",
        "channels.production.require[1].cooldown",
        "channels.production.require[2].max_change.number",
        "channels.production.require[3].max_change.speed",
        "channels.production.require[4].review.when",
        "channels.production.require[5]",
        "channels.production.require[6].max_change",
        "channels.production.require[7].max_change.number",
        "channels.production.require[8].better.error",
        "channels.production.colour",
    ]


@pytest.mark.parametrize(
    ("protection", "expected"),
    [
        ({}, BudgetTerms(0.05, "lord")),
        ({"error_budget": 0.1}, BudgetTerms(0.1, "lord")),
        ({"error_budget": {"rate": 0.01}}, BudgetTerms(0.01, "lord")),
        ({"error_budget": {"control": "e-lond"}, "require": []}, BudgetTerms(0.05, "e-lond")),
        ({"error_budget": {"rate": 0.2, "control": "lord"}}, BudgetTerms(0.2, "lord")),
    ],
)
def test_the_error_budget_of_a_channel_has_a_rate_and_a_control(
    protection: dict[str, Any], expected: BudgetTerms
) -> None:
    assert terms(protection) == expected
    gates("production", protection)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (0.5, ["error_budget.rate: found 0.5; expected a share above 0 and below 0.5, such as 0.05"]),
        (0, ["error_budget.rate: found 0;"]),
        (True, ["error_budget.rate: found True;"]),
        ({"rate": -0.1}, ["error_budget.rate: found -0.1;"]),
        ({"rate": float("nan")}, ["error_budget.rate: found nan;"]),
        ({"rate": "5 %"}, ['error_budget.rate: found "5 %";']),
        ({"control": "lond"}, ['error_budget.control: found "lond"; expected one of: lord, e-lond']),
        ({"control": ["lord"]}, ["error_budget.control: found ['lord'];"]),
        (
            {"share": 0.1, "rate": 2},
            ["rate: found 2", "budget.share: found an unknown key; expected one of: rate, control"],
        ),
        (None, ["error_budget: found None; expected a rate such as 0.05, or {rate: RATE, control: CONTROL}"]),
        ("lord", ['error_budget: found "lord"; expected a rate']),
    ],
)
def test_an_error_budget_that_cannot_be_is_told(given: object, told: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        ChannelSettings.read({"error_budget": given}, "channels.production")
    assert len(caught.value.problems) == len(told)
    for problem, words in zip(caught.value.problems, told, strict=True):
        assert words in f"{problem}"


def test_a_misspelt_error_budget_is_no_default_one() -> None:
    with pytest.raises(SettingsError, match="error_budgt: found an unknown key; expected one of: require"):
        terms({"error_budgt": 0.01})


def test_something_else_than_a_list_is_refused() -> None:
    with pytest.raises(SettingsError, match="expected a list"):
        gates("production", {"require": "better"})


def test_the_limits_of_an_imported_strategy_are_gates() -> None:
    strategy = {
        "metadata": {"name": "desk", "version": "1.0.0"},
        "parameters": {"warmth": 0.5},
        "constraints": {"never_execute": ["shout"]},
        "evolution_metadata": {
            "max_parameter_delta": 0.05,
            "cooldown_period_days": 7,
            "requires_human_review": True,
        },
    }
    expected = [MaxChange(number=0.05), Cooldown(timedelta(days=7)), Review("always")]
    assert gates("production", import_document(strategy).protection) == expected
