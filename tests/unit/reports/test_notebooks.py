"""Results in a notebook: a short table each, numbers within their range, hostile texts that stay texts."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

from search_samples import playbook, searched
from test_experiment_report import proven, stopped
from test_run_report import RUN, TURN
from test_scorecard_report import card

from seedbed.documents import LONGEST_CELL, html_table
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.playbooks.playbook import Playbook
from seedbed.release.states import Canary, Held, State
from seedbed.stats.estimates import Interval

HOSTILE = '</td></table><script>alert("x")</script><img src=x onerror=alert(1)>'


class Reader(HTMLParser):
    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(fragment)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def shown(result: Any) -> str:
    """The text of a result in a notebook, which is one table and nothing that acts."""
    reader = Reader(result._repr_html_())
    assert reader.tags.count("table") == 1
    assert {*reader.tags} <= {"div", "table", "caption", "b", "thead", "tbody", "tr", "th", "td", "p", "small"}
    assert "\n" not in repr(result)
    assert len(repr(result)) < 250
    return " | ".join(reader.text)


def test_every_cell_stays_text_and_is_not_too_long() -> None:
    fragment = html_table(HOSTILE, [(HOSTILE, 1)], (HOSTILE, "n"), HOSTILE)
    reader = Reader(fragment)
    assert not {"script", "img"} & {*reader.tags}
    assert "".join(reader.text).count("<script>") == 4
    assert len(Reader(html_table("", [("a" * 1000,)])).text[-1]) == LONGEST_CELL


def test_a_playbook_shows_its_roles_steps_and_parameters() -> None:
    document = {
        "roles": {"writer": {"system": HOSTILE, "model": "fast"}},
        "steps": [{"name": "draft", "role": "writer", "prompt": "Write on {topic}."}],
        "parameters": {"length": {"value": 3, "low": 1, "high": 9}},
        "rules": {"never": ["delete_message"]},
    }
    text = shown(each := Playbook.from_document(document))
    for part in ("role writer", "fast", HOSTILE, "step draft", "Write on {topic}.", "1.0 to 9.0", "delete_message"):
        assert part in text, part
    assert each.digest[3:13] in repr(each)


def test_a_run_shows_what_went_in_what_came_out_and_what_it_took() -> None:
    text = shown(replace(RUN, inputs={"question": HOSTILE}, turns=(replace(TURN, text=HOSTILE),)))
    for part in ("Run 0123456789: completed", HOSTILE, '{"label":"ü"}', "3,600 tokens, $2.5000, 2.00 s"):
        assert part in text, part
    assert "gone" in shown(replace(RUN, error="gone"))
    assert repr(RUN) == "<Run 0123456789 completed, 3 turns, 3,600 tokens, $2.5000>"


def test_a_scorecard_shows_each_metric_with_its_interval() -> None:
    text = shown(each := card())
    assert "exact_match | 0.667 (0.094 to 0.992) | 3 | 1" in text
    assert "length | 7.000 (7.000 to 7.000) | 4 | 0" in text
    assert repr(each) == "<Scorecard aaaaaaaaaa exact_match 0.667 (0.094 to 0.992) on 3 tasks>"


async def test_a_verdict_shows_both_means_and_the_difference_with_its_interval() -> None:
    verdict = (await proven()).verdict
    text = shown(verdict)
    assert f"{verdict.difference:+.3f} (95 %: {verdict.low:+.3f} to {verdict.high:+.3f})" in text
    assert ": superior" in text
    assert "stopped by hand" in shown((await stopped()).verdict)


async def test_a_search_shows_what_was_confirmed_within_what_scores_can_be() -> None:
    found = await searched()
    assert found.confirmed is not None
    wide = replace(found.confirmed, best=Interval(0.95, 0.8, 1.1, 0.95, 40))
    text = shown(replace(found, confirmed=wide))
    assert "0.950 (0.800 to 1.000)" in text
    assert str(found.confirmed.gain) in text
    assert "Nothing better" in shown(await searched(optimizer=BestOf([playbook("Sort the mail. never")])))


def test_a_channel_shows_what_it_serves_and_what_is_tried() -> None:
    a, b, c = (f"b2:{letter * 64}" for letter in "abc")
    until = datetime(2026, 1, 2, tzinfo=UTC)
    text = shown(State((a, b), Canary(c, 0.25), True, Held(a, 0.1, until)))
    for part in ("stable | bbbbbbbbbb", "cccccccccc for 25 %", "aaaaaaaaaa for 10 % until 2026-01-02", "frozen"):
        assert part in text, part
    assert re.fullmatch("stable nothing", str(State()))
