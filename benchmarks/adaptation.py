"""How many turns it saves to stop when nothing of substance changes any more, and how often that stops too soon.

    python benchmarks/adaptation.py [--each]

Dialogues of `tests/stories/labelled/dialogues.jsonl` are replayed round by round. Each says from which round on nothing
of substance changes, and how it ends. The measure of likeness and the rules were chosen on "dev"; "test" was
written after that. All are invented, and many are traps (a change of mind after two to four quiet rounds), so look at
the rules beside each other more than at the figures themselves. A stop is false if something still changed after it, or
if answers that go back and forth were taken for settled. Recommended is, for two or more who talk about the same,
`any: [{agreement: 0.5, stable: 2}, {stable: 4}]`; for one who revises a text, `settled: 0.75, rounds: 2`. The peers
stop as soon as everybody's answer is at least 0.85 like their own before it.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from seedbed.playbooks.conditions import Until
from seedbed.stage.dialogue.adaptation import ConvergenceOutcome, Round, assess

LABELLED = Path(__file__).parents[1] / "tests/stories/labelled/dialogues.jsonl"
Rule = Callable[[Sequence[Round], int], ConvergenceOutcome]


@dataclass(frozen=True)
class Stop:
    """Where a rule ended a dialogue."""

    dialogue: dict[str, Any]
    rounds: int
    outcome: ConvergenceOutcome

    @property
    def early(self) -> bool:
        return self.rounds < len(self.dialogue["rounds"])

    @property
    def wrong(self) -> bool:
        """Something of substance came after it."""
        if not self.early or self.dialogue["outcome"] == self.outcome == "oscillating":
            return False
        return self.dialogue["settled"] is None or self.rounds < self.dialogue["settled"]

    @property
    def expected(self) -> bool:
        """Called what it is; a dialogue that still changes at the end has stalled by then."""
        return self.outcome == {"going on": "stalled"}.get(self.dialogue["outcome"], self.dialogue["outcome"])


def replay(dialogue: dict[str, Any], rule: Rule) -> Stop:
    rounds = dialogue["rounds"]
    for end in range(1, len(rounds) + 1):
        outcome = rule(rounds[:end], len(rounds))
        if outcome != "going on":
            return Stop(dialogue, end, outcome)
    return Stop(dialogue, len(rounds), "stalled")


def ours(**rule: Any) -> Rule:
    return lambda rounds, at_most: (
        assess(Until.model_validate({**rule, "at_most": at_most}, strict=False), rounds).outcome
    )


def peer(alike: Callable[[str, str], float]) -> Rule:
    def rule(rounds: Sequence[Round], at_most: int) -> ConvergenceOutcome:
        if len(rounds) < 2:
            return "going on"
        own = min(alike(text, rounds[-2][step]) for step, text in rounds[-1].items())
        return "converged" if own >= 0.85 else "going on"

    return rule


def ratio(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def jaccard(one: str, other: str) -> float:
    ours, theirs = ({*re.findall(r"\w+", text.lower())} for text in (one, other))
    return len(ours & theirs) / len(ours | theirs)


def by_kind(talk: Rule, alone: Rule) -> Rule:
    return lambda rounds, at_most: (talk if len(rounds[-1]) > 1 else alone)(rounds, at_most)


TALK = ours(any=[{"agreement": 0.5, "stable": 2}, {"stable": 4}])
ALONE = ours(settled=0.75, rounds=2)
RULES: dict[str, Rule] = {
    "recommended": by_kind(TALK, ALONE),
    "careful: stable 3; settled 0.75 twice": by_kind(ours(stable=3), ALONE),
    "stable 3": ours(stable=3),
    "settled 0.85": ours(settled=0.85),
    "agreement 0.85": ours(agreement=0.85),
    "peer: difflib": peer(ratio),
    "peer: Jaccard": peer(jaccard),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--each", action="store_true", help="also say where each dialogue was stopped by the first rule"
    )
    each = parser.parse_args().each
    dialogues = [json.loads(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]
    print("| half | rule | turns saved | false stops | outcome as labelled |\n|---|---|---:|---:|---:|")
    for half in ("dev", "test"):
        of_half = [dialogue for dialogue in dialogues if dialogue["half"] == half]
        for name, rule in RULES.items():
            stops = [replay(dialogue, rule) for dialogue in of_half]
            turns = sum(len(stop.dialogue["rounds"]) * len(stop.dialogue["rounds"][0]) for stop in stops)
            taken = sum(stop.rounds * len(stop.dialogue["rounds"][0]) for stop in stops)
            wrong = sum(stop.wrong for stop in stops)
            range_ = binomtest(wrong, len(stops)).proportion_ci(method="exact")
            print(
                f"| {half} | {name} | {1 - taken / turns:.0%} | {wrong} of {len(stops)}"
                f" ({range_.low:.0%} to {range_.high:.0%}) | {sum(stop.expected for stop in stops) / len(stops):.0%} |"
            )
    if each:
        for stop in (replay(dialogue, next(iter(RULES.values()))) for dialogue in dialogues):
            said, label = stop.dialogue["rounds"], stop.dialogue
            verdict = "FALSE STOP" if stop.wrong else "" if stop.expected else "outcome"
            print(
                f"{label['half']} {label['name']}: {label['outcome']} from {label['settled']} of {len(said)};", end=" "
            )
            print(f"{stop.outcome} at {stop.rounds} {verdict}")


if __name__ == "__main__":
    main()
