"""Family trees of playbooks, and the moves of refs."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text
from rich.tree import Tree

from seedbed.cli import output
from seedbed.cli.command import Invocation
from seedbed.cli.output import Column, line, when
from seedbed.cli.views.playbook import failed_mark, scores_text
from seedbed.reports.numbers import clipped
from seedbed.storage.store import Fact, Json, Ref, Target, short

INDENT = 4
"""Characters before each generation of a tree."""


def view(node: Json) -> Tree:
    result = Tree(_label(node, 0), guide_style="dim")
    _grow(result, node, 1)
    return result


def _grow(tree: Tree, node: Json, depth: int) -> None:
    for child in node["children"]:
        _grow(tree.add(_label(child, depth)), child, depth + 1)
    if node["hidden"]:
        tree.add(line((f"… and {node['hidden']} more", "dim")))


def _label(node: Json, depth: int) -> Text:
    """A playbook on one line: its name, then what is left room for of its scores and of how it was made."""
    names = [(f" {name}", "bold green" if name.startswith("channels/") else "cyan") for name in node["names"]]
    parts = ((node["scores"], ""), (node["held_out"], " held out"))
    scores = [scores_text(scores) + where for scores, where in parts if scores]
    also = f", and from {', '.join(map(short, node['also_from']))}" if node["also_from"] else ""
    text = line((short(node["playbook"]), "yellow"), (failed_mark(node), "red"), *names)
    for mark, score in zip(("  ", "; "), scores, strict=False):
        if text.cell_len + len(mark + score) <= output.console().width - INDENT * depth:
            text.append(mark + score, "bold")
    text.append(f"  {node['how']}: {clipped(node['because'], 40)}{also}", "dim")
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


# Moves


def move_document(fact: Fact) -> Json:
    body = fact.body
    return {"to": body["to"], "from": body["from"], "because": body["because"], "by": fact.by, "at": fact.at}


MOVES = (
    Column("from", lambda each: target_text(each["from"]), drop=2),
    Column("to", lambda each: target_text(each["to"])),
    Column("because", lambda each: each["because"], flexible=True),
    Column("by", lambda each: each["by"], drop=1),
    Column("at", lambda each: when(each["at"])),
)


def show_moves(call: Invocation, name: str, moves: Iterable[Fact]) -> None:
    """Print where a ref pointed, newest first."""
    documents = [move_document(fact) for fact in moves]
    call.show({"ref": name, "moves": documents}, line((name, "bold")), output.listing(MOVES, documents))


def target_text(of: Target | None) -> str:
    if not of:
        return "–"
    if isinstance(of, str):
        return short(of)
    canary = of.get("canary")
    beside = f" + {100 * canary['share']:g} % {short(canary['playbook'])}" if canary else ""
    return f"{short(str(of['stable']))}{beside}{', frozen' if of.get('frozen') else ''}"


def show_channel(call: Invocation, ref: Ref, verb: str) -> None:
    """Print where a channel points now, or would point."""
    target = ref.target if isinstance(ref.target, dict) else {"stable": ref.target}
    channel = ref.name.removeprefix("channels/")
    document = {
        "channel": channel,
        "playbook": target["stable"],
        "canary": target.get("canary"),
        "frozen": target.get("frozen", False),
        "version": ref.version,
        "because": ref.because,
        "by": ref.by,
        "at": ref.at,
    }
    call.done(document, f"{channel} {verb} {target_text(target)}")
