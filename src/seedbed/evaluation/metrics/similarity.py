"""How similar an output and the expected answer are: in wording (token F1, BLEU, ROUGE-L, chrF), or in meaning.

Where the expected answer is a list, each of its texts is a right answer, and the best score counts; BLEU and chrF take
them all as references, as their library does. Meaning is compared by embeddings, whose weights ship in the package
wordllama: no key, no network, no GPU.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from functools import cache, lru_cache
from typing import Any

from seedbed import plugins
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.embeddings import embed
from seedbed.evaluation.metrics.matching import alternatives
from seedbed.evaluation.metrics.metric import NO_ANSWER, Score, metric, text
from seedbed.runs.run import Run

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _squad_tokens(answer: str) -> list[str]:
    return re.sub(r"\b(a|an|the)\b", " ", answer.lower().translate(_PUNCTUATION)).split()


@metric(version=1, needs=("expected",))
def f1(run: Run, task: Task) -> Score:
    """Token F1 as SQuAD counts it: without case, punctuation and articles."""
    if task.expected is None:
        return NO_ANSWER
    answer = _squad_tokens(text(run.output))
    return Score(max((_f1(answer, _squad_tokens(each)) for each in alternatives(task.expected)), default=0.0))


def _f1(answer: list[str], wanted: list[str]) -> float:
    if not answer or not wanted:
        return float(answer == wanted)
    shared = (Counter(answer) & Counter(wanted)).total()
    return _harmonic(shared / len(answer), shared / len(wanted))


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@metric(version=1, needs=("expected",))
def rouge_l(run: Run, task: Task) -> Score:
    """ROUGE-L: the F measure of the longest common subsequence of words, as the package rouge-score counts it.

    As there, words are runs of the letters a to z and digits, without stemming: for other scripts take chrf.
    """
    if task.expected is None:
        return NO_ANSWER
    wanted = [tokens for each in alternatives(task.expected) if (tokens := _rouge_tokens(each))]
    if not wanted:
        return Score(None, "the expected answer has no words of the letters a to z")
    answer = _rouge_tokens(text(run.output))
    return Score(max(_rouge(answer, each) for each in wanted))


def _rouge_tokens(answer: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", answer.lower())


def _rouge(answer: list[str], wanted: list[str]) -> float:
    if not answer:
        return 0.0
    common = _longest_common(answer, wanted)
    return _harmonic(common / len(answer), common / len(wanted))


def _longest_common(one: list[str], other: list[str]) -> int:
    """The length of the longest common subsequence, a whole row of the usual table in each number (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for place, token in enumerate(one):
        places[token] = places.get(token, 0) | 1 << place
    every = (1 << len(one)) - 1
    row = every
    for token in other:
        same = row & places.get(token, 0)
        row = (row + same | row - same) & every
    return len(one) - row.bit_count()


@cache
def _bleu() -> Any:
    return plugins.optional("sacrebleu.metrics", extra="text", needed_for="bleu").BLEU(effective_order=True)


@cache
def _chrf(words: int) -> Any:
    return plugins.optional("sacrebleu.metrics", extra="text", needed_for="chrf").CHRF(word_order=words)


@metric(version=1, needs=("expected", "sacrebleu[text]"))
def bleu(run: Run, task: Task) -> Score:
    """BLEU of one answer by sacrebleu, from 0 to 1: 13a tokens, exponential smoothing, effective order.

    The mean over tasks is not corpus BLEU, which is not a mean.
    """
    return _by(_bleu(), run, task)


@metric(version=1, needs=("expected", "sacrebleu[text]"))
def chrf(run: Run, task: Task, *, words: int = 0) -> Score:
    """chrF of one answer by sacrebleu, from 0 to 1: character n-grams up to 6; with `words=2` chrF++."""
    return _by(_chrf(words), run, task)


def _by(library: Any, run: Run, task: Task) -> Score:
    if task.expected is None:
        return NO_ANSWER
    wanted = [each for each in alternatives(task.expected) if each.strip()]
    if not wanted:
        return Score(None, "the expected answer is empty")
    return Score(library.sentence_score(text(run.output), wanted).score / 100)


# Meaning


@lru_cache(maxsize=4096)
def _embed(text: str) -> Any:
    return embed([text], needed_for="similarity")[0]


@metric(version=1, needs=("expected", "wordllama[embeddings]"))
def similarity(run: Run, task: Task) -> Score:
    """How similar output and expected answer are in meaning: the cosine of their embeddings, or 0 if it is negative.

    Of a list of expected answers the nearest counts. Texts on one subject are similar even if one denies the other.
    """
    if task.expected is None:
        return NO_ANSWER
    answer, wanted = text(run.output).strip(), [each.strip() for each in alternatives(task.expected)]
    return Score(max((_alike(answer, each) for each in wanted), default=0.0))


def _alike(one: str, other: str) -> float:
    if one == other:
        return 1.0
    if not one or not other:
        return 0.0
    return min(1.0, max(0.0, float(_embed(one) @ _embed(other))))
