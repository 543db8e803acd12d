from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from seedbed.errors import SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.matching import numbers
from seedbed.evaluation.metrics.metric import Score
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.testing.metric import a_run

OPTIONS = {"choices": ["Rome", "Paris", "New York", "York"]}
LISTED = {"question": "Where is it?\nOptions:\n(A) Rome\n(B) Paris\n(C) both of them"}


async def score(written: str, output: Any, expected: Any, inputs: dict[str, Any] | None = None) -> Score:
    return await parse_metric(written)(a_run(output), Task("t", inputs or {"q": 1}, expected))


@pytest.mark.parametrize("name", ["contains", "regex", "choice", "numeric", "json_fields", "json_schema"])
async def test_without_an_expected_answer_nothing_is_scored(name: str) -> None:
    told = await score(name, "Paris", None)
    assert told.value is None
    assert told.reason


@pytest.mark.parametrize(
    ("written", "output", "expected", "value"),
    [
        ("contains", "It is Paris, I think.", "paris", 1),
        ("contains", "It is Rome.", "paris", 0),
        ("contains", "It is Rome.", ["Paris", "Rome"], 1),
        ("contains(every=true)", "It is Rome.", ["Paris", "Rome"], 0),
        ("contains(every=true)", "Paris, not Rome.", ["Paris", "Rome"], 1),
        ("contains(case=true)", "It is Paris.", "paris", 0),
        ("contains", "this", "is", 1),
        ("contains(words=true)", "this", "is", 0),
        ("contains(words=true)", "C++ is", "C++", 1),
        ("contains", "1+1=2 (a.b)", "(a.b)", 1),
        ("contains", {"city": "Paris"}, "paris", 1),
        ("contains", None, "paris", 0),
        ("contains", "anything", "  ", None),
        ("regex", "order 4711 sent", r"order (\d+)", 1),
        ("regex(whole=true)", "order 4711 sent", r"order (\d+)", 0),
        (r"regex(pattern='^\\w+$')", "Paris", None, 1),
        (r"regex(pattern='^\\w+$')", "Paris, France", "ignored", 0),
        ("regex", "anything", "(unclosed", None),
    ],
)
async def test_text_and_patterns_are_found_or_not(written: str, output: Any, expected: Any, value: Any) -> None:
    told = await score(written, output, expected)
    assert told.value == value
    assert told.value == 1 or told.reason


async def test_a_pattern_tells_its_first_group_as_the_answer() -> None:
    assert (await score("regex", "order 4711 sent", r"order (\d+)")).answer == "4711"
    assert (await score("regex", "order 4711 sent", r"\d+")).answer == "4711"


def test_options_that_can_never_work_are_refused_before_anything_is_paid() -> None:
    for written in (
        "regex(pattern='(')",
        "numeric(tolerance=-1)",
        "json_schema(schema={'type': 'thing'})",
        "json_schema(schema=3)",
    ):
        with pytest.raises(SettingsError, match="options that can be used"):
            parse_metric(written)


@pytest.mark.parametrize(
    "output",
    [
        *[
            "B",
            "b",
            "(B)",
            "B.",
            "B)",
            "[B]",
            "**B**",
            "(b)",
            "Answer: B",
            "answer: b",
            "The answer is (B).",
            "Option B",
        ],
        *["**Answer:** B", "The correct answer is B, as it is the capital.", "B: Paris", "(B) Paris", "Paris"],
        *["I think it is Paris.", "Rome is old.\n\nAnswer: B", "ANSWER: B", "I would choose B", "B) for its tower"],
        *["The answer is option B.", '"paris".'],
    ],
)
@pytest.mark.parametrize("expected", ["B", "(B)", "Paris", 1])
async def test_a_choice_is_known_by_its_letter_or_its_text(output: str, expected: Any) -> None:
    assert await score("choice", output, expected, OPTIONS) == Score(1.0, "", "B")


@pytest.mark.parametrize("output", ["(A) or (B)", "A. is wrong, B. is right", "Rome or Paris", "Answer: A\nAnswer: B"])
async def test_who_names_several_options_is_wrong_and_reads_why(output: str) -> None:
    assert await score("choice", output, "B", OPTIONS) == Score(0.0, "more than one option: A, B")


