"""What a playbook says about tools: which, in which words, how often."""

from __future__ import annotations

import pytest

from seedbed.errors import PlaybookError
from seedbed.playbooks.genes import build, flatten, genes
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.steps.tool_use import chosen
from seedbed.playbooks.warnings import unknown_tools

DOCUMENT = {
    "tools": {"refund": {"about": "Give money back.", "arguments": {"order": "Its number."}}},
    "roles": {"clerk": {"model": "fast", "tools": ["search", "mail.*"]}},
    "steps": [
        {"name": "solve", "role": "clerk", "prompt": "{q}", "tools": ["refund"], "calls": {"at_most": 3}},
        {"name": "reply", "role": "clerk", "prompt": "{solve}", "tools": []},
        {"name": "check", "role": "clerk", "prompt": "{solve}"},
    ],
}


def test_a_step_has_the_tools_of_its_role_unless_it_names_others() -> None:
    playbook = Playbook.from_document(DOCUMENT)
    assert [playbook.tools_of(step) for step in playbook.all_steps()] == [("refund",), (), ("search", "mail.*")]
    assert playbook.uses_tools
    assert chosen(["mail.*", "search"], ["search", "mail.read", "email.read"]) == ["mail.read", "search"]


def test_words_and_limits_are_genes_and_which_tools_is_not() -> None:
    playbook = Playbook.from_document(DOCUMENT)
    about_tools = {path for path in genes(playbook) if "tools" in path or "calls" in path}
    assert about_tools == {"tools.refund.about", "tools.refund.arguments.order", "steps.solve.calls.at_most"}
    assert genes(playbook)["steps.solve.calls.at_most"].problem(51)
    assert build(flatten(playbook)) == playbook
    locked = Playbook.from_document({**DOCUMENT, "locked": ["tools.*", "steps.solve.calls.at_most"]})
    assert not about_tools & genes(locked).keys()


def test_tools_that_are_nowhere_are_named_with_the_nearest_one() -> None:
    problems = list(unknown_tools(Playbook.from_document(DOCUMENT), ["serch", "refund"]))
    assert [str(each) for each in problems] == [
        'roles.clerk.tools: found "search"; expected one of the tools: refund, serch. Did you mean serch?',
        'roles.clerk.tools: found "mail.*"; expected one of the tools: refund, serch. '
        "Add it under tools in the workspace file.",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tools": [], "calls": {"at_most": 3}}, "limits on calls and no tools"),
        ({"calls": {"at_most": 0}}, "at least 1"),
        ({"calls": {"most": 3}}, "Did you mean at_most"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, object], message: str) -> None:
    steps = [{"name": "solve", "role": "clerk", "prompt": "{q}", **change}]
    with pytest.raises(PlaybookError, match=message):
        Playbook.from_document({**DOCUMENT, "steps": steps})
