"""How often the stopping rule errs and how soon it ends, beside an ordinary test that is looked at after every task.

    python benchmarks/stopping.py [--runs 2000]

Tasks differ between the two playbooks with the stated chance; of those the candidate wins half (no difference) or more.
The peer is the exact McNemar test at the same level, stopped as soon as it is significant, as one does who watches a
dashboard; and the same test, looked at once, after the last task.
"""

from __future__ import annotations

import argparse
import random
from functools import cache

from seedbed.stats.estimates import mcnemar
from seedbed.stats.sequential import ExactMcNemar

ALPHA, TASKS = 0.05, 300
significant = cache(lambda wins, losses: wins > losses and mcnemar(wins, losses) / 2 <= ALPHA)


def ours(signs: list[int]) -> tuple[bool, int]:
    rule = ExactMcNemar(alpha=ALPHA, at_most=TASKS)
    for number, sign in enumerate(signs, 1):
        answer = rule.update(sign)
        if answer.verdict != "continue":
            return answer.verdict == "superior", number
    return False, len(signs)


def watched(signs: list[int]) -> tuple[bool, int]:
    wins = losses = 0
    for number, sign in enumerate(signs, 1):
        wins, losses = wins + (sign > 0), losses + (sign < 0)
        if significant(wins, losses):
            return True, number
    return False, len(signs)


def at_the_end(signs: list[int]) -> tuple[bool, int]:
    return significant(signs.count(1), signs.count(-1)), len(signs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="comparisons of each sort (default %(default)s)")
    runs = parser.parse_args().runs
    rules = {"seedbed": ours, "watched McNemar": watched, "McNemar at the end": at_the_end}
    print(f"| tasks that differ | true difference | {' | '.join(rules)} |\n|---:|---:|{'---:|' * len(rules)}")
    for differ, difference in ((0.1, 0.0), (0.3, 0.0), (0.6, 0.0), (0.3, 0.1)):
        chance = random.Random(f"{differ} {difference}")
        better = (differ + difference) / 2
        told: dict[str, list[tuple[bool, int]]] = {name: [] for name in rules}
        for _ in range(runs):
            draws = [chance.random() for _ in range(TASKS)]
            signs = [1 if draw < better else -1 if draw < differ else 0 for draw in draws]
            for name, rule in rules.items():
                told[name].append(rule(signs))
        cells = [
            f"{sum(found for found, _ in each) / runs:.1%}, {sum(after for _, after in each) / runs:.0f} tasks"
            for each in told.values()
        ]
        print(f"| {differ:.0%} | {difference:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
