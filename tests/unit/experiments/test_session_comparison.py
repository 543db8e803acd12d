"""Past sessions compared with hindsight."""

from __future__ import annotations

import json
from itertools import product
from math import factorial
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest
from session_samples import history, outcomes, record

from seedbed.errors import DocumentError
from seedbed.experiments.session_comparison import Hindsight, compare_sessions, one_sided, select
from seedbed.experiments.verdict import Verdict
from seedbed.runs.imports.sessions import Session, SessionTask, load


def session(name: str, scores: dict[str, float | None], **more: Any) -> Session:
    tasks = tuple(SessionTask(id=f"{name}-{task}", name=task, score=score) for task, score in scores.items())
    return Session(id=name, tasks=tasks, **more)


def found(signs: str, **more: Any) -> Hindsight:
    return compare_sessions([session("A", outcomes(signs, "a"))], [session("B", outcomes(signs, "b"))], **more)


@pytest.mark.parametrize("wins", range(8))
@pytest.mark.parametrize("losses", range(8))
def test_one_sided_tests_are_exact(wins: int, losses: int) -> None:
    expected = binomtest(wins, wins + losses, alternative="greater").pvalue if wins + losses else 1.0
    assert one_sided(wins, losses) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("signs", "finding"),
    [
        ("+++++===", "superior"),
        ("++++====", "inconclusive"),
        ("-----===", "inferior"),
        ("++-============", "inconclusive"),
        ("========", "inconclusive"),
        ("++++++++-", "superior"),
        ("", "invalid"),
        ("????", "invalid"),
    ],
)
def test_the_finding_says_no_more_than_the_tasks_do(signs: str, finding: str) -> None:
    assert found(signs).finding == finding


def test_figures_are_those_of_pairs_of_tasks_by_name() -> None:
    a = session("A", {"x": 1.0, "y": 0.0, "z": 1.0, "old": 1.0}, tokens=10)
    b = session("B", {"new": 0.0, "z": 0.0, "y": 1.0, "x": 1.0}, tokens=30)
    told = compare_sessions([a], [b])
    assert (told.wins, told.ties, told.losses, told.missing) == (1, 1, 1, 0)
    assert (told.a_mean, told.b_mean, told.difference) == (pytest.approx(2 / 3), pytest.approx(2 / 3), 0.0)
    assert (told.only_a, told.only_b) == (("old",), ("new",))
    assert (told.a_tokens, told.b_tokens) == (10, 30)
    assert told.low == pytest.approx(-told.high if told.high else 0)
    assert told.p == 1.0


def test_a_missing_score_is_counted_and_is_neither_pass_nor_failure() -> None:
    told = found("++??=")
    assert (told.wins, told.ties, told.losses, told.missing) == (2, 1, 0, 2)
    assert told.b_mean == 1.0
    assert [pair.gain for pair in told.pairs] == [1, 1, None, None, 0]


def test_a_finding_must_stand_whatever_the_missing_scores_were() -> None:
    assert found("+++++").finding == "superior"
    assert found("+++++?").finding == "inconclusive"
    assert "missing scores, on 1 of 6" in found("+++++?").because
    assert found("++++++++?").finding == "superior"
    assert found("-----?").finding == "inconclusive"


def test_a_group_may_not_drop_its_failures_as_missing() -> None:
    a = [session("A", dict.fromkeys("vwxyz", 0.0))]
    scored, silent = session("B1", dict.fromkeys("vwxyz", 1.0)), session("B2", dict.fromkeys("vwxyz"))
    assert compare_sessions(a, [scored]).finding == "superior"
    told = compare_sessions(a, [scored, silent])
    assert (told.finding, told.missing, told.wins) == ("inconclusive", 5, 5)


def test_a_win_with_a_missing_try_is_no_win_that_is_sure() -> None:
    names = "abcdefg"
    a, b = session("A", dict.fromkeys(names, 0.0)), session("B1", dict.fromkeys(names, 1.0))
    told = compare_sessions([a], [b, session("B2", {"a": None})])
    assert (told.wins, told.missing) == (7, 1)
    assert told.finding == "inconclusive", "six wins and a loss are what chance does once in sixteen times"


