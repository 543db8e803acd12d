"""How many copies of known tasks are recognised, and how many honest new tasks are taken for copies, as tables.

    python benchmarks/near_tasks.py FOLDER [--report tuned|held|all] [--tasks 500] [--size 100000]

FOLDER holds datasets, a file for each family of tasks: JSON lines or CSV with a question, prompt, text or input, or
JSON with `examples`. `tuned` are the families at even places of the alphabet, on which LEAST and MARGIN are chosen from
the grid that it prints; by default the others are reported. Honest: a share of a family is known, and the rest is new.
Copied: 35 known tasks are edited, each once or several times, and compared alone. The peer is the rule that only asks
whether a task is more like a known one than like any of its own. `--size` times the search in that many tasks.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from seedbed import Task
from seedbed.evaluation.datasets import near_tasks
from seedbed.evaluation.datasets.identity import text_of

FIELDS = ("question", "prompt", "input", "text")
WINNERS = 35
SYNONYMS = {
    "many": "numerous", "large": "big", "small": "little", "buy": "purchase", "buys": "purchases", "total": "overall",
    "make": "produce", "makes": "produces", "every": "each", "find": "determine", "get": "receive", "gets": "receives",
    "house": "home", "money": "cash", "kids": "children", "answer": "reply", "sentence": "phrase", "write": "compose",
    "following": "below", "which": "what", "instructions": "directions", "return": "go back", "because": "since",
    "words": "terms", "how": "in what way", "have": "own", "should": "ought to", "person": "individual",
    "statement": "remark", "sort": "order", "list": "series", "plausible": "believable", "is": "equals",
    "what": "which", "the": "this", "people": "persons",
}  # fmt: skip

Edit = Callable[[str, random.Random], str]


def comma(text: str, chance: random.Random) -> str:
    words = text.split(" ")
    words[chance.randrange(len(words))] += ","
    return " ".join(words)


def synonyms(count: int) -> Edit:
    def swapped(text: str, chance: random.Random) -> str:
        known = [each for each in re.finditer("[A-Za-z]+", text) if each[0].lower() in SYNONYMS]
        for each in sorted(chance.sample(known, min(count, len(known))), key=lambda each: -each.start()):
            text = text[: each.start()] + SYNONYMS[each[0].lower()] + text[each.end() :]
        return text

    return swapped


def greeting(text: str, chance: random.Random) -> str:
    return chance.choice(["Hello! ", "Hi there, ", "Good morning. ", "A quick question: ", "Dear assistant, "]) + text


def thanks(text: str, chance: random.Random) -> str:
    return text + chance.choice([" Please answer.", " Thanks!", " Thank you in advance.", " Take your time."])


def numbered(text: str, chance: random.Random) -> str:
    return f"Question {chance.randrange(1, 99)}: {text}"


def exchanged(text: str, chance: random.Random) -> str:
    words = text.split(" ")
    place = chance.randrange(max(1, len(words) - 1))
    return " ".join([*words[:place], *words[place : place + 2][::-1], *words[place + 2 :]])


def sentences(text: str, chance: random.Random) -> str:
    parts = re.split(r"(?<=[.?!])\s+", text)
    place = chance.randrange(max(1, len(parts) - 1))
    return " ".join([*parts[:place], *parts[place : place + 2][::-1], *parts[place + 2 :]])


def typo(text: str, chance: random.Random) -> str:
    words = list(re.finditer("[A-Za-z]{4,}", text))
    place = chance.choice([n for each in words for n in range(each.start() + 1, each.end() - 2)] or [0])
    return text[:place] + text[place + 1 : place + 2] + text[place : place + 1] + text[place + 2 :]


EDITS: dict[str, Edit] = {
    "a comma": comma,
    "a greeting": greeting,
    "thanks": thanks,
    "a number in front": numbered,
    "a typo": typo,
    "two words exchanged": exchanged,
    "two sentences exchanged": sentences,
    "a synonym": synonyms(1),
    "three synonyms": synonyms(3),
}


def families(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(each for each in folder.rglob("*") if each.suffix in (".json", ".jsonl", ".csv")):
        texts = [_question(text) for row in _rows(path) if (text := next((row[n] for n in FIELDS if n in row), ""))]
        once = {text_of({"": text}): text for text in texts}
        if len(once) >= 150:
            name = re.sub("_?(test|train|input_data)$", "", path.stem) or path.parent.name
            found.setdefault(name, []).extend(once.values())
    return found


def _rows(path: Path) -> Iterator[dict[str, str]]:
    csv.field_size_limit(10**9)
    with path.open(encoding="utf-8") as lines:
        if path.suffix == ".csv":
            yield from csv.DictReader(lines)
        elif path.suffix == ".jsonl":
            yield from map(json.loads, lines)
        else:
            whole = json.load(lines)
            rows = whole.get("examples", []) if isinstance(whole, dict) else whole
            yield from (row for row in rows if isinstance(row, dict))


def _question(text: str) -> str:
    """The last question of a prompt with worked examples."""
    parts = [part for part in re.split(r"Answer:|\\n\\n", text) if len(part) > 20]
    return parts[-1] if parts and "Answer:" in text else text


def leaking(own: Sequence[str], known: Sequence[str]) -> float:
    tasks = [Task(str(number), {"text": text}) for number, text in enumerate(own)]
    return len(near_tasks.leaks(tasks, [{"text": text} for text in known])) / len(tasks)


def plainly(own: Sequence[str], known: Sequence[str]) -> float:
    """The share by the peer: more like a known one than like any of its own, by the same margin."""
    texts = near_tasks._Texts([text_of({"": text}) for text in (*own, *known)])
    ours, theirs = np.arange(len(own)), np.arange(len(own), len(own) + len(known))
    inside, across = [0.0] * len(own), [0.0] * len(own)
    for one, other in texts.nearest(ours, ours):
        inside[one] = max(inside[one], texts.similarity(one, other))
    for one, other in texts.nearest(ours, theirs):
        if texts.hard(one) == texts.hard(other):
            across[one] = max(across[one], texts.similarity(one, other))
    return float(np.mean([a >= max(0.5, b + 0.1) for a, b in zip(across, inside, strict=True)]))


def honest(texts: Sequence[str]) -> list[str]:
    def shares(known: int, new: int) -> str:
        own, seen = texts[known : known + new], texts[:known]
        return f"{leaking(own, seen):5.3f} {plainly(own, seen):5.3f}"

    half, tenth = len(texts) // 2, len(texts) // 10
    tasks = [Task(str(number), {"text": text}) for number, text in enumerate(texts)]
    twins = len(near_tasks.copies(tasks)) / len(texts)
    return [shares(3, 40), shares(tenth, len(texts)), shares(half, half), shares(9 * tenth, tenth), f"{twins:5.3f}"]


def copied(texts: Sequence[str], edit: Edit, times: int) -> tuple[float, float] | None:
    chance, known = random.Random(times), texts[: len(texts) // 2]
    made = [edit(text, chance) for _ in range(times) for text in known[:WINNERS]]
    same = {text_of({"": text}) for text in known}
    edited = [text for text in dict.fromkeys(made) if text_of({"": text}) not in same]
    return (leaking(edited, known), plainly(edited, known)) if edited else None


def grid(drawn: dict[str, list[str]]) -> None:
    """How both shares depend on the thresholds."""
    chosen = near_tasks.LEAST, near_tasks.MARGIN
    print("\nleast, margin: honest ones left out where half is known; one synonym found, once and twice")
    for least in (0.4, 0.5, 0.6):
        for margin in (0.05, 0.1, 0.15):
            near_tasks.LEAST, near_tasks.MARGIN = least, margin
            wrong = [leaking(texts[len(texts) // 2 :], texts[: len(texts) // 2]) for texts in drawn.values()]
            pairs = [[copied(texts, synonyms(1), times) for texts in drawn.values()] for times in (1, 2)]
            right = [np.mean([each[0] for each in found if each]) for found in pairs]
            print(f"{least:4.2f} {margin:4.2f}   {np.mean(wrong):5.3f}   {right[0]:5.3f} {right[1]:5.3f}")
    near_tasks.LEAST, near_tasks.MARGIN = chosen


def timed(size: int, texts: Sequence[str]) -> None:
    chance = random.Random(0)
    words = [word for text in texts for word in text.split()]
    own = [Task(str(n), {"text": " ".join(chance.choices(words, k=40))}) for n in range(size)]
    start = time.perf_counter()
    near_tasks.leaks(own[: size // 2], [task.inputs for task in own[size // 2 :]])
    middle = time.perf_counter()
    near_tasks.copies(own)
    print(f"\n{size:,} tasks: leaks {middle - start:.1f} s, copies {time.perf_counter() - middle:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--report", choices=("tuned", "held", "all"), default="held")
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--size", type=int, default=0)
    chosen = parser.parse_args()
    every = families(chosen.folder)
    parts = {"tuned": [*every][::2], "held": [*every][1::2], "all": [*every]}[chosen.report]
    drawn = {name: random.Random(1).sample(every[name], min(chosen.tasks, len(every[name]))) for name in parts}
    print(
        "honest new tasks left out (ours, peer)\n" + " " * 42 + "3 known     1/10        half        9/10        twins"
    )
    for name, texts in drawn.items():
        print(f"{name[:32]:32} {len(texts):6}   " + " ".join(honest(texts)))
    print("\ncopies found (ours, peer)" + " " * 20 + "once        twice       four times")
    for name, edit in EDITS.items():
        rows = []
        for times in (1, 2, 4):
            found = [each for texts in drawn.values() if (each := copied(texts, edit, times))]
            rows.append("{:5.3f} {:5.3f}".format(*np.mean(found, axis=0)))
        print(f"{name:42}   " + " ".join(rows))
    if chosen.report == "tuned":
        grid(drawn)
    if chosen.size:
        timed(chosen.size, [text for texts in every.values() for text in texts])


if __name__ == "__main__":
    main()
