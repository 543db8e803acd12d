"""Who grew from whom, and where refs pointed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seedbed.cli import output
from seedbed.cli.output import clipped, counted, line, when
from seedbed.cli.views import run as views
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
    """A playbook with what grew from it. Of many siblings those on the way to a name come first, then the best.

    `scores` are those on tasks that a search has chosen by, here or among its children, and `held_out` those on others:
    together they would compare nothing. Where nothing was searched for, all are `scores`.
    """
    library = space.library
    called = views.names(space.store)
    leading = {entry.digest for name in called for entry in library.ancestry(name)}
    trials = _Trials(space.store)

    def known(entry: Entry, seen: frozenset[str]) -> Json:
        scores, held_out = _scores(space.store, entry.digest, seen)
        return {
            "playbook": entry.digest,
            "names": called.get(entry.digest, []),
            "scores": scores,
            "held_out": held_out,
            "how": entry.how,
            "because": entry.because,
            "also_from": list(entry.parents[1:]),
        }

    def grown(entry: Entry, seen: frozenset[str], left: int) -> Json:
        own = seen | trials.tasks(entry.digest)
        entries = [child for child in library.children(entry.digest) if child.parents[0] == entry.digest]
        searched = own.union(*(trials.tasks(child.digest) for child in entries))
        children = [(child, _best(known(child, own | trials.tasks(child.digest)))) for child in entries]
        children.sort(key=lambda pair: (pair[0].digest in leading, pair[1]), reverse=True)
        shown = children[:limit] if left else []
        return {
            **known(entry, searched),
            "children": [grown(child, own, left - 1) for child, _ in shown],
            "hidden": len(children) - len(shown),
        }

    return grown(library.entry(root), frozenset(), depth)


class _Trials:
    """Which tasks a playbook was chosen by, or passed over by."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Digest, frozenset[str]] = {}

    def tasks(self, playbook: Digest) -> frozenset[str]:
        from seedbed.experiments.held_out import evolved_on

        return frozenset().union(*map(self._tasks, evolved_on(self._store, playbook)))

    def _tasks(self, dataset: Digest) -> frozenset[str]:
        from seedbed.experiments.held_out import known_tasks

        if dataset not in self._known:
            try:
                self._known[dataset] = frozenset(task.id for task in known_tasks(self._store, dataset))
            except NotFound:  # a dataset that was cleaned away takes no picture with it
                self._known[dataset] = frozenset()
        return self._known[dataset]


def _scores(store: Store, playbook: Digest, seen: frozenset[str]) -> tuple[Json, Json]:
    """The mean scores of a playbook by metric on tasks that were seen, and on all others; on all if none was."""
    from seedbed.experiments.replay.history import OF
    from seedbed.storage.store import Query

    parts: tuple[dict[str, dict[str, list[float]]], dict[str, dict[str, list[float]]]] = ({}, {})
    for fact in store.facts(Query(kind="cell", subject=playbook)):
        task = fact.body["task"]
        if fact.value is not None and not task.startswith(OF):  # replays are no performance of today
            part = parts[bool(seen) and task not in seen]
            part.setdefault(fact.body["metric"], {}).setdefault(task, []).append(fact.value)
    searched, others = ({metric: _mean(tasks) for metric, tasks in part.items()} for part in parts)
    return searched, others


def _mean(tasks: Mapping[str, Sequence[float]]) -> Json:
    means = [sum(values) / len(values) for values in tasks.values()]
    return {"mean": sum(means) / len(means), "tasks": len(means)}


def _best(node: Json) -> float:
    return max((score["mean"] for score in (node["scores"] or node["held_out"]).values()), default=-1.0)


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
    parts = ((node["scores"], ""), (node["held_out"], " held out"))
    score = "; ".join(_scores_text(scores) + where for scores, where in parts if scores)
    also = f", and from {', '.join(map(short, node['also_from']))}" if node["also_from"] else ""
    told = f"  {node['how']}: {clipped(node['because'], 40)}{also}"
    return line((short(node["playbook"]), "yellow"), *names, (f"  {score}" if score else "", "bold"), (told, "dim"))


def _scores_text(scores: Json) -> str:
    return ", ".join(
        f"{metric} {score['mean']:.3f} on {counted(score['tasks'], 'task')}" for metric, score in scores.items()
    )


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
    if isinstance(of, str):
        return short(of)
    canary = of.get("canary")
    beside = f" + {100 * canary['share']:g} % {short(canary['playbook'])}" if canary else ""
    return f"{short(str(of['stable']))}{beside}{', frozen' if of.get('frozen') else ''}"
