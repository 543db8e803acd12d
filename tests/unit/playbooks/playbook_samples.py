"""Random valid playbooks and random edits of them, from a seed, for property tests."""

from __future__ import annotations

import random
from typing import Any

from seedbed.errors import PlaybookError
from seedbed.playbooks.genes import build, flatten, genes, with_genes
from seedbed.playbooks.playbook import Playbook

WORDS = ["answer", "briefly", "check", "the", "facts", "weigh", "each", "claim", "naïve", "日本", "🙂", "stop", "sure"]
ACTIONS = ["send_mail", "delete_*", "pay", "forward_*", "book", "bulk_*"]


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))


def random_playbook(rng: random.Random) -> Playbook:
    roles = {
        f"role_{n}": {"system": sentence(rng), "model": rng.choice(["fast", "strong"])}
        for n in range(rng.randint(1, 3))
    }
    names = [f"step_{n}" for n in range(rng.randint(0, 4))]
    steps: list[Any] = []
    for position, name in enumerate(names):
        prompt = f"{sentence(rng)} {{question}}" + (f" {{{names[0]}}}" if position else "")
        steps.append({"name": name, "role": rng.choice(list(roles)), "prompt": prompt})
    if len(steps) > 2:
        steps[1:3] = [{"together": steps[1:3]}]
    document: dict[str, Any] = {
        "roles": roles,
        "parameters": {
            "patience": {"value": round(rng.random(), 2), "low": 0, "high": 1},
            "tries": {"value": rng.randint(1, 9), "low": 1, "high": 9, "whole": True},
            "tone": {"value": rng.choice(["warm", "dry"]), "options": ["warm", "dry"]},
            "caution": random_threshold(rng),
        },
        "rules": {
            "never": rng.sample(ACTIONS, rng.randint(0, 2)),
            "confirm": rng.sample(ACTIONS, rng.randint(0, 2)),
            "prefer_confirm": rng.sample(ACTIONS, rng.randint(0, 2)),
            "confirm_below": rng.choice([0.5, 0.7, "caution", "caution", "caution"]),
        },
    }
    if rng.random() < 0.2:
        del document["rules"]["confirm_below"]  # then a parameter of that name holds it, or nothing does
        document["parameters"] |= {"confirm_below": 0.6} if rng.random() < 0.5 else {}
    if steps:
        document["steps"] = steps
        document["demos"] = {names[-1]: [{"inputs": {"question": sentence(rng)}, "output": sentence(rng)}]}
    if rng.random() < 0.3:
        document["locked"] = ["roles.role_0.system"]
    return Playbook.from_document(document)


def random_threshold(rng: random.Random) -> dict[str, Any]:
    value = rng.choice([0.3, 0.6, 0.9])
    return {"value": value, "options": [0.3, 0.6, 0.9]} if rng.random() < 0.3 else {"value": value, "low": 0, "high": 1}


def random_edit(playbook: Playbook, rng: random.Random, edits: int = 3) -> Playbook:
    """A valid playbook a few edits away: genes, rules, roles, steps and bounds come, change and go."""
    for _ in range(edits):
        try:
            playbook = _edited(playbook, rng)
        except PlaybookError:
            continue  # this edit made no valid playbook; the next may
    return playbook


def _edited(playbook: Playbook, rng: random.Random) -> Playbook:
    kind = rng.choice(["gene", "gene", "gene", "rule", "drop", "add role", "add step", "bounds", "lock", "threshold"])
    flat = flatten(playbook)
    match kind:
        case "gene":
            gene = rng.choice([*genes(playbook).values(), None])
            if gene is None:
                return playbook
            return with_genes(playbook, {gene.path: _new_value(gene, rng)})
        case "rule":
            level = rng.choice(["never", "confirm", "prefer_confirm"])
            flat[f"rules.{level}"] = rng.sample(ACTIONS, rng.randint(0, 3))
            if rng.random() < 0.3:
                flat["rules.confirm_below"] = rng.choice([0.5, 0.9, "caution"])
        case "threshold":  # by hand, so that it may fall too
            flat[f"parameters.{rng.choice(['caution', 'confirm_below'])}"] = rng.choice([0.3, 0.6, 0.9])
        case "drop":
            head = ".".join(rng.choice(sorted(flat)).split(".")[:2])
            flat = {path: value for path, value in flat.items() if path != head and not path.startswith(f"{head}.")}
            if head.startswith("steps.") and "steps" in flat:
                flat["steps"] = _without(flat["steps"], head.split(".")[1])
        case "add role":
            flat[f"roles.extra_{rng.randint(0, 3)}.system"] = sentence(rng)
        case "add step":
            name, role = f"extra_{rng.randint(0, 3)}", next(iter(sorted(playbook.roles)), "nobody")
            flat["steps"] = [*flat.get("steps", []), name]
            flat |= {f"steps.{name}.role": role, f"steps.{name}.prompt": sentence(rng)}
        case "bounds":
            flat["parameters.patience.high"] = rng.choice([1, 2])
        case "lock":
            flat["locked"] = rng.sample(["roles.*", "parameters.tone", "roles.role_0.system"], rng.randint(1, 2))
    return build(flat)


def _without(shape: list[Any], name: str) -> list[Any]:
    kept = [[each for each in item if each != name] if isinstance(item, list) else item for item in shape]
    return [item for item in kept if item not in (name, [])]


def _new_value(gene: Any, rng: random.Random) -> Any:
    match gene.kind:
        case "text":
            return gene.value + " " + rng.choice(WORDS) if rng.random() < 0.5 else f"{sentence(rng)} {{question}}"
        case "number":
            return round(rng.uniform(gene.low or 0, gene.high if gene.high is not None else 1), 2)
        case "integer":
            return rng.randint(int(gene.low), int(gene.high))
        case "choice":
            return rng.choice(gene.options or ["fast", "strong", "third"])
        case _:
            return [{"inputs": {"question": sentence(rng)}, "output": sentence(rng)} for _ in range(rng.randint(0, 2))]
