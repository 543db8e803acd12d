"""Sequential tests: look after every task, stop as soon as the answer is known, keep the promised error rates.

A stopping rule is registered by name with its settings, as content, before anything is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seedbed.errors import SeedbedError, shown
from seedbed.stats.betting import Betting
from seedbed.stats.exact import ExactMcNemar
from seedbed.stats.gsprt import Gsprt, Sprt
from seedbed.stats.planning import Plan, plan, power_curve
from seedbed.stats.rule import Answer, Conclusion, Ends, StoppingRule

RULES: dict[str, type[StoppingRule]] = {rule.name: rule for rule in (ExactMcNemar, Betting, Gsprt, Sprt)}


def rule_from_state(state: Mapping[str, Any]) -> StoppingRule:
    """The rule a state names, as it was: for a registered rule without outcomes, one that has taken nothing."""
    name = state.get("rule", ExactMcNemar.name)
    if name not in RULES:
        raise SeedbedError(f"rule: found {shown(name)}; expected one of {', '.join(RULES)}")
    return RULES[name].from_state({"outcomes": [], **state})


__all__ = [
    "RULES",
    "Answer",
    "Betting",
    "Conclusion",
    "Ends",
    "ExactMcNemar",
    "Gsprt",
    "Plan",
    "Sprt",
    "StoppingRule",
    "plan",
    "power_curve",
    "rule_from_state",
]
