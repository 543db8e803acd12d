from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import Problem
from seedbed.evolution.variation.checks import Limits
from seedbed.evolution.variation.edits import Bounds, Edit, apply_edits, child_of, out_of_style, read_edits
from seedbed.playbooks.genes import flatten
from seedbed.playbooks.playbook import Playbook

TEXT = "Answer the question. Be brief. Name your sources."
PATH = "roles.writer.system"
REPLACED = Edit("replace", "Be brief.", "Be very brief.")
APPENDED = Edit("append", new="Check each number.")


def writer(system: str = TEXT, **more: Any) -> Playbook:
    return Playbook.from_document(
        {
            "roles": {"writer": {"model": "fast", "system": system}, "critic": {"model": "fast", "system": "Be fair."}},
            "steps": [{"name": "draft", "role": "writer", "prompt": "Question: {question}"}],
            "parameters": {"tone": "plain"},
            "rules": {"never": ["send_mail"]},
            "locked": ["roles.critic.system"],
            **more,
        }
    )


def said(*edits: dict[str, Any], why: str = "too long") -> str:
    return json.dumps({"why": why, "edits": edits})


def made(text: str, *edits: Edit, bounds: Bounds | None = None) -> str:
    new, problems = apply_edits(text, edits, bounds or Bounds())
    assert problems == []
    return new


def wrong(text: str, *edits: Edit, bounds: Bounds | None = None) -> list[str]:
    new, problems = apply_edits(text, edits, bounds or Bounds())
    assert new == text
    return [str(problem) for problem in problems]


# Reading

LIST = '[{"find": "Be brief.", "replace": "Be very brief."}, {"append": "Check each number."}]'


@pytest.mark.parametrize(
    "answer",
    [
        LIST,
        f'{{"why": "they ramble", "edits": {LIST}}}',
        f"```json\n{LIST}\n```",
        f"Here is what I would change: {LIST}\nI hope it helps, [really].",
        f'<think>Perhaps [{{"append": "Never."}}]? No.</think>\n{LIST}',
        f'Perhaps [{{"append": "Never."}}]? No.</think>\n\n{LIST}',
        f'A first try was [{{"append": "Never."}}]. Better:\n{LIST}',
        f'The text has {{question}} and {{"quotes"}} in it. {LIST}',
        LIST.replace("}]", "},]").replace('"}', '",}'),
        f'{{"edits": {LIST.replace("}]", "}, ]")},}}',
    ],
)
def test_edits_are_found_whatever_stands_around_them(answer: str) -> None:
    found = read_edits(answer)
    assert (found.edits, found.problems) == ((REPLACED, APPENDED), ())


def test_the_reason_is_kept() -> None:
    assert read_edits(said({"append": "Stop."}, why="they ramble")).why == "they ramble"


def test_text_that_looks_like_the_end_of_json_or_a_needless_comma_stays_as_it_is() -> None:
    odd = 'Say ",}" or "[1,]" and ```code``` and </think> here.'
    found = read_edits(f'[{{"append": {json.dumps(odd)},}}]')
    assert found.edits == (Edit("append", new=odd),)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot help with that.",
        '<think>I should add [{"append": "Never."}], or',
        '{"why": "they ramble", "edits": [{"append": "Check."}, {"find": "Be br',
        '[{"append": "Check."}, {"append": "Che',
        "[" * 5_000,
        '["append"]',
    ],
)
def test_an_answer_that_is_no_whole_json_has_no_edits_and_says_what_is_expected(answer: str) -> None:
    found = read_edits(answer)
    assert found.edits == ()
    (problem,) = found.problems
    assert '"edits"' in problem.expected


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({"find": "Be brief."}, "find and replace"),
        ({"find": "", "replace": "x"}, "none of them empty"),
        ({"append": 3}, "text"),
        ({"append": "a\ud800b"}, "text"),
        ({"append": "a\x00b"}, "text"),
        ({"append": "a", "delete": "b"}, "one of"),
    ],
)
def test_an_edit_that_is_none_is_named_by_its_number(edit: dict[str, Any], expected: str) -> None:
    found = read_edits(json.dumps({"edits": [{"append": "Fine."}, edit]}))
    assert [problem.path for problem in found.problems] == ["edits[1]"]
    assert expected in found.problems[0].expected


def test_an_answer_without_end_is_not_read() -> None:
    (problem,) = read_edits(LIST + " " * 200_000).problems
    assert problem.found == "200,086 characters"


ANYTHING = st.one_of(
    st.text(),
    st.text(alphabet='[]{}",:\\ntfindreplacappend<>/`\n '),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["find", "append", "edits"]),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["edits", "find", "replace", "append", "delete", "rewrite", "why"]), inner
            )
        ),
    ).map(json.dumps),
)


@given(ANYTHING, st.integers(0, 60))
def test_no_answer_whatsoever_does_harm(answer: str, cut: int) -> None:
    """Whatever is said: no error, and a child differs from its parent in the one text or there is none."""
    parent = writer()
    for each in (answer, answer[cut:], answer[:-cut], f"```{answer}```"):
        found = read_edits(each)
        assert found.edits or found.problems
        text, problems = apply_edits(TEXT, found.edits)
        child, faults = child_of(parent, PATH, text)
        assert (child is None) == bool(faults)
        if problems:
            assert text == TEXT
        if child:
            leaves = flatten(parent)
            assert {path for path, leaf in flatten(child).items() if leaf != leaves[path]} == {PATH}
            assert child.rules == parent.rules


