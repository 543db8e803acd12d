from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Score
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.testing.metric import a_run

ROOT = Path(__file__).parents[3]


async def score(written: str, output: Any, expected: Any) -> Score:
    return await parse_metric(written)(a_run(output), Task("t", {"q": 1}, expected))


def paragraphs() -> list[str]:
    """Real texts: those of the documentation."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [piece for page in pages for piece in page.read_text().split("\n\n") if piece.strip()]


def pairs() -> Iterator[tuple[str, str]]:
    """Texts beside others: made of a few words, or real ones with words lost, doubled and moved."""
    draw = random.Random(4)
    words = [
        "the",
        "a",
        "an",
        "cat",
        "Cat",
        "sat",
        "on",
        "mat.",
        "mat,",
        "it's",
        "3.5",
        "1,000",
        "naïve",
        "日本語",
        "--",
    ]
    for _ in range(300):
        one, other = ([draw.choice(words) for _ in range(draw.randrange(0, 30))] for _ in range(2))
        yield " ".join(one), " ".join(other)
    real = paragraphs()
    for _ in range(300):
        one = draw.choice(real)
        changed = [draw.choice([word, word, word, "", f"{word} {word}", "other"]) for word in one.split(" ")]
        if draw.random() < 0.3:
            changed.insert(0, draw.choice(real))
        yield " ".join(changed), one


PAIRS = list(pairs())


def squad(said: str, wanted: str) -> float:
    """F1 by the words of SQuAD's own script: what is normalised, in its order, and shared tokens counted by hand."""

    def normal(given: str) -> list[str]:
        lower = "".join(letter for letter in given.lower() if letter not in r"""!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~""")
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", lower).split()).split()

    one, other = normal(said), normal(wanted)
    if not one or not other:
        return float(one == other)
    left, shared = list(other), 0
    for token in one:
        if token in left:
            left.remove(token)
            shared += 1
    return 2 * shared / (len(one) + len(other))


async def test_f1_is_that_of_squad() -> None:
    for said, wanted in PAIRS:
        assert (await score("f1", said, wanted)).value == pytest.approx(squad(said, wanted), abs=1e-12)


@pytest.mark.parametrize(
    ("output", "expected", "value"),
    [
        ("The cat sat.", "cat sat", 1),
        ("cat cat", "cat", 2 / 3),
        ("cat", "dog", 0),
        ("cat", ["dog", "the cat"], 1),
        ("", "", 1),
        ("the", "", 1),
        ("cat", "", 0),
        (None, "cat", 0),
        (42, 42, 1),
        ("cat", [], 0),
    ],
)
async def test_f1_counts_shared_words(output: Any, expected: Any, value: float) -> None:
    assert (await score("f1", output, expected)).value == pytest.approx(value)


async def test_rouge_l_is_that_of_rouge_score() -> None:
    library = RougeScorer(["rougeL"])
    compared = 0
    for said, wanted in PAIRS:
        told = (await score("rouge_l", said, wanted)).value
        if told is not None:
            assert told == pytest.approx(library.score(wanted, said)["rougeL"].fmeasure, abs=1e-12)
            compared += 1
    assert compared > 550


async def test_bleu_and_chrf_are_those_of_sacrebleu() -> None:
    for said, wanted in PAIRS:
        if wanted.strip():
            bleu = sacrebleu.sentence_bleu(said, [wanted], use_effective_order=True).score
            assert 100 * ((await score("bleu", said, wanted)).value or 0) == pytest.approx(bleu, abs=1e-9)
            chrf = sacrebleu.sentence_chrf(said, [wanted]).score
            assert 100 * ((await score("chrf", said, wanted)).value or 0) == pytest.approx(chrf, abs=1e-9)
            plus = sacrebleu.sentence_chrf(said, [wanted], word_order=2).score
            assert 100 * ((await score("chrf(words=2)", said, wanted)).value or 0) == pytest.approx(plus, abs=1e-9)


@pytest.mark.parametrize("written", ["f1", "rouge_l", "bleu", "chrf", "chrf(words=2)"])
async def test_scores_are_shares_and_the_same_text_has_them_all(written: str) -> None:
    for said, wanted in PAIRS[::7]:
        value = (await score(written, said, wanted)).value
        assert value is None or 0 <= value <= 1 + 1e-9
    same = "A text that is long enough to have four words in a row, and more."
    assert (await score(written, same, same)).value == pytest.approx(1)
    assert (await score(written, same, ["quite another one", same])).value == pytest.approx(1)
    assert (await score(written, "", same)).value == 0


@pytest.mark.parametrize(
    ("written", "expected"),
    [("rouge_l", "日本語"), ("rouge_l", ""), ("rouge_l", []), ("bleu", ""), ("bleu", []), ("chrf", " ")]
    + [(name, None) for name in ("f1", "rouge_l", "bleu", "chrf")],
)
async def test_an_expected_answer_that_cannot_be_compared_leaves_the_item_unscored(written: str, expected: Any) -> None:
    told = await score(written, "anything", expected)
    assert told.value is None
    assert told.reason


async def test_the_longest_texts_are_compared_word_by_word_all_the_same() -> None:
    long = " ".join(f"word{number % 977}" for number in range(60_000))
    told = await score("rouge_l", long + " more", long)
    assert told.value == pytest.approx(120_000 / 120_001, abs=1e-12)
