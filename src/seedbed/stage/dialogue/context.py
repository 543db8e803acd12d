"""Context: what a step sees of the statements before it, within a budget of tokens."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from seedbed.models.usage import estimated_tokens as tokens

Ask = Callable[[str, int], Awaitable[str]]
"""Asks a model to answer a prompt within a number of tokens."""

MOST_SUMMARISED = 16_000
"""Tokens that most models can read. Of a longer conversation, an extract is summarised."""
GAP = "…"
INSTRUCTION = """Below is the earlier part of a conversation. Sum it up for someone who must do the task without \
having read it.
Keep what the task needs: decisions and who made them, names, numbers with their units, dates, conditions, what was \
refused, what is still open. Where somebody changed their mind, give only the latest position. Say who said what. \
Add nothing and do not do the task. At most {words} words, in plain sentences.

<task>
{about}
</task>

<conversation>
{conversation}
</conversation>"""


@dataclass(frozen=True, slots=True)
class Statement:
    """The answer of a step, under its name."""

    name: str
    text: str

    def __str__(self) -> str:
        """As other steps see it, and as it is counted."""
        return f"{self.name}:\n{self.text}"


def total(statements: Sequence[Statement]) -> int:
    """About how many tokens the statements take, each in a message of its own."""
    return tokens(*map(str, statements))


async def summarise(statements: Sequence[Statement], about: str, at_most_tokens: int, ask: Ask) -> list[Statement]:
    """All statements if they fit; otherwise the newest ones whole, up to half the budget, and before them a model's
    summary of the others, named "earlier".

    A summary that is too long is condensed; an extract replaces an empty one. What `ask` raises is left to the caller.
    """
    if total(statements) <= at_most_tokens:
        return list(statements)
    older, left = list(statements), at_most_tokens
    while left - (size := total(older[-1:])) >= at_most_tokens / 2:
        older.pop()
        left -= size
    newer = list(statements[len(older) :])
    room = left - total([Statement("earlier", "")])
    summary = ""
    if room > 0:
        conversation = "\n\n".join(map(str, condense(older, about, MOST_SUMMARISED)))
        prompt = INSTRUCTION.format(words=max(1, room * 2 // 3), about=about, conversation=conversation)
        summary = (await ask(prompt, room)).strip()
    return condense([Statement("earlier", summary)] if summary else older, about, left) + newer


def condense(statements: Sequence[Statement], about: str, at_most_tokens: int) -> list[Statement]:
    """All statements if they fit; otherwise the passages that matter most for `about`, each under its own name.

    Passages are sentences, list items, table rows and code blocks: quoted word for word, in their order, with "…" where
    something is left out. A passage brings along the heading, table head or "as follows:" above it. Of passages that
    say the same, with the same numbers, names and negations, the last one counts. A statement without a chosen passage
    is left out. Only where no passage fits whole is the best one cut, at the end of a word. The same arguments give
    the same result; an empty `about` gives what is most informative, whichever step sees it.
    """
    if total(statements) <= at_most_tokens:
        return list(statements)
    parts = [part for turn, each in enumerate(statements) for part in _parts(turn, each.text)]
    ranked = _rank(parts, about)
    sizes = [_size(part.text) + _size(f"\n{GAP}\n") for part in parts]
    least = min(sizes, default=0)
    taken: dict[int, int] = {}
    chosen: set[int] = set()
    left = at_most_tokens
    for index in ranked:
        turn, heads = parts[index].turn, [index]
        while above := parts[heads[-1]].above:
            heads.append(heads[-1] - above)
        was = taken.get(turn, 0)
        for wanted in (heads, [index]):
            new = [each for each in wanted if each not in chosen]
            size = (was or _size(f"{statements[turn].name}:\n {GAP}")) + sum(sizes[each] for each in new)
            if (more := size // 4 - was // 4 + (0 if was else tokens(""))) <= left:
                chosen.update(new)
                taken[turn], left = size, left - more
                break
        if left < least // 4:
            break
    if chosen or not ranked:
        return _write(statements, parts, chosen)
    best = parts[ranked[0]]
    name = statements[best.turn].name
    cut = _cut(best.text, 4 * (at_most_tokens - total([Statement(name, f" {GAP}")])))
    return [Statement(name, f"{cut} {GAP}")] if WORD.search(cut) else []


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def _cut(text: str, at_most_bytes: int) -> str:
    """The beginning of a text up to the end of a word: half a number would be a false one."""
    start = text.encode(errors="replace")[: max(0, at_most_bytes)].decode(errors="ignore")
    return (start if UNSPACED.match(start[-1:]) else re.sub(r"(?<!\S)\S*+\Z", "", start)).strip()


def _write(statements: Sequence[Statement], parts: Sequence[_Passage], chosen: set[int]) -> list[Statement]:
    written = []
    for turn, indexes in groupby(range(len(parts)), key=lambda index: parts[index].turn):
        text: list[str] = []
        gap = ""
        for index in indexes:
            part = parts[index]
            if gap or index not in chosen:
                gap = "\n" if "\n" in gap + part.apart else " "
            if index in chosen:
                text += [gap if text else "", GAP, gap, part.text] if gap else [part.apart, part.text]
                gap = ""
        if text:
            written.append(Statement(statements[turn].name, "".join([*text, gap, GAP] if gap else text)))
    return written


# The parts of a text


@dataclass(frozen=True, slots=True)
class _Passage:
    turn: int
    kind: str
    text: str
    apart: str  # the space between it and the part before
    above: int  # how many parts above its heading is; 0 if it has none


LINES = {
    "code": re.compile(r"\s*(?:```|~~~)"),
    "heading": re.compile(r"\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)"),
    "row": re.compile(r"\s*\|"),
    "item": re.compile(r"\s*(?:[-*+•·–]|\(?(?:\d{1,3}|[A-Za-z])[.)])\s"),
}
RULE = re.compile(r"\s*\|[\s|:-]+$")
WRAPPED, LONG = 40, 1000
"""A line shorter than the first ends on purpose; lines that end no sentence are joined up to the second."""
ENDS = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]*+(?=\s)|[。！？｡]++(?![」』”’）])|[।۔؟]++(?=\s)")
NO_END = re.compile(
    r"\b(?:[^\W\d]|(?<![.,])\d\d?|Dr|Mrs?|Ms|Prof|St|No|Nr|Inc|Ltd|Co|vs|etc|approx|Fig|cf|e\.g|i\.e|ca|bzw|usw|vgl|inkl|Abs|Str|"
    r"ул|руб|тыс|млн|млрд|см|др)\.$"
)


def _blocks(text: str) -> Iterator[tuple[str, int, int]]:
    """The kind, start and end of each heading, list item, table head, table row, code block and run of sentences."""
    kind, begin, end, fence, before = "", 0, 0, "", ""
    for line in text.splitlines(keepends=True):
        here, end, bare = end, end + len(line), line.strip()
        if fence:
            if bare.startswith(fence) and not bare.strip(fence[0]):
                yield "code", begin, end
                kind = fence = ""
            continue
        new = bare and next((kind for kind, looks in LINES.items() if looks.match(line)), "prose")
        wrapped = (
            bare[:1].islower()
            or before[-1:] == ","
            or (len(before) > WRAPPED and before[-1] not in ".!?:;。！？")
            or (kind == "item" and line[0].isspace())
        )
        if kind == "row" and RULE.match(line):
            kind = "head"
        elif not (new == "prose" and kind in ("prose", "item") and here - begin < LONG and wrapped):
            if kind:
                yield kind, begin, here
            kind, begin, fence = new, here, bare[:3] if new == "code" else ""
        before = bare
    if kind:
        yield kind, begin, end


def _sentences(text: str, begin: int, end: int, *, capitals: bool) -> Iterator[tuple[int, int]]:
    for ending in ENDS.finditer(text, begin, end):
        stop = ending.end()
        goes_on = capitals and text[stop : stop + 20].lstrip()[:1].islower()
        if not goes_on and not (ending[0] == "." and NO_END.search(text, max(begin, stop - 12), stop)):
            yield begin, stop
            begin = stop
    yield begin, end


def _parts(turn: int, text: str) -> list[_Passage]:
    parts: list[_Passage] = []
    heads: list[tuple[int, int]] = []  # its depth, and which part it is
    before, capitals = 0, not text.islower()
    for kind, begin, end in _blocks(text):
        for start, stop in _sentences(text, begin, end, capitals=capitals) if kind == "prose" else [(begin, end)]:
            line = text[start:stop].rstrip()
            if not (words := line.lstrip()):
                continue
            indent = len(line) - len(words)
            space, before = text[before : start + indent], start + len(line)
            apart = ("\n" * min(2, space.count("\n")) or " " * bool(space)) if parts else ""
            depth = {"heading": 0, "prose": 1, "item": 2 + indent, "row": 3}.get(kind, 2)
            while heads and heads[-1][0] >= depth:
                heads.pop()
            above = len(parts) - heads[-1][1] if heads else 0
            if kind in ("heading", "head") or (kind in ("prose", "item") and words[-1] in ":："):
                heads.append((depth, len(parts)))
            parts.append(_Passage(turn, kind, line if kind in ("item", "code") else words, apart, above))
    return parts


# Which parts matter

WORD = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?")
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Letters of scripts that put no space between words."""
FILLER = re.compile(
    r"(?:an?|the|and|or|of|to|[io]n|at|by|for|from|with|as|is|are|was|were|be|it|we|you|they|do|does|did|ha[sd]|have|"
    r"will|what|which|who|when|where|why|how)$"
)
NEGATION = re.compile(
    r"(?:not?|none|never|nobody|nothing|neither|without|cannot|\w+n['’]t|(?:refus|declin|reject|kein)\w*|nicht|nie|ohne|"
    r"не|нет|ни|без|ne|pas|jamais|sans|sin|nunca)$|.*(?:[不没沒无無未]|ない|ません)",
    re.IGNORECASE,
)


