from __future__ import annotations

from typing import Any

import pytest

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics import instructions
from seedbed.evaluation.metrics.instructions import CHECKS, followed, language_of
from seedbed.evaluation.metrics.metric import Score
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.testing.metric import a_run

ENGLISH = "we went to the market this morning and bought some bread"


def task(*given: tuple[str, dict[str, Any]]) -> Task:
    expected = {"instruction_id_list": [name for name, _ in given], "kwargs": [kwargs for _, kwargs in given]}
    return Task("t", {"prompt": "Write."}, expected)


AT_LEAST, LESS = {"relation": "at least"}, {"relation": "less than"}
CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    ("keywords:existence", {"keywords": ["Mom", "mother"]}, ["My MOM is a mother"], ["My mom", "a mother"]),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, **AT_LEAST}, ["War and war"], ["War and peace"]),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, **LESS}, ["War", "peace"], ["war, war"]),
    ("keywords:forbidden_words", {"forbidden_words": ["rock"]}, ["rocks roll"], ["We Rock."]),
    (
        "keywords:letter_frequency",
        {"letter": "t", "let_frequency": 2, "let_relation": "less than"},
        ["a Table"],
        ["a Total"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "#", "let_frequency": 2, "let_relation": "at least"},
        ["## head"],
        ["# head"],
    ),
    (
        "language:response_language",
        {"language": "de"},
        ["Wir sind heute Morgen auf den Markt gegangen und haben Brot gekauft."],
        [ENGLISH],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 3, **AT_LEAST},
        ["One. Two! Three?", 'Dr. Smith came. He left. "Why?" she asked.'],
        ["One. Two.", "Dr. Smith paid 3.50 for it. He left.", "e.g. this one. And i.e. that one."],
    ),
    ("length_constraints:number_words", {"num_words": 3, **LESS}, ["Two words."], ["Now there are more."]),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        ["one\n***\ntwo", "***\none\n***\ntwo\n***", "one *** two"],
        ["one", "one\n***\n***\ntwo", "one\n\ntwo"],
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "weekend"},
        ["One.\n\nWeekend, at last.", 'One.\n\n"Weekend" it is.'],
        ["One.\n\nWeekends are short.", "Weekend.", "One.\n\nTwo.\n\nWeekend."],
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, ["[name], [street]"], ["[name]"]),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, ["Bye.\nP.S. More.", "p. s. more"], ["Bye. PS"]),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, ["Bye.\nP.P.S more"], ["Bye.\nP.S. more"]),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        ["* one\n* two", "- one\n  * two", "intro\n- one\n- two"],
        ["* one", "* one\n* two\n* three", "**bold** one\n* two"],
    ),
    ("detectable_format:constrained_response", {}, ["I say: My answer is maybe."], ["My answer is perhaps.", "yes"]),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["*one* and **two**", "**one** **two**"],
        ["*one*", "**one**", "** ** *one*"],
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "SECTION", "num_sections": 2},
        ["SECTION 1\na\nSECTION 2\nb", "SECTION 1 a SECTION 2 b SECTION 3"],
        ["SECTION 1\na", "Section 1\nSection 2"],
    ),
    ("detectable_format:json_format", {}, ['{"a": 1}', "```json\n[1]\n```", "```\n{}\n```"], ["a: 1", "Here: {}"]),
    ("detectable_format:title", {}, ["<<On bread>>\nIt is good."], ["<On bread>", "<< >>", "<<On\nbread>>"]),
    ("combination:two_responses", {}, ["one\n******\ntwo"], ["one", "one******one", "one******two******three"]),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Write. "}, ["write. Here it is"], ["Here: write."]),
    ("startend:end_checker", {"end_phrase": "Any more?"}, ["Text. any more?  ", '"Any more?"'], ["Any more? No."]),
    ("startend:quotation", {}, ['"All of it."\n'], ['"All" of it', '"']),
    ("change_case:english_capital", {}, [f"{ENGLISH.upper()}!"], [ENGLISH, f"{ENGLISH.upper()} Paris"]),
    (
        "change_case:english_lowercase",
        {},
        [ENGLISH],
        [f"{ENGLISH} I", "wir gingen heute auf den markt und kauften brot"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        ["NASA and GPT-4", "I am A", "DON'T"],
        ["Nasa and NASA", "Paris"],
    ),
    ("punctuation:no_comma", {}, ["one; two"], ["one, two"]),
]


