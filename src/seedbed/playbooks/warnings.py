"""Warnings: what is valid in a playbook and yet hardly what its author means."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from seedbed.errors import Problem, shown
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.prompts import literals, placeholders
from seedbed.playbooks.rules import action_of, disguise, matches, names, rule_text
from seedbed.playbooks.steps.tool_use import chosen
from seedbed.plugins import suggestion


def unused_inputs(playbook: Playbook, inputs: Collection[str] | None = None) -> Iterator[Problem]:
    """Inputs that no prompt uses: of those given, or of those that the playbook declares.

    A program, and a step without a prompt, may read any input.
    """
    steps = list(playbook.all_steps())
    if playbook.program or not steps or not all(step.prompt for step in steps):
        return
    texts = [*(step.prompt for step in steps), *(role.system for role in playbook.roles.values())]
    used = {each.name for text in texts for each in placeholders(text)}
    used |= {step.opens.input for step in steps if step.opens}
    for name in playbook.inputs if inputs is None else inputs:
        if name not in used:
            remedy = suggestion(name, sorted(used)) or f"Write {{{name}}} in a prompt, or leave it out."
            yield Problem(f"inputs.{name}", "an input that no prompt uses", f"{{{name}}} in a prompt", remedy)


def literal_placeholders(texts: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """`{{name}}` in texts, given with their places, that were written for another tool, where it stands for a value."""
    for path, text in texts:
        for name in literals(text):
            remedy = f"Write {{{name}}} if it stands for an input; {{{{{name}}}}} is plain text."
            yield Problem(path, f"{{{{{name}}}}}", f"{{{name}}}", remedy)


def disguised_rules(playbook: Playbook) -> Iterator[Problem]:
    """Rules that can match no tool, as one of that name would be refused."""
    for place, rule in playbook.rules.all():
        if reason := disguise(action_of(rule).replace("*", "")):
            yield Problem(f"rules.{place}", f"{shown(rule_text(rule))}: {reason}", "a name as it is typed")


def idle_rules(playbook: Playbook, tools: Collection[str]) -> Iterator[Problem]:
    """Rules that match no tool of the workspace."""
    for place, rule in playbook.rules.all():
        if not any(names(rule, tool) for tool in tools):
            near = suggestion(action_of(rule), tools) or "Correct its name, if it is meant for a tool."
            idle = f"{rule_text(rule)}, which matches no tool"
            yield Problem(f"rules.{place}", idle, f"one of the tools: {', '.join(sorted(tools))}", near)


def foreign_program(playbook: Playbook, programs: Collection[str]) -> Iterator[Problem]:
    """A program outside of those that the workspace file allows, if it names any."""
    if programs and playbook.program and not any(matches(each, playbook.program) for each in programs):
        remedy = "Read its code, then add it under programs in the workspace file."
        yield Problem("program", playbook.program, f"one of: {', '.join(programs)}", remedy)


def unknown_tools(playbook: Playbook, tools: Collection[str]) -> Iterator[Problem]:
    """Tools that a playbook names and that are not there."""
    named = {f"roles.{name}.tools": role.tools for name, role in playbook.roles.items()}
    named |= {f"steps.{step.name}.tools": step.tools or () for step in playbook.all_steps()}
    for path, patterns in named.items():
        for pattern in patterns:
            if not chosen([pattern], tools):
                known = ", ".join(sorted(tools)) or "none"
                remedy = suggestion(pattern, tools) or "Add it under tools in the workspace file."
                yield Problem(path, shown(pattern), f"one of the tools: {known}", remedy)