def _terms(word: str) -> tuple[str, ...]:
    """The first letters of a word, which its forms share; in scripts without spaces, each pair of letters."""
    word = word.casefold()
    if UNSPACED.search(word):
        return tuple(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    return () if FILLER.match(word) else (word if word[0].isdigit() else word[:5],)


def _rank(parts: Sequence[_Passage], about: str) -> list[int]:
    """The passages worth showing for their own sake, best first.

    What counts: the words of `about` (BM25 over the passages of this conversation), and some of those in the passages
    beside and above; numbers most of all, negations, names; the start and the end of a statement; being late; and, as
    room is limited, being short. It compares words alone: it does not know that movers are a moving company.
    """
    terms = cache(_terms)
    words = [WORD.findall(part.text) for part in parts]
    small = {word for each in words for word in each if word.islower()}

    @cache
    def tells(word: str) -> bool:
        """Whether it is a number, a name (never written small) or a negation."""
        name = word[0].isupper() and word.lower() not in small and terms(word)
        return bool(word[0].isdigit() or name or NEGATION.match(word))

    facts = [frozenset(word.lower() for word in each if tells(word)) for each in words]
    counts = [Counter(term for word in each for term in terms(word)) for each in words]
    spread = Counter(term for count in counts for term in count)
    usual = max(1.0, sum(map(len, counts)) / max(1, len(parts)))
    wanted = {term: spread[term] for word in WORD.findall(about) for term in terms(word) if term in spread}
    has_topic = bool(wanted)
    if not has_topic:  # what comes up again and again, but not everywhere
        wanted = {term: n for term, n in spread.items() if 2 <= n <= max(2, len(parts) / 10)}
    rarity = {term: math.log(1 + (len(parts) - n + 0.5) / (n + 0.5)) for term, n in wanted.items()}
    near = [
        sum(
            rarity[term] * 2.2 * n / (n + 0.3 + 0.9 * len(count) / usual) for term, n in count.items() if term in rarity
        )
        for count in counts
    ]
    most = (max(near, default=0.0) or 1.0) * (1 if has_topic else 2)
    scores, last = [], {}
    for index, (part, fact, count) in enumerate(zip(parts, facts, counts, strict=True)):
        # A sentence about "them" follows the name more often than it precedes it.
        near_by = ((index - 1, 0.3), (index + 1, 0.2))
        beside = [near[at] * much for at, much in near_by if 0 <= at < len(parts) and parts[at].turn == part.turn]
        head = index - part.above
        number = part.kind != "code" and any(word[0].isdigit() for word in fact)  # code is full of them
        score = near[index] * (1.4 if number else 1) + max(beside, default=0) + 0.5 * near[head] * (head < index)
        telling = 0.3 if number else 0.15 if any(map(NEGATION.match, fact)) else 0.05 * min(3, len(fact))
        place = 0.05 * (len(beside) < 2) + 0.05 * part.turn / (parts[-1].turn + 1)
        scores.append(round((score / most + telling + place) / max(1, len(words[index]) / usual) ** 0.5, 6))
        # Short passages are never the same: two people can both say yes. Nor are those under different headings.
        says = (frozenset(count), fact, parts[head].text if head < index else "") if len(count) > 2 else index
        last[says] = index
    own = [at for at in last.values() if parts[at].kind not in ("heading", "head")]
    return sorted(own or range(len(parts)), key=lambda at: (-scores[at], at))