# Making


def test_edits_are_made_where_their_words_stand() -> None:
    deleted = Edit("delete", "Name your sources.")
    assert made(TEXT, APPENDED, deleted, REPLACED) == "Answer the question. Be very brief. Check each number."


def test_none_finds_what_another_one_wrote() -> None:
    (problem,) = wrong(TEXT, Edit("append", new="Say nothing else."), Edit("replace", "nothing else", "it all"))
    assert 'no "nothing else"' in problem


def test_deleted_words_leave_no_gap() -> None:
    assert made("One. Two. Three.", Edit("delete", "Two.")) == "One. Three."
    assert made("One. Two. Three.", Edit("delete", "Three.")) == "One. Two."


def test_what_is_added_to_lines_is_a_line() -> None:
    assert made("One.\nTwo.", Edit("append", new="Three.")) == "One.\nTwo.\nThree."
    assert made("", Edit("append", new="Three.")) == "Three."


def test_white_space_need_not_be_quoted_exactly() -> None:
    assert made("Be\n  brief. Be kind.", Edit("replace", "Be brief.", "Be short.")) == "Be short. Be kind."


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        ([Edit("replace", "Be long.", "x")], 'edits[0]: found no "Be long."'),
        ([Edit("delete", "e")], "which stands 7 times in it"),
        ([Edit("delete", "Be brief."), Edit("replace", "brief. Name", "x")], "edits of the same words"),
        ([APPENDED] * 5, "found 5 edits; expected at most 4"),
        ([Edit("rewrite", new="Be."), APPENDED], "a text written anew"),
    ],
)
def test_edits_that_cannot_be_made_say_why_and_change_nothing(edits: list[Edit], problem: str) -> None:
    assert problem in "\n".join(wrong(TEXT, *edits))


def test_edits_are_small() -> None:
    long = "Look at it again. " * 40
    assert "characters changed; expected at most 600" in wrong(TEXT, Edit("append", new=long))[0]
    assert made("Do it well. " * 200, Edit("append", new=long))  # of a long text half may change


def test_only_a_short_text_is_written_anew() -> None:
    anew = Edit("rewrite", new="Say what is asked for. Say no more.")
    assert made(TEXT, anew) == anew.new
    assert "a text written anew" in wrong(TEXT, anew, bounds=Bounds(short=20))[0]


# Style


@pytest.mark.parametrize(
    ("added", "found"),
    [
        ("# Rules", "headings"),
        ("- Be kind.\n- Be fair.", "lists"),
        ("```json```", "code blocks"),
        ("Use <answer> for it.", "tags"),
        ("**Never** guess.", "bold print"),
        ("Nenne bitte immer alle deine Quellen und prüfe jede einzelne Zahl noch einmal, bevor du etwas sagst.", "de"),
        ("Всегда называй источники.", "cyrillic letters"),
        ("word " * 40 + "end.", "sentences of 41 words"),
    ],
)
def test_what_does_not_go_with_the_text_is_refused(added: str, found: str) -> None:
    text = f"{TEXT} Read all of it before you say anything, and do not repeat what was asked."
    assert [found in problem.found for problem in out_of_style(text, [added])] == [True]


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("# Task\n- Be brief.", "# Rules\n- Be kind."),
        ("", "# Rules\n- Be kind."),
        ("Be brief.", "If the question has several parts, then answer each of them in its own sentence, in order."),
        ("Sois bref.", "Nomme tes sources."),
        ("要約してください。", "出典を示してください。"),
    ],
)
def test_what_goes_with_the_text_is_not(text: str, added: str) -> None:
    assert out_of_style(text, [added]) == []


# A child


def test_a_child_has_the_text_and_all_else_of_its_parent() -> None:
    child, faults = child_of(writer(), PATH, "Be brief.")
    assert (child, faults) == (writer("Be brief."), [])


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        (PATH, TEXT, "text: found the text as it was"),
        (PATH, "  ", "an empty text"),
        (PATH, "Ask {nobody}.", "{nobody}"),
        (PATH, "<think>It could be", "a text that is complete"),
        (PATH, "Be brief. " * 500, "characters; expected at most"),
        ("steps.draft.prompt", "Answer it.", "no {question}"),
    ],
)
def test_a_text_that_would_break_the_playbook_makes_no_child(path: str, text: str, problem: str) -> None:
    child, faults = child_of(writer(), path, text, Limits(slack=500))
    assert child is None
    assert problem in "\n".join(map(str, faults))


def test_growth_is_measured_from_the_start() -> None:
    grown = writer(TEXT + " Be kind." * 20)
    text = grown.roles["writer"].system + " Be fair." * 20
    limits = Limits(growth=3, slack=200)
    assert child_of(grown, PATH, text, limits)[1] == []
    (problem,) = child_of(grown, PATH, text, limits, start=writer())[1]
    assert isinstance(problem, Problem)
    assert "at most 347" in str(problem)
