"""Rules: what an agent may do, what it must never do, and what needs confirmation."""

from seedbed.playbooks.rules.patterns import disguise, folded, locks, matches
from seedbed.playbooks.rules.rule import ActionRule, ArgumentTest, ConditionalRule, Taken, action_of, names, rule_text
from seedbed.playbooks.rules.rules import (
    DEFAULT_CONFIRM_BELOW,
    LISTS,
    Permission,
    PermissionAnswer,
    Rules,
    stricter,
    strictest,
    unite,
)

__all__ = [
    "DEFAULT_CONFIRM_BELOW",
    "LISTS",
    "ActionRule",
    "ArgumentTest",
    "ConditionalRule",
    "Permission",
    "PermissionAnswer",
    "Rules",
    "Taken",
    "action_of",
    "disguise",
    "folded",
    "locks",
    "matches",
    "names",
    "rule_text",
    "stricter",
    "strictest",
    "unite",
]
