"""Who can, who fits, who can be paid; then what was declared and what was learned."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import BudgetSpent, ModelUnavailable, SeedbedError, SettingsError
from seedbed.models.cards import Registry
from seedbed.models.routing.request import ModelChoice, RoutingRequest
from seedbed.models.routing.router import Router, RoutingPolicy

QUIET = RoutingPolicy(explore=0.0)


def registry(**cards: dict[str, Any]) -> Registry:
    return Registry({name: {"use": "scripted", "usd_per_million": [1, 1], **card} for name, card in cards.items()})


def choose(router: Router, seed: int | str = 1, task_type: str = "reasoning", **how: Any) -> ModelChoice:
    options = {"prompt_tokens": 1000, "max_tokens": 500, "seed": seed, **how}
    return router.choose(RoutingRequest(task_type=task_type, **options))


def shares(router: Router, times: int = 400, **how: Any) -> dict[str, float]:
    counts = Counter(choose(router, seed, **how).model for seed in range(times))
    return {name: count / times for name, count in counts.items()}


def rejections(choice: ModelChoice) -> dict[str, str]:
    return {each.model: each.rejected for each in choice.considered if each.rejected}


# Who fits


def test_only_models_that_can_do_all_that_is_needed_are_chosen() -> None:
    router = Router(
        registry(a={"can": ["reasoning"]}, b={"can": ["reasoning", "vision"]}, c={"skill": {"vision": 1.0}})
    )
    choice = choose(router, needs=["reasoning", "vision"])
    assert choice.model == "b"
    assert choice.propensity == 1.0
    assert rejections(choice) == {"a": "it cannot do vision", "c": "it cannot do reasoning"}
    assert choice.because == "no other model fits"


def test_prompt_and_reply_must_fit_into_the_context() -> None:
    router = Router(registry(small={"context_tokens": 1499}, exact={"context_tokens": 1500}))
    choice = choose(router)
    assert choice.model == "exact"
    assert rejections(choice) == {"small": "its context holds 1,499 tokens, prompt and reply take 1,500"}


def test_a_limit_on_the_cost_holds_for_the_longest_reply() -> None:
    models = registry(dear={"usd_per_million": [1, 10]}, cheap={"usd_per_million": [1, 1]})
    choice = choose(Router(models), max_cost_usd=0.0015)
    assert choice.model == "cheap"
    assert rejections(choice) == {"dear": "$0.001500 allowed would cut its reply short"}


def test_if_nobody_can_be_paid_in_full_a_limit_on_the_cost_allows_a_short_reply() -> None:
    models = registry(dear={"usd_per_million": [1, 100]}, cheap={"usd_per_million": [1, 1]})
    choice = choose(Router(models), max_cost_usd=0.0014)
    assert choice.model == "cheap"
    assert rejections(choice) == {"dear": "even a short reply may cost $0.002600, $0.001400 is allowed"}
    assert choose(Router(models), max_cost_usd=0.0014, affordable=0.0012).model == "cheap"
    with pytest.raises(BudgetSpent, match=r"cheap: even a short reply may cost \$0.001016, \$0.001000 is allowed"):
        choose(Router(models), max_cost_usd=0.001, affordable=1.0)


def test_who_reserves_more_for_the_prompt_is_given_somebody_who_can_be_paid_so_much() -> None:
    models = registry(dear={"usd_per_million": [1, 1], "context_tokens": 1_500}, free={"usd_per_million": [0, 0]})
    assert choose(Router(models), prefer="dear", affordable=0.002).model == "dear"
    choice = choose(Router(models), prefer="dear", affordable=0.002, most_prompt_tokens=4_000)
    assert choice.model == "free"
    assert rejections(choice) == {"dear": "even a short reply may cost $0.004016, $0.002000 is left"}


def test_the_limit_on_the_cost_binds_even_where_only_quality_counts() -> None:
    models = registry(
        best={"usd_per_million": [9, 9], "skill": {"reasoning": 0.95}}, poor={"skill": {"reasoning": 0.1}}
    )
    assert choose(Router(models, QUIET), quality="maximum").model == "best"
    assert choose(Router(models, QUIET), quality="maximum", max_cost_usd=0.002).model == "poor"


def test_who_can_be_paid_in_full_goes_before_who_would_be_cut_short() -> None:
    models = registry(dear={"usd_per_million": [1, 10]}, cheap={"usd_per_million": [1, 1]})
    choice = choose(Router(models), affordable=0.002)
    assert choice.model == "cheap"
    assert "cut its reply short" in rejections(choice)["dear"]
    short = choose(Router(models, QUIET), affordable=0.0012)
    assert {each.model for each in short.considered if not each.rejected} == {"cheap", "dear"}
    with pytest.raises(BudgetSpent, match="even a short reply"):
        choose(Router(models), affordable=0.001)


def test_a_model_of_unknown_price_is_used_only_while_there_is_no_limit() -> None:
    models = Registry({"secret": {"use": "some_package.Chat"}})
    assert choose(Router(models)).model == "secret"
    with pytest.raises(BudgetSpent, match="its price is not known"):
        choose(Router(models), max_cost_usd=100.0)
    with pytest.raises(BudgetSpent, match="its price is not known"):
        choose(Router(models), affordable=100.0)


def test_where_nothing_fits_the_error_says_why_of_every_model() -> None:
    router = Router(registry(a={"can": ["vision"]}, b={}))
    with pytest.raises(ModelUnavailable) as wrong:
        choose(router, needs=["reasoning"])
    assert wrong.value.why == "ours"
    assert "a: it cannot do reasoning; b: it cannot do reasoning" in str(wrong.value)
    with pytest.raises(ModelUnavailable) as wrong:
        choose(Router(registry(a={"context_tokens": 10})))
    assert wrong.value.why == "context"
    with pytest.raises(ModelUnavailable, match="there are no models"):
        choose(Router(Registry({})))


# Who is preferred


def test_the_preferred_model_is_chosen_whenever_it_fits() -> None:
    router = Router(registry(good={"skill": {"reasoning": 0.95}}, bad={"skill": {"reasoning": 0.05}}))
    choice = choose(router, prefer="bad")
    assert (choice.model, choice.propensity, choice.preferred) == ("bad", 1.0, True)
    assert shares(router, 50, prefer="bad") == {"bad": 1.0}


def test_a_preferred_model_that_does_not_fit_is_replaced_and_named() -> None:
    router = Router(registry(good={"can": ["reasoning"]}, blind={}))
    choice = choose(router, needs=["reasoning"], prefer="blind")
    assert (choice.model, choice.preferred) == ("good", False)
    assert choice.because == "no other model fits; blind is preferred, but it cannot do reasoning"


def test_a_misspelled_preference_is_an_error() -> None:
    with pytest.raises(SettingsError, match='no model named "god"; expected one of: bad, good'):
        choose(Router(registry(good={}, bad={})), prefer="god")


def test_an_unknown_quality_is_an_error() -> None:
    with pytest.raises(SettingsError, match="balanced or maximum"):
        choose(Router(registry(a={})), quality="best")


# What was declared


def test_the_declared_best_gets_at_least_nine_of_ten_choices() -> None:
    others: dict[str, dict[str, Any]] = {f"model{number}": {} for number in range(9)}
    router = Router(registry(best={"skill": {"reasoning": 0.9}}, **others))
    assert shares(router)["best"] >= 0.9


def test_a_skill_in_what_is_needed_counts_for_types_of_task_without_one() -> None:
    models = registry(
        both={"skill": {"law": 0.8, "german": 0.6}}, one={"skill": {"law": 0.9}, "can": ["german"]}, none={}
    )
    router = Router(models)
    assert router.belief("contracts", "both", ["law", "german"]).mean == pytest.approx(0.6)
    assert router.belief("contracts", "one", ["law", "german"]).mean == pytest.approx(0.5)
    assert router.belief("law", "both", ["law", "german"]).mean == pytest.approx(0.8)


def test_of_equals_the_cheaper_one_is_chosen_more_often_unless_only_quality_counts() -> None:
    models = registry(
        dear={"usd_per_million": [30, 30], "skill": {"reasoning": 0.7}},
        cheap={"usd_per_million": [1, 1], "skill": {"reasoning": 0.7}},
    )
    router = Router(models, RoutingPolicy(explore=0.0, cost_weight=0.05))
    assert shares(router)["cheap"] > 0.8
    assert shares(router, quality="maximum")["cheap"] == pytest.approx(0.5, abs=0.1)


def test_models_that_cost_nothing_are_all_equally_cheap() -> None:
    router = Router(registry(a={"usd_per_million": [0, 0]}, b={"usd_per_million": [0, 0]}), QUIET)
    assert {each.chance for each in choose(router).considered} == {0.5}


# What was learned


def test_what_is_learned_outvotes_a_wrong_declaration() -> None:
    router = Router(registry(praised={"skill": {"reasoning": 0.95}}, modest={"skill": {"reasoning": 0.4}}))
    assert shares(router)["praised"] > 0.9
    for _ in range(20):
        router.learn("reasoning", "praised", 0.0, 0.001, 1.0)
        router.learn("reasoning", "modest", 1.0, 0.001, 1.0)
    assert shares(router)["modest"] > 0.9


def test_learning_finds_the_good_model_by_itself() -> None:
    router = Router(registry(a={}, b={}, c={}))
    truth = {"a": 0.3, "b": 0.9, "c": 0.5}
    for number in range(150):
        model = choose(router, number).model
        good = (number * 37 % 100) / 100 < truth[model]
        router.learn("reasoning", model, float(good), None, None)
    assert shares(router)["b"] > 0.9


def test_old_evidence_fades_so_that_choices_follow_a_change() -> None:
    models = registry(a={}, b={})
    fading, keeping = Router(models, RoutingPolicy(half_life=20)), Router(models, RoutingPolicy(half_life=1e9))
    for router in (fading, keeping):
        for _ in range(200):
            router.learn("reasoning", "a", 1.0, None, None)
            router.learn("reasoning", "b", 0.0, None, None)
        for _ in range(60):
            router.learn("reasoning", "a", 0.0, None, None)
            router.learn("reasoning", "b", 1.0, None, None)
    assert shares(fading)["b"] > 0.9
    assert shares(keeping)["a"] > 0.9


def test_what_was_learned_at_one_task_is_a_hint_for_others_and_no_more() -> None:
    router = Router(registry(a={}, b={}), QUIET)
    for _ in range(500):
        router.learn("reasoning", "a", 1.0, None, None)
        router.learn("reasoning", "b", 0.4, None, None)
    assert shares(router, task_type="poetry")["a"] > 0.7
    for _ in range(60):
        router.learn("poetry", "a", 0.1, None, None)
        router.learn("poetry", "b", 0.9, None, None)
    assert shares(router, task_type="poetry")["b"] > 0.9
    assert shares(router, task_type="reasoning")["a"] > 0.9


def test_measured_cost_and_latency_count() -> None:
    router = Router(registry(a={}, b={}), RoutingPolicy(explore=0.0, cost_weight=0.1, latency_weight=0.0))
    for _ in range(5):
        router.learn("reasoning", "a", 0.5, 0.01, None)
        router.learn("reasoning", "b", 0.5, 0.0001, None)
    assert shares(router)["b"] > 0.8
    router = Router(registry(a={}, b={}), RoutingPolicy(explore=0.0, cost_weight=0.0, latency_weight=0.1))
    for _ in range(5):
        router.learn("reasoning", "a", 0.5, None, 0.2)
        router.learn("reasoning", "b", 0.5, None, 20.0)
    assert shares(router)["a"] > 0.8


def test_an_unmeasured_model_is_expected_to_need_the_same_share_of_the_longest_reply() -> None:
    router = Router(registry(a={"usd_per_million": [0, 10]}, b={"usd_per_million": [0, 20]}))
    router.learn("reasoning", "a", 0.5, 0.0005, None)  # a tenth of what 500 tokens cost
    costs = {each.model: each.cost_usd for each in choose(router).considered}
    assert costs == pytest.approx({"a": 0.0005, "b": 0.001})


# Chances and seeds


def test_the_chances_of_a_choice_add_up_and_are_its_frequencies() -> None:
    router = Router(registry(a={}, b={}, c={"can": ["x"]}), RoutingPolicy(explore=0.1, sharpness=1.0))
    for score in (1.0, 1.0, 0.0):
        router.learn("reasoning", "a", score, 0.001, 1.0)
    choice = choose(router)
    odds = {each.model: each.chance for each in choice.considered}
    assert sum(odds.values()) == pytest.approx(1, abs=1e-12)
    assert choice.propensity == odds[choice.model]
    assert shares(router, 4000) == pytest.approx(odds, abs=0.03)


def test_a_stated_share_of_choices_is_blind() -> None:
    models = registry(best={"skill": {"reasoning": 0.98}}, worst={"skill": {"reasoning": 0.02}})
    router = Router(models, RoutingPolicy(explore=0.2))
    blind = [choice for seed in range(2000) if "blindly" in (choice := choose(router, seed)).because]
    assert len(blind) / 2000 == pytest.approx(0.2, abs=0.03)
    assert Counter(choice.model for choice in blind)["worst"] / len(blind) == pytest.approx(0.5, abs=0.1)
    worst = {choice.propensity for choice in blind if choice.model == "worst"}
    assert worst.pop() == pytest.approx(0.1, abs=1e-6)
    assert not worst


scores = st.floats(0, 1)
outcomes = st.lists(
    st.fixed_dictionaries(
        {
            "task_type": st.sampled_from(["law", "art"]),
            "model": st.sampled_from("abcd"),
            "score": scores,
            "cost_usd": st.none() | st.floats(0, 10),
            "latency_seconds": st.none() | st.floats(0, 1000),
        }
    ),
    max_size=30,
)
CARDS: dict[str, dict[str, Any]] = {"a": {"skill": {"law": 0.8}}, "b": {"usd_per_million": [5, 5]}, "c": {}}


@given(outcomes, st.integers(), st.sampled_from(["law", "art"]), st.permutations(list(CARDS)))
def test_a_choice_depends_on_outcomes_and_seed_not_on_order_or_earlier_choices(
    learned: list[dict[str, Any]], seed: int, task: str, order: list[str]
) -> None:
    router = Router.from_outcomes(registry(**CARDS), learned)
    first = choose(router, seed, task)
    choose(router, seed + 1, task)
    other = Router.from_outcomes(registry(**{name: CARDS[name] for name in order}), learned)
    assert choose(other, seed, task) == choose(router, seed, task) == first
    assert sum(each.chance for each in first.considered) == pytest.approx(1)


def test_a_decision_is_plain_json_that_names_everybody_considered() -> None:
    router = Router(registry(a={"can": ["x"]}, b={"can": ["x"]}, c={}))
    document = choose(router, needs=["x"]).document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert [each["model"] for each in document["considered"]] == ["a", "b", "c"]
    assert document["considered"][2]["rejected"] == "it cannot do x"


# What makes no sense


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_is_between_zero_and_one(score: float) -> None:
    with pytest.raises(SeedbedError, match="expected a number from 0 to 1"):
        Router(registry(a={})).learn("law", "a", score, 0.0, 0.0)


@pytest.mark.parametrize(("cost", "latency"), [(-1.0, 0.0), (0.0, float("inf")), (float("nan"), None)])
def test_cost_and_latency_are_finite(cost: float, latency: float | None) -> None:
    router = Router(registry(a={}))
    with pytest.raises(SeedbedError, match="expected a finite number from 0, or None"):
        router.learn("law", "a", 0.5, cost, latency)
    assert router.belief("law", "a") == Router(registry(a={})).belief("law", "a")


@pytest.mark.parametrize(
    "wrong", [{"explore": 1.5}, {"half_life": 0}, {"sharpness": float("inf")}, {"cost_weight": -1}, {"borrowed": -1}]
)
def test_a_policy_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=f"routing.{next(iter(wrong))}"):
        RoutingPolicy(**wrong)


def test_outcomes_of_a_model_that_is_gone_do_no_harm() -> None:
    router = Router(registry(a={}, b={}))
    router.learn("law", "gone", 1.0, 0.1, 1.0)
    assert choose(router, task_type="law").model in ("a", "b")
