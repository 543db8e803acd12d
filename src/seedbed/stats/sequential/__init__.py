"""Sequential tests: the stopping rules, by name.

A sequential test looks after every task, stops as soon as the answer is known, and keeps the promised error rates. Its
rule is registered by name with its settings, as content, before anything is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seedbed.errors import SeedbedError, shown
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.stats.sequential.gsprt import Gsprt, Sprt
from seedbed.stats.sequential.stopping_rule import StoppingRule

RULES: dict[str, type[StoppingRule]] = {rule.name: rule for rule in (ExactMcNemar, Betting, Gsprt, Sprt)}


def rule_from_state(state: Mapping[str, Any]) -> StoppingRule:
    """Restore the rule that a state names. From a state without outcomes, as registered, a new rule."""
    name = state.get("rule", ExactMcNemar.name)
    if name not in RULES:
        raise SeedbedError(f"rule: found {shown(name)}; expected one of {', '.join(RULES)}")
    return RULES[name].from_state({"outcomes": [], **state})


__all__ = ["RULES", "rule_from_state"]
