from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.agreement import cohen, cohen_interval, confusion, fleiss, krippendorff, raw_agreement

A = [2, 1, 1, 0, 0, 0, 0, 4, 3, 4, 2, 3, 4, 3, 3, 2, 2, 4, 1, 4, 3, 0, 1, 4, 2, 0, 3, 3, 4, 0, 0, 4, 0, 2, 0, 1, 2, 2]
B = [0, 4, 1, 0, 3, 4, 0, 3, 4, 4, 2, 3, 4, 3, 3, 3, 4, 4, 1, 4, 4, 0, 1, 0, 2, 4, 3, 1, 4, 0, 4, 4, 0, 2, 0, 2, 2, 2]
A, B = [*A, 2, 0, 0], [*B, 2, 0, 0]


def table(counts: list[list[int]]) -> tuple[list[int], list[int]]:
    """The labels of two raters whose table this is."""
    cells = [(i, j) for i, row in enumerate(counts) for j, count in enumerate(row) for _ in range(count)]
    return [i for i, _ in cells], [j for _, j in cells]


# Values by scikit-learn 1.9.1 (cohen_kappa_score) and statsmodels 0.15.0 (cohens_kappa, fleiss_kappa); our functions
# gave the same to 1e-13 for 300 random tables besides.
@pytest.mark.parametrize(
    ("weights", "kappa", "low", "high"),
    [
        (None, 0.5667924528301886, 0.3844391935944069, 0.7491457120659706),
        ("linear", 0.5405772495755518, 0.31845898695048847, 0.762695512200615),
        ("quadratic", 0.4990744168826361, 0.20598258770374067, 0.7921662460615315),
    ],
)
def test_cohens_kappa_and_its_large_sample_interval_are_those_of_the_field(
    weights: Any, kappa: float, low: float, high: float
) -> None:
    interval = cohen_interval(A, B, weights=weights, method="analytic")
    assert (interval.mean, interval.low, interval.high) == pytest.approx((kappa, low, high), abs=1e-12)
    assert cohen(A, B, weights=weights) == pytest.approx(kappa, abs=1e-12)


