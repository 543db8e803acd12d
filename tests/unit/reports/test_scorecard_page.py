"""The page of a report: complete, safe, and content with itself."""

from __future__ import annotations

from page_reader import Reader, assert_asks_nothing
from test_scorecard_report import HOSTILE, ONE, TWO, card

from seedbed.evaluation.scorecard import Scorecard
from seedbed.reports.scorecard import Report, to_html


def test_the_page_tells_what_matters() -> None:
    text = " ".join(Reader(to_html(ONE)).text)
    for told in (
        "0.667",
        "95 % interval 0.094 to 0.992",
        "1 cell not scored",
        "tag a",
        "seedbed runs show baaaaaaaaa",
    ):
        assert told in text
    assert "lower is better" in text


def test_the_page_asks_nothing_of_anybody() -> None:
    for report in (ONE, TWO):
        assert_asks_nothing(to_html(report))


def test_hostile_names_and_answers_are_shown_and_do_nothing() -> None:
    worse = f'"><img src=x onerror=alert(1)>{HOSTILE}'
    plain = [tag for tag, _ in Reader(to_html(ONE)).tags]
    reader = Reader(to_html(Report({worse: card(hostile=worse)}, title=ONE.title)))
    assert [tag for tag, _ in reader.tags if tag != "title"] == [tag for tag in plain if tag != "title"]
    assert any('<script>alert("x")</script>' in text for text in reader.text)


def test_several_playbooks_have_a_part_each_and_no_claim_is_made() -> None:
    reader = Reader(to_html(TWO))
    assert [tag for tag, _ in reader.tags].count("details") == 2
    assert "do not say which playbook is better" in " ".join(reader.text)


def test_notes_come_before_the_scores() -> None:
    page = to_html(Report(ONE.cards, notes=("regression: a < b",)))
    assert page.index("regression: a &lt; b") < page.index("<h2>Scores</h2>")


def test_a_card_without_a_score_is_a_page_too() -> None:
    assert "no score" in to_html(Report({"empty": Scorecard(f"b2:{'a' * 64}", "f1", ())}))
