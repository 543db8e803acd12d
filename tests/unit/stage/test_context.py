"""What a step sees of a long conversation: never more than its budget, never half a sentence, always the same."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seedbed.stage.dialogue.context import GAP, Statement, condense, summarise, tokens, total

WORDS = ["rent", "Anna", "moves", "14,200", "not", "the", "Wand", "grün", "договор", "預算", "12.5", "lamp"]
sentence = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(lambda words: f"X{' '.join(words)}.")
prose = st.lists(sentence, min_size=1, max_size=8).map(" ".join)
anything = st.text() | st.text(st.sampled_from("Ab1 .!?…\n#|-*`:。」я"), max_size=200)
name = st.sampled_from(["plan", "critic", "finance", "résumé"])


def conversations(text: st.SearchStrategy[str]) -> st.SearchStrategy[list[Statement]]:
    return st.lists(st.builds(Statement, name, text), max_size=6)


def shown(*said: Statement, about: str = "", tokens: int) -> str:
    return "\n".join(each.text for each in condense(said, about, tokens))


def filled(*texts: str) -> str:
    """The texts among many others that have nothing to do with them."""
    others = [
        f"Somebody mused at length about the weather over lake {chr(97 + at % 26) * (4 + at // 26)}."
        for at in range(40)
    ]
    return " ".join([*others[:20], *texts, *others[20:]])


@given(conversations(prose | anything), prose, st.integers(-5, 400))
@example([Statement("plan", "\ud800" * 50)], "rent", 12)
@example([Statement("plan", "word " * 400)], "rent", 20)
def test_the_budget_is_never_exceeded(said: list[Statement], about: str, budget: int) -> None:
    assert total(condense(said, about, budget)) <= max(0, budget)


@given(conversations(anything), prose)
def test_what_fits_is_seen_whole(said: list[Statement], about: str) -> None:
    assert condense(said, about, total(said)) == said


@given(st.lists(prose, min_size=1, max_size=6), prose, st.integers(70, 300))
def test_sentences_are_kept_as_they_are_in_their_order_and_under_their_names(
    texts: list[str], about: str, budget: int
) -> None:
    """Any of these sentences fits into 70 tokens."""
    said = [Statement(f"step{at}", text) for at, text in enumerate(texts)]
    seen = condense(said, about, budget)
    assert [each.name for each in seen] == sorted(each.name for each in seen)
    for each in seen:
        left = {one.name: one.text for one in said}[each.name]
        for run in filter(None, each.text.replace("\n", " ").split(GAP)):
            before, found, left = left.partition(run.strip())
            assert found
            assert found[0] == "X"  # each sentence begins with it
            assert found[-1] == "."
            assert not before or before[-1] == " "


@given(conversations(prose | anything), prose, st.integers(10, 200))
def test_every_gap_is_marked(said: list[Statement], about: str, budget: int) -> None:
    whole = {each.name: "".join(one.text for one in said if one.name == each.name) for each in said}
    for each in condense(said, about, budget):
        if GAP not in each.text:
            assert "".join(each.text.split()) in "".join(whole[each.name].split())


def test_the_same_is_seen_in_every_process() -> None:
    script = (
        "from seedbed.stage.dialogue.context import *\n"
        "said = [Statement(f's{n}', ' '.join(f'Item {k * n % 7} and lamp {k % 3} go to room {n}.' for k in range(30)))"
        " for n in range(9)]\n"
        "print(condense(said, 'which lamp goes to room 4, and which item?', 150))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("about", "fact"),
    [
        ("What is the rent of the hall?", "The hall can be rented for little money."),
        ("Was kostet die Wiese?", "Die Wiese gibt es für wenig Geld."),
        ("Сколько стоит аренда зала?", "Мы говорили про аренду большого зала."),
        ("会场的租金是多少？", "会场的租金已经谈好了。"),
        ("会議室の予算は？", "会議室の予算を決めました。"),
        ("Summarise.", "The contract costs 4,700 euros."),
        ("", "We meet on 12 May."),
        ("", "Margarethe Holzer wears a hat."),
    ],
)
def test_what_is_asked_for_is_found_among_much_else(about: str, fact: str) -> None:
    assert fact in shown(Statement("talk", filled(fact)), about=about, tokens=40)


def test_sentences_without_spaces_between_them_are_told_apart() -> None:
    others = "".join(f"我们谈了第{each}个湖边的天气。" for each in "一二三四五六七八九十百千")
    seen = shown(Statement("talk", f"{others}会场的租金已经谈好了。{others}"), about="会场的租金是多少？", tokens=25)
    assert seen == "… 会场的租金已经谈好了。 …"


def test_in_lines_that_never_end_a_sentence_something_is_found() -> None:
    lines = [f"worker {at} reports that all of its queues are empty and waiting" for at in range(900)]
    text = "\n".join([*lines[:450], "worker x reports that the lamp of the hall is broken", *lines[450:]])
    seen = shown(Statement("log", text), about="Which lamp is broken?", tokens=400)
    assert "worker x reports that the lamp of the hall is broken" in seen


def test_who_never_writes_a_capital_is_understood_too() -> None:
    text = filled("the hall costs 350 euros.").lower()
    assert (
        shown(Statement("talk", text), about="what does the hall cost?", tokens=20) == "… the hall costs 350 euros. …"
    )


def test_a_sentence_that_says_it_with_they_is_found_beside_the_one_that_names_them() -> None:
    text = filled("We talked to Kowalski about the removal.", "They want a lot of money for that.")
    assert "They want a lot of money" in shown(Statement("talk", text), about="What does Kowalski ask?", tokens=35)


@pytest.mark.parametrize(
    "text",
    [
        "Am 3. Mai zieht Dr. Weber aus.",
        "It costs approx. 14.50 euros, e.g. at St. Anna or with J. Smith.",
        "Стоимость 20 тыс. руб. в день.",
        "「行きません。」と彼は言った。",
        "王先生说：“不行。”然后离开了。",
        "He shouted “Stop!” and left…  and came back.",
        "- an item. With two sentences.\n  And a third",
        "| hall | 350 | until Monday. At ten. |",
        "```python\nrent = 14.2\n\n\nprint('A. B. C')\n```",
        "A sentence that was wrapped by somebody's editor after eighty letters or so,\nPerhaps a bit before.",
    ],
)
def test_nothing_is_torn(text: str) -> None:
    """With room for more and more, its beginning and its end come at once."""
    said = Statement("talk", f"Ok.\n\n{text}\n\n" + "Many other words were said here. " * 40)
    seen = [shown(said, about=text, tokens=budget) for budget in range(10, 80)]
    for each in seen:
        assert (text[:6] in each) == (text in each) == (text[-6:] in each)
    assert text not in seen[0]
    assert text in seen[-1]


def test_a_part_brings_along_what_it_stands_under() -> None:
    text = """# Costs

