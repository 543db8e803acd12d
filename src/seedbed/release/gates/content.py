"""The `content` gate: the changed texts of a candidate are safe, and its outputs answer the tasks."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from seedbed.errors import NotFound, shown
from seedbed.evaluation.metrics.measures import offence
from seedbed.evaluation.metrics.metric import bare
from seedbed.experiments.hacking_signs import signs
from seedbed.experiments.proof.hacking import FLATTERY, hacking
from seedbed.experiments.proof.outputs import OutputPair, read_output_pairs
from seedbed.playbooks.changes import diff
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import texts
from seedbed.release.gates.gate import Refusal, ReleaseRequest, check_verdict
from seedbed.settings.gates import TextHazard
from seedbed.storage.store import canonical, short

ENOUGH = 8
"""With fewer tasks, equal outputs prove nothing."""
BEYOND = 0.2
"""Outputs are suspicious if they repeat more often than the expected answers, by at least this share."""


@dataclass(frozen=True, slots=True)
class ContentGate:
    """No changed text adds a hazard, and the outputs behind the verdict answer the tasks.

    Outputs do not answer the tasks if they show signs of reward hacking, or if more than a share `constant` of them is
    the same where other answers were expected. Behind a live verdict there are users instead of tasks, so only texts
    are read. With `offence`, which needs the extra `safety`, a classifier must rate no changed text as more offensive
    than that. Hazards that `allow` names are allowed.
    """

    constant: float = 0.8
    offence: float | None = None
    allow: tuple[str, ...] = ()

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        library = request.library
        before = library.get(request.incumbent) if request.incumbent else Playbook()
        wrong = list(await self._texts(before, library.get(request.candidate)))
        remedies = ["Reword what is named."] * bool(wrong)
        if request.incumbent is not None:
            if refusal := check_verdict(request, "content", "a verdict whose outputs can be looked at"):
                wrong.append(refusal.found)
                remedies.append(refusal.remedy)
            elif request.verdict and not request.verdict.live and (reason := self._outputs(request)):
                wrong.append(reason)
                remedies.append(f"Read them: seedbed review show {request.channel} {short(request.candidate)}")
        if not wrong:
            return None
        expected = "texts that are safe, and outputs that answer the tasks"
        return Refusal("content", "; ".join(wrong), expected, ". ".join(each.rstrip(".") for each in remedies))

    async def _texts(self, before: Playbook, after: Playbook) -> list[str]:
        wrong = []
        for each in diff(before, after):
            was = "\n".join(text for _, text in texts(each.before))
            for path, text in texts(each.after, each.path):
                new = ((name, words) for name, words in hazards(text, was) if name not in self.allow)
                wrong += [f"{path}: {name}: {shown(words, 80)}" for name, words in new]
                if self.offence is not None and text.strip() and text not in was:
                    wrong += await self._offends(path, text)
        return wrong

    async def _offends(self, path: str, text: str) -> list[str]:
        try:
            level = await asyncio.to_thread(offence, text)
        except ImportError:
            return [f"{path}: no classifier that could rate it (pip install 'seedbed[safety]')"]
        limit = self.offence or 0.0
        return [f"{path}: a text that offends at {level:.2f}, above {limit:g}"] if level > limit else []

    def _outputs(self, request: ReleaseRequest) -> str:
        """What is wrong with the outputs of the candidate, if anything."""
        assert request.verdict
        store, verdict = request.library.store, request.verdict
        try:
            output_pairs = read_output_pairs(store, verdict)
        except NotFound as missing:
            return str(missing)
        if not output_pairs:
            return "no task at which both were scored"
        clear = [sign for sign in signs(hacking(store, verdict)) if sign.is_found]
        reasons = [f"{sign.name}: {sign}; gain {verdict.gain:+.3f}, without it {sign.gain:+.3f}" for sign in clear]
        return "; ".join(filter(None, [*reasons, self._repeats(output_pairs)]))

    def _repeats(self, output_pairs: Sequence[OutputPair]) -> str:
        if len({canonical(dict(pair.task.inputs)) for pair in output_pairs}) < ENOUGH:
            return ""
        repeated = _commonest(bare(pair.candidate) for pair in output_pairs)
        wanted = [pair.task.expected for pair in output_pairs if pair.task.expected is not None]
        natural = _commonest(map(bare, wanted)) if wanted else _commonest(bare(pair.control) for pair in output_pairs)
        if repeated > self.constant and repeated - natural > BEYOND:
            verb = "are expected to be" if wanted else "were"
            share = f"{repeated:.0%} of {len(output_pairs)} tasks"
            return f"the same output at {share}, of which {natural:.0%} {verb} the same"
        return ""


def _commonest(outputs: Iterable[str]) -> float:
    """The share of the most frequent output."""
    counts = Counter(outputs)
    return max(counts.values()) / counts.total() if counts else 0.0


# Hazards in texts

_FLAGS = re.IGNORECASE | re.MULTILINE
_NOT = r"(?<!not )(?<!never )(?<!n't )"
"""A text that says not to do it is safe."""

_HAZARDS: Mapping[TextHazard, str] = {
    "an order to drop instructions": (
        rf"{_NOT}\b(ignore|disregard|forget|override|bypass)\b[^.\n]{{0,30}}"
        r"\b(previous|prior|earlier|above|preceding|system|your|all|any|these|those)\b[^.\n]{0,20}"
        r"\b(instructions?|rules?|prompts?|guidelines|constraints|directions|policy|policies|safeguards)\b"
        r"(?!\s+(in|inside|within|from|that|contained|embedded|found|given)\b)"  # which is advice against it
    ),
    "a way around confirmation": (
        r"\b(without|skip|never|do not|don't|no need (to|for))\b[^.\n]{0,15}"
        r"\b(ask(ing)?|wait(ing)?|seek(ing)?|request(ing)?)\b[^.\n]{0,25}"
        r"\b(permission|confirmation|confirm|approval)\b"
        r"|\b(without|skip)\b[^.\n]{0,10}\b(asking|confirmation|confirming|approval|permission)\b"
    ),
    "another persona without limits": (
        r"\b(jailbreak|developer mode|do anything now|no (restrictions|limits|filters)|unrestricted|uncensored)\b"
    ),
    "a request for secrets": (
        rf"{_NOT}\b(reveal|print|repeat|show|leak|send|output)\b[^.\n]{{0,30}}"
        r"\b(system prompt|your (instructions|prompt|rules)|api[ _-]?keys?|passwords?|credentials|secrets?)\b"
    ),
    "marks of a chat template": (
        r"<\|[a-z_]+\|>|\[/?INST\]|<</?SYS>>|</?(system|assistant)>|^#{2,} ?(system|assistant):"
    ),
    "an escape for a terminal": r"[\x1b\x9b]",
    "characters that nobody sees": (r"[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]"),
    "an address": r"\b[a-z][a-z0-9+.-]{0,30}://[^\s)>\"']+|\b[\w.+-]{1,64}@[\w-]{1,250}\.[a-z]{2,}\b",
    "a block that nobody can read": r"\b[A-Za-z0-9+/]{120,}={0,2}",
}
HAZARDS: Mapping[TextHazard, re.Pattern[str]] = {
    name: re.compile(pattern, _FLAGS) for name, pattern in _HAZARDS.items()
}
"""What a changed text must not add, by name."""


def hazards(text: str, before: str = "") -> Iterator[tuple[str, str]]:
    """The hazards in a text that were not in it before: the name and the words of each."""
    for name, pattern in HAZARDS.items():
        known = {_bare(match[0]) for match in pattern.finditer(before)}
        new = (match[0] for match in pattern.finditer(text) if _bare(match[0]) not in known)
        yield from ((name, words) for words in islice(new, 1))
    if (match := FLATTERY.search(text)) and not FLATTERY.search(before):
        yield "words to whoever gives the scores", match[0]


def _bare(words: str) -> str:
    return " ".join(words.casefold().split())