@pytest.mark.parametrize(
    "output", ["", None, "I do not know.", "A difficult question, I'd say", "Parisian", "The answer is a mystery"]
)
async def test_who_names_no_option_is_wrong_and_reads_why(output: Any) -> None:
    assert await score("choice", output, "B", OPTIONS) == Score(0.0, "no option was named")


@pytest.mark.parametrize(
    ("output", "expected", "inputs", "answer"),
    [
        ("It is New York.", "C", OPTIONS, "C"),
        ("It is York.", "D", OPTIONS, "D"),
        ("both of them", "(C)", LISTED, "C"),
        ("the answer is (A)", "(A)", LISTED, "A"),
        ("x", "X", {"choices": {"x": "yes", "y": "no"}}, "X"),
        ("no", "y", {"choices": {"x": "yes", "y": "no"}}, "Y"),
        ("Answer: C", "C", {"q": "no options told"}, "C"),
        ("(B) C. elegans", "B", {"choices": ["E. coli", "C. elegans", "S. cerevisiae"]}, "B"),
    ],
)
async def test_options_come_as_a_list_a_mapping_or_lines_of_the_question(
    output: str, expected: Any, inputs: Any, answer: str
) -> None:
    assert await score("choice", output, expected, inputs) == Score(1.0, "", answer)


@pytest.mark.parametrize("expected", ["E", "London", 7, -1, True])
async def test_a_choice_that_is_not_among_the_options_is_a_mistake_of_the_task(expected: Any) -> None:
    told = await score("choice", "B", expected, OPTIONS)
    assert told.value is None
    assert "none of the options" in told.reason


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("1,234,567.89", [1234567.89]),
        ("$1,000. And -5, −6, -$7, $-8", [1000, -5, -6, -7, -8]),
        ("3/4 and 1 1/2, 12km, .5 kg", [0.75, 1.5, 12, 0.5]),
        (r"\frac{3}{4} = \boxed{0.75}", [0.75, 0.75]),
        ("2e-3 1E5", [0.002, 100000]),
        ("10-5", [10, 5]),
        ("H2O and x3", []),
        ("1,2,3", [1, 2, 3]),
        ("1/0, 1e999", []),
        ("12'345 and 12\u00a0345", [12345, 12345]),
        ("no number", []),
    ],
)
def test_numbers_are_found_as_people_write_them(said: str, found: list[float]) -> None:
    assert [value for value, _ in numbers(said)] == pytest.approx(found)


@pytest.mark.parametrize(
    ("written", "output", "expected", "value"),
    [
        ("numeric", "5 apples and 3 pears make 8.", 8, 1),
        ("numeric", "8 or was it 9", 8, 0),
        ("numeric", "#### 8\n(checked 2 times)", 8, 1),
        ("numeric", "It costs $1,234.00", "She pays 1000 + 234\n#### 1,234", 1),
        ("numeric", "Paris", 8, 0),
        ("numeric", 8, "8 apples", 1),
        ("numeric", 8.0, 8, 1),
        ("numeric", "0.1 + 0.2 is 0.30000000000000004", 0.3, 1),
        ("numeric", "0.301", 0.3, 0),
        ("numeric(tolerance=0.01)", "0.301", 0.3, 1),
        ("numeric(tolerance=0.01)", "0.32", 0.3, 0),
        ("numeric(relative=0.1)", "109", 100, 1),
        ("numeric(relative=0.1)", "-100", 100, 0),
        ("numeric", "3/4", 0.75, 1),
        ("numeric", "50%", 0.5, 1),
        ("numeric", "50 percent", "50%", 1),
        ("numeric", "50", "50%", 1),
        ("numeric", "0.5", "50%", 1),
        ("numeric", "50%", 50, 1),
        ("numeric", "5%", 50, 0),
        ("numeric", "0.5%", 0.5, 0),
        ("numeric", "1", "no number here", None),
        ("numeric", "1", True, None),
    ],
)
async def test_the_last_number_counts_within_its_tolerance(
    written: str, output: Any, expected: Any, value: Any
) -> None:
    assert (await score(written, output, expected)).value == value


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ('{"a": 1}', 1),
        ("[]", 1),
        ("```json\n{}\n```", 1),
        ("```\n[1, 2]\n```\n", 1),
        ({"a": 1}, 1),
        ("Here it is: {}", 0),
        ('{"a": NaN}', 0),
        ("{'a': 1}", 0),
        ("", 0),
        (None, 0),
        ("[" * 100_000, 0),
    ],
)
async def test_json_is_json_plain_or_in_one_fence(output: Any, value: float) -> None:
    told = await score("json_valid", output, None)
    assert told.value == value
    assert bool(told.reason) == (not value)


SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}, "n": {"minimum": 1}}}


@pytest.mark.parametrize(
    ("output", "value", "reason"),
    [
        ({"city": "Paris"}, 1, ""),
        ('```json\n{"city": "Paris", "n": 1}\n```', 1, ""),
        ({"city": 3, "n": 0}, 0, "$.city: 3 is not of type 'string'; $.n: 0 is less than the minimum of 1"),
        ({}, 0, "$: 'city' is a required property"),
        ("Paris", 0, "not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
async def test_a_schema_is_kept_or_the_reason_says_where_not(output: Any, value: float, reason: str) -> None:
    assert await score("json_schema", output, SCHEMA) == Score(value, reason)
    assert await score(f"json_schema(schema={SCHEMA})", output, None) == Score(value, reason)


async def test_a_schema_that_is_none_leaves_the_item_unscored() -> None:
    assert (await score("json_schema", {}, {"type": "thing"})).value is None
    assert (await score("json_schema", {}, "a schema")).value is None


async def test_a_schema_elsewhere_is_not_fetched() -> None:
    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/schema.json"
        told = await score("json_schema", {}, {"$ref": address})
        server.shutdown()
    assert told.value is None
    assert address in told.reason
    assert not asked


WANTED = {"city": "Paris", "size": {"people": 2_000_000, "old": True}, "tags": ["big", "old"]}


@pytest.mark.parametrize(
    ("output", "value", "wrong"),
    [
        (WANTED, 1, ""),
        (json.dumps({**WANTED, "more": 1}), 1, ""),
        ({**WANTED, "city": " PARIS "}, 1, ""),
        ({**WANTED, "city": "Rome"}, 0.75, "differs in city"),
        ({**WANTED, "size": {"people": 2e6, "old": 1}}, 0.75, "differs in size.old"),
        ({**WANTED, "tags": ["old", "big"]}, 0.75, "differs in tags"),
        ({**WANTED, "size": 3}, 0.5, "differs in size.people, size.old"),
        ([], 0, "differs in city, size.people, size.old, tags"),
    ],
)
async def test_the_share_of_fields_that_are_as_expected(output: Any, value: float, wrong: str) -> None:
    assert await score("json_fields", output, WANTED) == Score(value, wrong)
    assert await score("json_fields", output, json.dumps(WANTED)) == Score(value, wrong)


async def test_fields_need_a_mapping_to_be_compared_with() -> None:
    for expected in ({}, [1], "Paris", 3):
        assert (await score("json_fields", "{}", expected)).value is None
    assert (await score("json_fields", "no JSON", WANTED)).value == 0
    assert (await score("json_fields", {}, {"city": None})).value == 0


@pytest.mark.parametrize(
    ("written", "said", "expected", "answer"),
    [
        ("contains", "It is PARIS.", "paris", "PARIS"),
        ("contains", "Rome, then Paris", ["Paris", "Oslo", "Rome"], "Paris, Rome"),
        ("contains(every=true)", "It is Rome.", ["Paris", "Rome"], "Rome"),
        ("contains", "It is Oslo.", "paris", ""),
    ],
)
async def test_contains_tells_what_it_found(written: str, said: str, expected: object, answer: str) -> None:
    assert (await parse_metric(written)(a_run(said), Task("t", {"q": 1}, expected))).answer == answer
