"""Opening a workspace: from its file, or from objects in hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedbed.errors import Problem, SettingsError, expect_type, shown
from seedbed.models.cards import Registry
from seedbed.settings import Settings
from seedbed.storage.store import Store
from seedbed.workspace.resources import Resources, find_file
from seedbed.workspace.workspace import Workspace

if TYPE_CHECKING:
    from seedbed.models.cards import ChatModel
    from seedbed.stage.confirmation import Confirm, Person


def open_workspace(
    path: Path | str | Settings | None = None,
    *,
    store: Store | str | None = None,
    models: Mapping[str, ChatModel | Mapping[str, Any]] | None = None,
    tools: Iterable[Any] = (),
    confirm: Confirm | Person | None = None,
    by: str = "",
    real_tools: bool = False,
) -> Workspace:
    """Open a workspace: use it in `async with`, which closes it.

    Without objects in hand it is that of a file: `path`, or `seedbed.yaml` in this folder or one above; `Settings` made
    in Python may take its place. With a `store` or `models` neither is needed: a store is one, or its URL (default: in
    memory); models are cards as in the file, or live LangChain chat models. With `real_tools`, tools that change the
    world really act in evaluations and searches too. Raises SettingsError.
    """
    if not (isinstance(store, str | Store | None)):
        remedy = 'Write store="sqlite:///seedbed.db".'
        raise SettingsError([Problem("store", shown(store), "a store or its URL", remedy)])
    expect_type(models, Mapping | None, "models", "models by name", 'Write models={"local": model}.')
    expect_type(tools, Iterable, "tools", "a list of tools", "Write tools=[function].")
    in_hand = store is not None or models is not None
    if isinstance(path, Settings):
        settings = path
    else:
        settings = Settings() if in_hand and path is None else Settings.load(find_file(path), models=models or ())
    update: dict[str, Any] = {"by": by} if by else {}
    if in_hand and path is None:
        update["store"] = store if isinstance(store, str) else "memory:"
    elif isinstance(store, str):
        update["store"] = store
    cards = {name: dict(model) for name, model in (models or {}).items() if isinstance(model, Mapping)}
    if cards:
        update["models"] = {**settings.models, **cards}
    settings = settings.model_copy(update=update)
    Registry({**settings.models, **(models or {})}, settings.source)  # wrong cards are refused before a store is made
    if store is None or isinstance(store, str):
        resources = Resources.open(settings)
    else:
        resources = Resources(settings, store)
    resources.tools, resources.confirm, resources.real_tools = list(tools), confirm, real_tools
    resources.chat_models = {name: model for name, model in (models or {}).items() if not isinstance(model, Mapping)}
    return Workspace(settings, resources.store, resources=resources)