def test_tries_of_a_task_are_averaged_and_count_once() -> None:
    a = [session(f"A{n}", {"x": float(n), "y": 1.0}) for n in range(2)]
    b = [session(f"B{n}", {"x": 1.0, "y": 1.0}) for n in range(3)]
    told = compare_sessions(a, b)
    assert [(pair.name, pair.a, pair.b) for pair in told.pairs] == [("x", 0.5, 1.0), ("y", 1.0, 1.0)]
    assert (told.wins, told.ties) == (1, 1)
    assert told.a_tokens is None


def test_tasks_of_one_name_with_another_text_are_not_compared() -> None:
    a = Session(id="A", tasks=(SessionTask(id="1", name="x", text="Buy 1", score=0.0),))
    b = Session(id="B", tasks=(SessionTask(id="2", name="x", text="Buy 2", score=1.0),))
    told = compare_sessions([a], [b])
    assert (told.changed, told.pairs, told.finding) == (("x",), (), "invalid")


def test_a_session_on_both_sides_is_invalid() -> None:
    a, b = session("A", outcomes("+++++", "a")), session("B", outcomes("+++++", "b"))
    told = compare_sessions([a], [a, b])
    assert (told.finding, told.because) == ("invalid", "on both sides: A")


def test_a_session_whose_record_contradicts_its_log_is_invalid() -> None:
    a, b = session("A", outcomes("+++++", "a")), session("B", outcomes("+++++", "b"), score=0.2)
    assert compare_sessions([a], [b]).finding == "invalid"
    assert "0.2" in compare_sessions([a], [b]).because


def test_what_sets_the_sides_apart_is_told() -> None:
    a = session("A", {"x": 1.0}, config={"model": "small", "steps": 3, "same": [1]})
    b = [session(n, {"x": 1.0}, config={"model": m, "same": [1]}) for n, m in (("B", "large"), ("C", "medium"))]
    assert compare_sessions([a], b).differs == {
        "model": {"a": ["small"], "b": ["large", "medium"]},
        "steps": {"a": [3], "b": [None]},
    }


def test_it_is_no_verdict_and_says_so() -> None:
    told = found("++++++++")
    assert not isinstance(told, Verdict)
    document = json.loads(json.dumps(told.document()))
    assert document["registered"] is False
    assert "not registered in advance" in document["note"]


def test_the_error_rate_can_be_chosen() -> None:
    assert found("++++=", alpha=0.1).finding == "superior"
    with pytest.raises(DocumentError, match="alpha: found 1"):
        found("+", alpha=1)


def test_where_b_is_as_good_as_a_few_findings_are_wrong() -> None:
    """Over all ways in which eight tasks can go, each with its chance."""
    wrong = 0.0
    for wins, losses in product(range(9), repeat=2):
        ties = 8 - wins - losses
        if ties >= 0 and found("+" * wins + "-" * losses + "=" * ties).finding == "superior":
            ways = factorial(8) / (factorial(wins) * factorial(losses) * factorial(ties))
            wrong += ways * 0.4 ** (wins + losses) * 0.2**ties
    assert 0 < wrong <= 0.05


def test_sessions_are_found_by_id_by_its_beginning_and_by_setting(tmp_path: Path) -> None:
    settings = {"ab": {"n": 3}, "abc": {"n": 3, "deep": {"on": True}}, "b": {"n": "4"}}
    sessions = load(history(tmp_path, *(record(name, {}, config=config) for name, config in settings.items())))

    def ids(wanted: str) -> list[str]:
        return [each.id for each in select(sessions, wanted)]

    assert ids("ab") == ["ab"], "a whole id is not the beginning of another"
    assert ids("abc") == ["abc"]
    assert ids("config.n=3") == ["ab", "abc"]
    assert ids("config.n=4") == ["b"]
    assert ids("config.deep.on=true") == ["abc"]


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("a", "with which 2 ids begin"),
        ("c", "one of the sessions: ab, ac"),
        ("", "one of the"),
        ("config.n=9", "config.n=9"),
    ],
)
def test_what_names_no_session_is_refused(wanted: str, told: str) -> None:
    with pytest.raises(DocumentError, match="session: found") as refused:
        select([session("ab", {}), session("ac", {})], wanted)
    assert told in str(refused.value)