def test_every_kind_of_instruction_has_a_case() -> None:
    assert {name for name, *_ in CASES} == set(CHECKS)
    assert len(CHECKS) == 25


@pytest.mark.parametrize(("name", "kwargs", "right", "wrong"), CASES, ids=[name for name, *_ in CASES])
def test_an_instruction_is_followed_or_not(
    name: str, kwargs: dict[str, Any], right: list[str], wrong: list[str]
) -> None:
    asked = task((name, {**kwargs, "of_another": None}))
    for said in right:
        assert followed(said, asked).yes == (name,), said
    for said in (*wrong, "", "  \n"):
        assert followed(said, asked).no == (name,), said


BOTH = task(("punctuation:no_comma", {}), ("keywords:existence", {"keywords": ["bread"]}))


@pytest.mark.parametrize(
    ("output", "all_of_them", "share", "reason"),
    [
        ("bread", 1, 1, ""),
        ("bread, milk", 0, 0.5, "not followed: punctuation:no_comma"),
        ("milk", 0, 0.5, "not followed: keywords:existence"),
        (None, 0, 0, "not followed: punctuation:no_comma, keywords:existence"),
    ],
)
async def test_all_instructions_or_the_share_that_is_followed(
    output: Any, all_of_them: float, share: float, reason: str
) -> None:
    assert await parse_metric("instructions_followed")(a_run(output), BOTH) == Score(all_of_them, reason)
    assert await parse_metric("instructions_share")(a_run(output), BOTH) == Score(share, reason)


@pytest.mark.parametrize(
    "output",
    ["Sure, here it is:\nbread without more", "bread\nAnything else, sir?", "Sure,\nbread\nAnd, bye", "*br*ead"],
)
async def test_loosely_checked_a_line_around_or_asterisks_do_no_harm(output: str) -> None:
    assert (await parse_metric("instructions_followed")(a_run(output), BOTH)).value == 0
    assert (await parse_metric("instructions_followed(loose=true)")(a_run(output), BOTH)).value == 1


async def test_instructions_may_be_among_the_inputs() -> None:
    given = Task("t", {"prompt": "Write.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]})
    assert (await parse_metric("instructions_followed")(a_run("a, b"), given)).value == 0
    bare = Task("t", {"prompt": "Write.", "instruction_id_list": ["punctuation:no_comma"]})
    assert (await parse_metric("instructions_followed")(a_run("a b"), bare)).value == 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Task("t", {"prompt": "Write."}), "no instruction_id_list"),
        (Task("t", {"prompt": "Write."}, {"instruction_id_list": []}), "no instruction_id_list"),
        (task(("punctuation:no_dash", {})), "unknown instructions: punctuation:no_dash"),
        (task(("keywords:existence", {})), "keywords"),
        (task(("length_constraints:number_words", {"num_words": 3, "relation": "about"})), "'about'"),
        (task(("keywords:existence", {"keywords": ["("]})), "keywords:existence: "),
        (Task("t", {"p": 1}, {"instruction_id_list": ["a", "b"], "kwargs": [{}]}), "one kwargs for each"),
    ],
)
async def test_a_task_whose_instructions_cannot_be_read_is_unscored(given: Task, reason: str) -> None:
    for name in ("instructions_followed", "instructions_share"):
        told = await parse_metric(name)(a_run("text"), given)
        assert told.value is None
        assert reason in told.reason


async def test_without_a_library_that_knows_languages_the_item_is_unscored_unless_it_failed_anyway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instructions, "find_spec", lambda name: None)
    given = task(("language:response_language", {"language": "en"}), ("punctuation:no_comma", {}))
    told = await parse_metric("instructions_followed")(a_run(ENGLISH), given)
    assert told.value is None
    assert "pip install 'seedbed[text]'" in told.reason
    assert (await parse_metric("instructions_followed")(a_run(f"{ENGLISH}, too"), given)).value == 0
    assert (await parse_metric("instructions_share")(a_run(f"{ENGLISH}, too"), given)).value is None


def test_languages_are_told_whatever_the_case_and_however_the_text_begins() -> None:
    assert language_of(ENGLISH.upper()) == "en"
    assert language_of("ಕನ್ನಡ ಭಾಷೆಯು ಕರ್ನಾಟಕ ರಾಜ್ಯದ ಅಧಿಕೃತ ಭಾಷೆ") == "kn"
    assert language_of("OK. " + "Heute Morgen gingen wir auf den Markt und kauften Brot. " * 9) == "de"
    assert language_of("12 + 3") is None
