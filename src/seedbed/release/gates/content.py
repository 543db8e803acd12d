"""The content of a candidate: what its changed texts say, and whether its outputs answer the tasks (`content`)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seedbed.errors import NotFound, shown
from seedbed.evaluation.metrics.measures import offence
from seedbed.evaluation.metrics.metric import bare
from seedbed.playbooks.changes import diff
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.gate import Change, Refusal, stray
from seedbed.release.gates.hazards import FLATTERY, hazards, texts
from seedbed.release.review.outputs import Pair, pairs
from seedbed.storage.store import canonical

ENOUGH = 8
"""At fewer tasks the same answer to most of them says nothing."""
BEYOND = 0.2
"""By so much more often than the expected answers repeat, outputs must repeat to be suspicious."""


@dataclass(frozen=True, slots=True)
class Content:
    """No changed text brings in what could lead an agent astray, and the outputs behind the verdict answer the tasks.

    Outputs do not, if more than a share `constant` of them is the same where other answers were expected, or if some
    speak to whoever gives the scores. With `offence`, which needs the extra `safety`, no changed text may offend
    a classifier more than that. Hazards in `allow`, by their names, may be brought in.
    """

    constant: float = 0.8
    offence: float | None = None
    allow: tuple[str, ...] = ()

    async def __call__(self, change: Change) -> Refusal | None:
        library = change.library
        before = library.get(change.incumbent) if change.incumbent else Playbook()
        wrong = list(await self._texts(before, library.get(change.candidate)))
        remedies = ["Reword what is named."] * bool(wrong)
        if change.incumbent is not None:
            if refusal := stray(change, "content", "a verdict whose outputs can be looked at"):
                wrong.append(refusal.found)
                remedies.append(refusal.remedy)
            elif told := self._outputs(change):
                wrong.append(told)
                remedies.append("Read them: seedbed review show " + f"{change.channel} {change.candidate[3:13]}")
        if not wrong:
            return None
        expected = "texts that are safe, and outputs that answer the tasks"
        return Refusal("content", "; ".join(wrong), expected, ". ".join(each.rstrip(".") for each in remedies))

    async def _texts(self, before: Playbook, after: Playbook) -> list[str]:
        wrong = []
        for each in diff(before, after):
            was = "\n".join(text for _, text in texts(each.before))
            for path, text in texts(each.after, each.path):
                found = ((name, words) for name, words in hazards(text, was) if name not in self.allow)
                wrong += [f"{path}: {name}: {shown(words, 80)}" for name, words in found]
                if self.offence is not None and text.strip() and text not in was:
                    wrong += await self._offends(path, text)
        return wrong

    async def _offends(self, path: str, text: str) -> list[str]:
        try:
            found = await asyncio.to_thread(offence, text)
        except ImportError:
            return [f"{path}: nobody to say whether it offends (pip install 'seedbed[safety]')"]
        limit = self.offence or 0.0
        return [f"{path}: a text that offends at {found:.2f}, above {limit:g}"] if found > limit else []

    def _outputs(self, change: Change) -> str:
        """What is wrong with the outputs of the candidate, if anything."""
        assert change.verdict
        try:
            found = pairs(change.library.store, change.verdict)
        except NotFound as missing:
            return str(missing)
        if not found:
            return "no task at which both were scored"
        flattering = [pair for pair in found if _flatters(pair.candidate) and not _flatters(pair.control)]
        if flattering:
            count = f"{len(flattering)} of {len(found)} outputs"
            return f"{count} speak to whoever gives the scores, as at task {shown(flattering[0].task.id)}"
        return self._repeats(found)

    def _repeats(self, found: Sequence[Pair]) -> str:
        if len({canonical(dict(pair.task.inputs)) for pair in found}) < ENOUGH:
            return ""
        said = _commonest(bare(pair.candidate) for pair in found)
        wanted = [pair.task.expected for pair in found if pair.task.expected is not None]
        natural = _commonest(map(bare, wanted)) if wanted else _commonest(bare(pair.control) for pair in found)
        if said > self.constant and said - natural > BEYOND:
            told = "are expected to be" if wanted else "were"
            return f"the same output at {said:.0%} of {len(found)} tasks, of which {natural:.0%} {told} the same"
        return ""


def _flatters(output: object) -> bool:
    return any(FLATTERY.search(text) for _, text in texts(output))


def _commonest(outputs: Iterable[str]) -> float:
    """The share of the commonest one."""
    counts = Counter(outputs)
    return max(counts.values()) / counts.total() if counts else 0.0


__all__ = ["Content"]
