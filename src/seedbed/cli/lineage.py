"""Who grew from whom, and where refs pointed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from seedbed.cli import output, views
from seedbed.cli.output import clipped, line, when
from seedbed.errors import NotFound, shown
from seedbed.storage.store import Digest, Fact, Json, Store, Target, short

if TYPE_CHECKING:
    from rich.tree import Tree

    from seedbed.playbooks.library import Entry
    from seedbed.workspace import Workspace

RECENT = 20
"""How many of the newest playbooks are looked at where nothing has a name."""


def roots(space: Workspace, name: str | None) -> list[Digest]:
    """The oldest ancestors of a playbook, or of everything that has a name."""
    library = space.library
    if name is not None:
        starts: Iterable[Digest] = [space.playbook(name).digest]
    else:
        starts = views.names(space.store) or [entry.digest for entry in library.search(limit=RECENT).entries]
    found: dict[Digest, None] = {}
    for start in starts:
        library.entry(start)
        # By the first parent only, as the tree is drawn.
        entries = {entry.digest: entry for entry in library.ancestry(start)}
        while parents := entries[start].parents:
            start = parents[0]
        found[start] = None
    return list(found)


def document(space: Workspace, root: Digest, limit: int, depth: int) -> Json:
    """A playbook with what grew from it. Of many siblings those on the way to a name come first, then the best."""
    library = space.library
    called = views.names(space.store)
    leading = {entry.digest for name in called for entry in library.ancestry(name)}

    def known(entry: Entry) -> Json:
        return {
            "playbook": entry.digest,
            "names": called.get(entry.digest, []),
            "scores": views.scores(space.store, entry.digest),
            "how": entry.how,
            "because": entry.because,
            "also_from": list(entry.parents[1:]),
        }

    def grown(node: Json, left: int) -> Json:
        digest = node["playbook"]
        children = [known(child) for child in library.children(digest) if child.parents[0] == digest]
        children.sort(key=lambda child: (child["playbook"] in leading, _best(child)), reverse=True)
        shown = children[:limit] if left else []
        return {
            **node,
            "children": [grown(child, left - 1) for child in shown],
            "hidden": len(children) - len(shown),
        }

    return grown(known(library.entry(root)), depth)


def _best(node: Json) -> float:
    return max((score["mean"] for score in node["scores"].values()), default=-1.0)


def view(node: Json) -> Tree:
    from rich.tree import Tree

    result = Tree(_label(node), guide_style="dim")
    _grow(result, node)
    return result


def _grow(tree: Tree, node: Json) -> None:
    for child in node["children"]:
        _grow(tree.add(_label(child)), child)
    if node["hidden"]:
        tree.add(line((f"… and {node['hidden']} more", "dim")))


def _label(node: Json) -> Any:
    names = [(f" {name}", "bold green" if name.startswith("channels/") else "cyan") for name in node["names"]]
    score = views.scores_text(node["scores"])
    also = f", and from {', '.join(map(short, node['also_from']))}" if node["also_from"] else ""
    told = f"  {node['how']}: {clipped(node['because'], 40)}{also}"
    return line((short(node["playbook"]), "yellow"), *names, (f"  {score}" if score else "", "bold"), (told, "dim"))


# Moves


def ref_name(store: Store, name: str) -> str:
    """The full name of a ref that exists, or once did."""
    from seedbed.storage.store import Query

    for candidate in (name, f"branches/{name}", f"channels/{name}"):
        if any(store.facts(Query(kind="move", subject=candidate, limit=1))):
            return candidate
    known = ", ".join(ref.name for ref in store.refs()[:8]) or "none yet"
    raise NotFound(f"no ref was ever called {shown(name)}. Known names: {known}")


def move_document(fact: Fact) -> Json:
    body = fact.body
    return {"to": body["to"], "from": body["from"], "because": body["because"], "by": fact.by, "at": fact.at}


def show_moves(name: str, moves: Iterable[Fact], as_json: bool) -> None:
    found = [move_document(fact) for fact in moves]
    rows = [(target(each["from"]), target(each["to"]), each["because"], each["by"], when(each["at"])) for each in found]
    table = output.table("from", "to", "because", "by", "at", rows=rows, title=name)
    output.show({"ref": name, "moves": found}, as_json, table)


def target(of: Target | None) -> str:
    if not of:
        return "–"
    return short(of if isinstance(of, str) else str(of["stable"]))