def test_cohens_kappa_of_the_first_published_example() -> None:
    # J. Cohen, A coefficient of agreement for nominal scales, 1960, table 1: three labels, 200 items.
    a, b = table([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    assert raw_agreement(a, b).mean == pytest.approx(0.70)
    assert cohen(a, b) == pytest.approx(0.492, abs=0.0005)


def test_fleiss_kappa_of_the_published_example() -> None:
    # The ten items by fourteen raters that Wikipedia's article on Fleiss' kappa works through: 0.210.
    counts = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
    ratings = [[label for label, count in enumerate(row) for _ in range(count)] for row in counts]
    assert fleiss(ratings) == pytest.approx(0.20993, abs=1e-5)


def test_krippendorffs_alpha_of_the_published_example() -> None:
    # K. Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011, part C: four observers, twelve units.
    observers: list[list[int | None]] = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    units = list(zip(*observers, strict=True))
    assert krippendorff(units) == pytest.approx(0.743, abs=0.0005)
    assert krippendorff(units, "interval") == pytest.approx(0.849, abs=0.0005)


def test_krippendorffs_alpha_with_much_missing_is_that_of_its_package() -> None:
    # By krippendorff 0.9.0.
    nan = math.nan
    rows = [[nan, 0, 0, nan], [3, nan, 4, nan], [0, 0, 0, 3], [4, 4, nan, nan], [nan, 4, 4, 4], [nan, 4, 4, 4]]
    rows += [[1, 1, 1, nan], [1, nan, 1, 1], [1, nan, 1, 1], [4, 4, 0, 4], [4, nan, 2, 2], [3, 2, 0, 4]]
    assert krippendorff(rows) == pytest.approx(0.5588235294117647, abs=1e-12)
    assert krippendorff(rows, "interval") == pytest.approx(0.5700668238993711, abs=1e-12)


def test_raters_who_always_agree_have_kappa_1_and_opposite_ones_less_than_0() -> None:
    assert cohen(list("abcab"), list("abcab")) == pytest.approx(1)
    assert cohen([0, 1, 0, 1], [1, 0, 1, 0]) == pytest.approx(-1)
    assert fleiss([[1, 1, 1], [2, 2, 2]]) == pytest.approx(1)
    assert krippendorff([["x", "x"], ["y", "y"]]) == pytest.approx(1)


def test_a_rater_who_always_says_the_same_agrees_by_chance_only() -> None:
    assert cohen([1] * 20, [1] * 18 + [0] * 2) == pytest.approx(0)
    assert raw_agreement([1] * 20, [1] * 18 + [0] * 2).mean == 0.9


@pytest.mark.parametrize(("a", "b"), [([], []), ([1] * 30, [1] * 30), ([None, 1], [1, None])])
def test_where_nothing_can_be_said_kappa_is_no_number_and_its_interval_everything(a: list[Any], b: list[Any]) -> None:
    interval = cohen_interval(a, b)
    assert math.isnan(interval.mean)
    assert (interval.low, interval.high) == (-1, 1)


def test_nothing_can_be_said_of_no_ratings_either() -> None:
    assert math.isnan(fleiss([]))
    assert math.isnan(krippendorff([]))
    assert math.isnan(krippendorff([[1, None], [None, 2]]))
    assert math.isnan(fleiss([[3, 3], [3, 3]]))
    assert math.isnan(krippendorff([[3, 3], [3, 3]]))


def test_items_with_a_missing_label_are_left_out_and_not_counted() -> None:
    a, b = ["yes", "no", None, "yes", "no"], ["yes", "no", "yes", math.nan, "yes"]
    interval = cohen_interval(a, b)
    assert interval.n == 3
    assert interval == cohen_interval(["yes", "no", "no"], ["yes", "no", "yes"])
    assert raw_agreement(a, b).n == 3


def test_a_tie_is_a_label_between_the_others() -> None:
    a, b = [-1, 0, 1, 0, 1, -1], [-1, 0, 1, 1, 1, -1]
    assert cohen(a, b) < cohen(a, b, weights="quadratic") < 1


def test_the_distance_of_numbers_counts_and_of_words_their_place() -> None:
    near, far = ([1, 2, 9, 9], [2, 1, 9, 9]), ([1, 2, 9, 9], [1, 2, 1, 9])
    assert cohen(*near, weights="quadratic") > 0.9 > cohen(*far, weights="quadratic")
    words = (["bad", "fair", "good"], ["bad", "good", "good"])
    numbers = ([0, 1, 2], [0, 2, 2])
    ordered = ["bad", "fair", "good"]
    assert cohen(*words, weights="linear", labels=ordered) == pytest.approx(cohen(*numbers, weights="linear"))


def test_words_have_no_distance_unless_their_order_is_told() -> None:
    with pytest.raises(SeedbedError, match="expected their order"):
        cohen(["bad", "good"], ["bad", "bad"], weights="linear")
    with pytest.raises(SeedbedError, match="expected numbers"):
        krippendorff([["bad", "good"]], "interval")


def test_a_label_that_is_not_on_the_list_is_refused_even_if_it_is_0() -> None:
    with pytest.raises(SeedbedError, match="found 0; expected one of: 1, 2"):
        cohen([0, 1], [1, 2], labels=[1, 2])


def test_raters_of_different_items_are_refused() -> None:
    with pytest.raises(SeedbedError, match="found 1 labels; expected 2"):
        cohen([1, 0], [1])
    with pytest.raises(SeedbedError, match="Use krippendorff"):
        fleiss([[1, 0], [1, None]])
    with pytest.raises(SeedbedError, match="confidence"):
        cohen_interval([1, 0], [1, 0], confidence=95)


def test_the_table_counts_every_pair_once() -> None:
    told = confusion(["b", "a", "a", None], ["b", "b", "a", "a"])
    assert told.labels == ("a", "b")
    assert told.counts == ((1, 1), (0, 1))
    assert told.n == 3


def test_the_same_labels_give_the_same_interval_and_swapped_raters_too_nearly() -> None:
    there, back = cohen_interval(A, B), cohen_interval(B, A)
    assert there == cohen_interval(A, B)
    assert (there.mean, there.low, there.high) == pytest.approx((back.mean, back.low, back.high), abs=0.02)
    assert there.low < there.mean < there.high


def test_ten_of_ten_is_no_proof_of_perfect_agreement() -> None:
    labels = [0, 1] * 5
    assert cohen_interval(labels, labels, method="analytic").low == 1  # why it is not the usual one
    assert 0.3 < cohen_interval(labels, labels).low < 0.8
    assert cohen_interval(labels * 20, labels * 20).low > 0.95


@pytest.mark.parametrize(
    ("kappa", "shares", "n"),
    [
        (0.4, [0.5, 0.5], 40),
        (0.95, [0.5, 0.5], 20),
        (0.3, [0.9, 0.1], 20),
        (0.0, [0.1, 0.9], 50),
        (0.6, [0.9, 0.1], 10),
    ],
)
def test_the_interval_holds_the_truth_also_where_a_label_is_rare(kappa: float, shares: list[float], n: int) -> None:
    rng, p = np.random.default_rng(7), np.array(shares)
    truth = kappa * np.diag(p) + (1 - kappa) * np.outer(p, p)  # agree, or draw by chance
    above_analytic, covered, times = 0, 0, 200
    for _ in range(times):
        a, b = table(rng.multinomial(n, truth.ravel()).reshape(2, 2).tolist())
        interval, analytic = cohen_interval(a, b), cohen_interval(a, b, method="analytic")
        above_analytic += analytic.low > kappa
        covered += interval.low <= kappa <= interval.high
    assert covered / times >= 0.93
    if kappa > 0.9:
        assert above_analytic / times > 0.4


def test_rare_values_of_a_scale_that_did_not_come_may_be_those_that_agree() -> None:
    people, judge = [0] * 5 + [1] * 4 + [0], [1] * 5 + [0] * 4 + [0]
    seen = cohen_interval(people, judge, weights="quadratic")
    scale = cohen_interval(people, judge, weights="quadratic", labels=[0, 1, 4])
    assert scale.mean == pytest.approx(seen.mean)
    assert seen.high < 0.5 < scale.high


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_the_interval_of_perfect_agreement_holds_it_and_what_disagreement_may_be_unseen(weights: Any) -> None:
    labels = [1, 2, 3, 4] * 5
    found = cohen_interval(labels, labels, weights=weights)
    unseen = 1 - stats.binomtest(20, 20).proportion_ci(method="exact").low
    apart = np.abs(np.subtract.outer(range(4), range(4))) / 3
    by_chance = {None: (apart > 0).mean(), "linear": apart.mean(), "quadratic": (apart**2).mean()}[weights]
    assert (found.mean, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(1 - unseen / by_chance)