We compared two offers. The second one is as follows:

- boxes are free
- the piano costs extra

| item | price |
|---|---|
| lorry | 380 |
| crew | 950 |

"""
    said = Statement("offer", text + filled())
    assert shown(said, about="piano", tokens=30) == (
        "# Costs\n…\nThe second one is as follows:\n…\n- the piano costs extra\n…"
    )
    assert "\n| item | price |\n|---|---|\n…\n| crew | 950 |\n" in shown(said, about="crew", tokens=33)


def test_what_is_said_again_is_seen_once_where_it_was_said_last() -> None:
    said = [
        Statement("first", filled("The lease of the old printing works ends in autumn.")),
        Statement("second", filled("And the lease of the old printing works: ends in autumn!")),
    ]
    seen = condense(said, "When does the lease of the printing works end?", 100)
    assert [each.name for each in seen if "lease" in each.text] == ["second"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The lease of the old printing works costs 4,200.", "The lease of the old printing works costs 4,800."),
        ("Anna signs the lease of the printing works.", "Peter signs the lease of the printing works."),
        ("Petersen signs the lease of the printing works.", "Petershagen signs the lease of the printing works."),
        ("We want the lease of the printing works.", "We do not want the lease of the printing works."),
        ("Accepted:\n- the lease of the printing works", "Refused:\n- the lease of the printing works"),
    ],
)
def test_what_differs_in_a_fact_is_not_the_same(one: str, other: str) -> None:
    said = [Statement("first", f"{filled()}\n\n{one}"), Statement("second", f"{filled()}\n\n{other}")]
    seen = condense(said, "the lease of the printing works", 100)
    assert [one in seen[0].text, other in seen[1].text] == [True, True]


def test_where_nothing_fits_whole_the_best_is_cut_after_a_word() -> None:
    said = [
        Statement("talk", "The rent is 14,200 euros a year " + "and so on " * 200),
        Statement("aside", "Well " * 200),
    ]
    seen = {shown(*said, about="rent", tokens=budget) for budget in range(15)}
    assert seen == {"", "The …", "The rent is …", "The rent is 14,200 …", "The rent is 14,200 euros a …"}


def test_a_very_long_text_of_anything_is_condensed() -> None:
    """Each of these would take minutes if the time grew with the square of the length."""
    for text in (
        "The lamp is 12 lux. " * 20_000,
        "." * 400_000,
        '.")' * 133_333,
        "a\n" * 200_000,
        "預算" * 66_000,
        "**a" * 133_333,
    ):
        assert total(condense([Statement("talk", text)], "the lamp", 100)) <= 100


class Summariser:
    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, prompt: str, at_most_tokens: int) -> str:
        self.asked.append((prompt, at_most_tokens))
        return self.answer


TALK = [
    Statement("one", filled("Anna wants 14,200 euros.")),
    Statement("two", filled()),
    Statement("three", "I say yes to Anna."),
]


async def test_older_turns_are_summed_up_and_the_newest_kept() -> None:
    model = Summariser(" Anna asked for 14,200 euros. ")
    assert await summarise(TALK, "What does Anna want?", 100, model) == [
        Statement("earlier", "Anna asked for 14,200 euros."),
        TALK[2],
    ]
    [(prompt, at_most)] = model.asked
    assert at_most <= 100 - total(TALK[2:])
    assert all(text in prompt for text in ("What does Anna want?", str(TALK[0]), str(TALK[1])))
    assert TALK[2].text not in prompt


async def test_the_newest_turns_take_half_of_the_budget_at_most() -> None:
    said = [Statement(f"turn{at}", "The hall is free on Monday and on Friday.") for at in range(9)]
    one = total(said[:1])
    for budget, kept in ((8 * one, 4), (8 * one - 1, 3), (6 * one, 3), (2 * one, 1), (2 * one - 1, 0)):
        seen = await summarise(said, "", budget, Summariser("Free."))
        assert seen == [Statement("earlier", "Free."), *said[9 - kept :]]


async def test_what_fits_is_not_summed_up() -> None:
    model = Summariser("nothing")
    assert await summarise(TALK, "", total(TALK), model) == TALK
    assert await summarise([], "", 0, model) == []
    assert not model.asked


async def test_without_a_summary_an_extract_stands_in() -> None:
    seen = await summarise(TALK, "What does Anna want?", 60, Summariser(" \n"))
    assert (seen[0].name, seen[-1]) == ("one", TALK[2])
    assert "Anna wants 14,200 euros." in seen[0].text


async def test_a_summary_that_is_too_long_is_condensed() -> None:
    seen = await summarise(TALK, "What does Anna want?", 60, Summariser(filled("Anna wants 14,200 euros.")))
    assert [each.name for each in seen] == ["earlier", "three"]
    assert "Anna wants 14,200 euros." in seen[0].text
    assert total(seen) <= 60


@given(conversations(prose | anything), st.integers(-5, 200), prose | anything)
async def test_a_summary_never_exceeds_the_budget(said: list[Statement], budget: int, answer: str) -> None:
    model = Summariser(answer)
    assert total(await summarise(said, "rent", budget, model)) <= max(0, budget)
    assert all(at_most > 0 for _, at_most in model.asked)


async def test_a_conversation_too_long_for_a_model_is_summed_up_from_an_extract() -> None:
    model = Summariser("Anna wants 14,200 euros.")
    long = [Statement("long", filled(*["The lamp is bright and so is the hall in the evening."] * 20_000)), *TALK]
    await summarise(long, "What does Anna want?", 100, model)
    assert tokens(model.asked[0][0]) < 20_000
    assert "Anna wants 14,200 euros." in model.asked[0][0]
