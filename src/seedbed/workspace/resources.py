"""Resources: what a workspace owns, and how the names, paths and objects that people pass become what they mean."""

from __future__ import annotations

import getpass
import math
import random
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from seedbed import documents
from seedbed.errors import NotFound, PlaybookError, Problem, SeedbedError, SettingsError, StoreError, shown
from seedbed.models.cards import Registry
from seedbed.playbooks import builtin
from seedbed.playbooks.formats import Import, load_file
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import is_number, is_whole
from seedbed.playbooks.warnings import foreign_program, idle_rules, unknown_tools, unused_inputs
from seedbed.plugins import load, unknown
from seedbed.settings import ChannelSettings, Settings
from seedbed.spending.notices import SpendingNotice
from seedbed.spending.quota import Spending, scopes_of
from seedbed.stage.confirmation import Confirm, Person, Prompt
from seedbed.stage.program import Program, with_program
from seedbed.stage.runner import Runner
from seedbed.stage.tool_sources import tool_names
from seedbed.storage import open_store
from seedbed.storage.cache import with_cache
from seedbed.storage.encryption import EncryptedStore, MasterKey, expect_plain
from seedbed.storage.redis import redis_at
from seedbed.storage.signing import SigningKey
from seedbed.storage.store import Digest, Store, Upkeep, UpkeptStore
from seedbed.telemetry import switch_on

if TYPE_CHECKING:
    from seedbed.models.cards import ChatModel

DATASET_FILES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".arrow")
FILE = "seedbed.yaml"


@dataclass(frozen=True)
class Evaluating:
    """How runs are done: how often each task, on which budget together, where, and how long a run may take."""

    replicates: int = 1
    max_cost_usd: float | None = None
    parallel: str | int | None = None
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        problems = []
        if not is_whole(self.replicates) or self.replicates < 1:
            problems.append(Problem("replicates", shown(self.replicates), "at least 1, a whole number"))
        if self.max_cost_usd is not None and not (is_number(self.max_cost_usd) and 0 <= self.max_cost_usd < math.inf):
            expected = "an amount in dollars, from 0, such as 0.5"
            problems.append(Problem("max_cost_usd", shown(self.max_cost_usd), expected))
        if self.timeout_seconds is not None and not (is_number(self.timeout_seconds) and self.timeout_seconds >= 0):
            problems.append(Problem("timeout_seconds", shown(self.timeout_seconds), "a number of seconds, from 0"))
        if problems:
            raise SettingsError(problems)


ONCE = Evaluating()

AnyPlaybook: TypeAlias = Playbook | Path | str
"""A playbook, its path, digest, ref or channel, or the name of a dialogue that ships with seedbed."""


@dataclass
class Resources:
    """A store, models, tools, the person to ask, and the runner that performs every run with them."""

    settings: Settings
    store: Store
    tools: list[Any] = field(default_factory=list)
    """What programs may call: functions, LangChain tools, or `Tool`."""
    confirm: Confirm | Person | None = None
    """Asks a person where a rule requires it; without it the settings say who is asked."""
    real_tools: bool = False
    """Whether tools that change the world really act in evaluations and searches. Only a person says so."""
    chat_models: Mapping[str, ChatModel] = field(default_factory=dict)
    """Live LangChain models by name, beside those of the settings."""
    borrowed: bool = False
    """Whether other resources own the store and the pools, and close them."""
    spent: Spending = field(init=False)
    executors: dict[str, Any] = field(init=False, repr=False, default_factory=dict)
    """Worker pools that evaluations have started; closed with the workspace."""

    def __post_init__(self) -> None:
        self.spent = Spending(self.settings, self.store)

    @classmethod
    def open(cls, settings: Settings) -> Resources:
        """Open the store that the settings name, with its cache and its encryption."""
        switch_on(settings)
        if settings.signing_key:
            SigningKey(settings.signing_key)  # a wrong key is refused now, not when all is done
        key = MasterKey.from_environment() if settings.encrypted else None
        redis = redis_at(settings.cache) if settings.cache else None
        store = open_store(store_url(settings))
        try:
            if redis and settings.store.startswith("postgresql:"):  # a file of this machine answers sooner than Redis
                store = with_cache(store, redis)
            if key:
                return cls(settings, EncryptedStore(store, key))
            expect_plain(store)
        except StoreError:
            store.close()
            raise
        return cls(settings, store)

    def acting(self, by: str) -> Resources:
        """The same resources for another person: store, models, limits, pools and tools are shared."""
        other = replace(self, settings=self.settings.model_copy(update={"by": by}), borrowed=True)
        other.spent, other.executors = self.spent, self.executors
        vars(other).update(models=self.models, _runner=self.runner.acting(other.library))
        return other

    async def aclose(self) -> None:
        """Close everything that was opened here, and wait for it."""
        if "_runner" in vars(self) and not self.borrowed:
            await self.runner.aclose()
        self.close()

    def close(self) -> None:
        if self.borrowed:
            return
        if isinstance(self.store, Upkeep):  # not in a dry run
            self.sign()
        for executor in self.executors.values():
            executor.close()
        if "_runner" in vars(self):
            self.runner.close()
        if isinstance(self.store, Upkeep):
            self.store.close()

    @property
    def upkept_store(self) -> UpkeptStore:
        """The store, if it can be verified, copied and cleaned. Raises StoreError."""
        if not isinstance(self.store, Upkeep):
            raise StoreError(f"{type(self.store).__name__} offers no upkeep; expected one of seedbed's own stores")
        return self.store

    def sign(self) -> int:
        """Sign what this person did and has not signed yet; nothing without a `signing_key`."""
        key = self.settings.signing_key
        return SigningKey(key).sign(self.store, by=self.by) if key else 0

    @property
    def by(self) -> str:
        return self.settings.by or _login()

    @property
    def library(self) -> Library:
        return Library(self.store, self.by)

    @cached_property
    def models(self) -> Registry:
        return Registry({**self.settings.models, **self.chat_models}, self.settings.source)

    @property
    def runner(self) -> Runner:
        """Performs every run of this workspace, with the tools and the person to ask that there are now."""
        runner = self._runner
        runner.tools, runner.confirm, runner.real_tools = self.tools, self.confirm, self.real_tools
        runner.learn()
        return runner

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self.settings, self.store, self.library, self.models, self.spent, tell=self._tell)

    async def _tell(self, news: list[SpendingNotice]) -> None:
        await load("seedbed.release.alerts.spending:tell", "alerts")(self.library, self.settings, news)

    def ask_here(self) -> None:
        """Let the person at this terminal answer what runs ask, unless the settings say who is asked."""
        if self.settings.confirm.how is None:
            self.confirm = Prompt(self.by, self.settings.confirm.timeout)

    # Playbooks

    def playbook(self, playbook: AnyPlaybook, changes: Mapping[str, Any] | None = None) -> Playbook:
        """The playbook itself, or the one that a file, digest, ref or channel names, with some values changed.

        In a file any value can be changed, in a stored playbook the genes. A dialogue that ships with seedbed uses
        the first model of the workspace if there is none with the name it says. Raises PlaybookError or NotFound.
        """
        if isinstance(playbook, str | Path) and (file := self.file_of(playbook)):
            loaded = load_file(file, dict(changes) if changes else None).playbook
            return loaded if file == Path(playbook) else self._with_first_model(loaded)
        chosen = playbook if isinstance(playbook, Playbook) else self.library.get(_playbook_name(playbook))
        return with_genes(chosen, changes) if changes else chosen

    def file_of(self, playbook: Path | str) -> Path | None:
        """The file that is named, or that of a dialogue that ships with seedbed, unless a stored playbook is called
        so."""
        if is_playbook_file(playbook):
            return Path(playbook)
        file = builtin.FILES.get(str(playbook))
        with suppress(NotFound):
            return None if file and self.library.find(str(playbook)) else file
        return file

    def _with_first_model(self, playbook: Playbook) -> Playbook:
        models, content = list(self.models), playbook.document()
        if models and builtin.MODEL not in models:
            for role in content["roles"].values():
                role |= {"model": models[0]} if role.get("model") == builtin.MODEL else {}
        return Playbook.from_document(content)

    def performed(self, playbook: AnyPlaybook, program: Program | str | None) -> Playbook:
        """The playbook as that program performs it, if there is one; a stored playbook is then its parent."""
        chosen = self.playbook(playbook)
        if program is None:
            return chosen
        performed = with_program(chosen, program)
        with suppress(NotFound):  # what was never stored is nobody's parent
            because = f"performed by {performed.program}"
            self.library.keep(performed, because=because, parents=[chosen.digest], how="edited")
        return performed

    def warnings(self, playbook: AnyPlaybook, changes: Mapping[str, Any], inputs: Collection[str]) -> list[Problem]:
        """What is probably not meant in a playbook, and inputs of a run that none of its prompts uses."""
        chosen, written = self.playbook(playbook, changes), list[Problem]()
        if isinstance(playbook, str | Path) and (file := self.file_of(playbook)):
            loaded = load_file(file, changes)
            written += loaded.warnings
            if loaded.playbook != chosen:
                models = list(self.models)
                remedy = f"{models[0]} answers. Choose another with --set roles.ROLE.model=MODEL."
                written.append(Problem("model", builtin.MODEL, f"one of: {', '.join(models)}", remedy))
        unused, unread = unused_inputs(chosen, inputs), foreign_program(chosen, self.settings.programs)
        return [*written, *unused, *unread]

    def keep(self, playbook: AnyPlaybook, because: str) -> Digest:
        """The digest of a playbook, which is in the store once this returns."""
        if isinstance(playbook, str) and self.file_of(playbook) is None:
            return self.library.find(playbook)
        return self.library.keep(self.playbook(playbook), because=because)

    # Channels

    def channel_names(self) -> list[str]:
        """The channels of the workspace file, and those that something was released to."""
        moved = [ref.name.removeprefix("channels/") for ref in self.store.refs("channels/")]
        return list(dict.fromkeys([*self.settings.channels, *moved]))

    def expect_channel(self, channel: str) -> None:
        """Raises NotFound for a channel that is not declared and has no release."""
        names = self.channel_names()
        if channel not in names:
            remedy = "Add it under channels in the workspace file, or release a playbook to it."
            raise NotFound(unknown("channel", channel, names, remedy, kind="channel"))

    def scopes(self, playbook: AnyPlaybook, key: str | None) -> tuple[str, ...]:
        """What a run counts against besides the workspace: the channel that it names, and its user there."""
        channel = str(playbook).removeprefix("channels/") if isinstance(playbook, str) else ""
        return scopes_of(channel, key) if channel in self.settings.channels else ()

    def protection(self, channel: str) -> ChannelSettings:
        """What protects a channel. Raises SettingsError for one that is not declared and has no release."""
        declared = self.settings.channels
        if channel not in declared and self.store.ref(f"channels/{channel}") is None:
            remedy = "Add it under channels in the workspace file, or check its spelling."
            raise SettingsError([unknown(f"channels.{channel}", channel, declared, remedy, kind="channel")])
        return self.settings.channel(channel)


@dataclass(frozen=True)
class FileChecker:
    """Checks playbook files; by default, without a workspace to compare them with."""

    tools: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    unknown: tuple[Problem, ...] = ()
    """Why the tools of the workspace are not known."""

    @classmethod
    async def of(cls, settings: Settings) -> FileChecker:
        """Compares rules with the tools of a workspace, and programs with those that it lists."""
        programs = tuple(settings.programs)
        try:
            return cls(tuple(await tool_names(settings.tools, settings.path("."))), programs)
        except SeedbedError as wrong:
            remedy = "Rules were not compared with tools."
            return cls((), programs, (Problem("tools", str(wrong), "tools that can be loaded", remedy),))

    def check(self, file: Path) -> tuple[Import, list[Problem]]:
        """What is in a file, and what is probably not meant in it. Raises PlaybookError."""
        document = load_file(shipped_file(file))
        unclear = [*document.warnings, *foreign_program(document.playbook, self.programs)]
        if document.playbook.rules.all() or document.playbook.named_tools:
            unclear += self.unknown
        if self.tools:
            unclear += [*unknown_tools(document.playbook, self.tools), *idle_rules(document.playbook, self.tools)]
        return document, unclear


def find_file(path: Path | str | None = None) -> Path:
    """The workspace file at a path, or the nearest seedbed.yaml upwards. Raises SettingsError if there is none."""
    here = Path.cwd()
    tried = (
        [documents.file_path(path, "a workspace file", SettingsError)]
        if path
        else [folder / FILE for folder in (here, *here.parents)]
    )
    for each in tried:
        if each.is_file():
            return each
    missing = f"no file {path}" if path else f"no {FILE} in {here} or above"
    remedy = "Run: seedbed init, or name the file with --workspace."
    raise SettingsError([Problem("workspace", missing, "a workspace file", remedy)])


def store_url(settings: Settings) -> str:
    """Where the store is; a relative path starts at the workspace file, wherever the command was given."""
    for scheme in ("sqlite:///", "files:"):
        rest = settings.store.removeprefix(scheme)
        if rest and rest != settings.store and not rest.startswith("/"):
            return f"{scheme}{settings.path(rest)}"
    return settings.store


def is_playbook_file(name: Path | str) -> bool:
    return Path(name).suffix in (".yaml", ".yml", ".json", *documents.PLAIN_TEXTS)


def is_in_a_file(name: str) -> bool:
    """Whether a playbook can be read without a workspace."""
    return is_playbook_file(name) or name in builtin.FILES or Path(name).exists()


def shipped_file(file: Path) -> Path:
    """The file, or that of a dialogue that ships with seedbed if there is none and it has this name."""
    return file if file.exists() else builtin.FILES.get(str(file), file)


def _playbook_name(name: object) -> str:
    if not isinstance(name, str | Path):
        expected = "a Playbook, the path of one, a digest, a ref or a channel"
        raise PlaybookError([Problem("playbook", shown(name), expected, "Playbook.load(path) reads one.")])
    if Path(name).suffix in DATASET_FILES:
        remedy = "Name a .yaml or .json file, a digest, a ref or a channel."
        raise PlaybookError([Problem("playbook", f"the dataset {name}", "a playbook", remedy)])
    return str(name)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        remedy = "Set by in the workspace file, or SEEDBED_BY."
        raise SettingsError([Problem("by", "no user name on this machine", "who is working", remedy)]) from None


def new_seed(seed: int | None = None) -> int:
    """The seed to use; without one, a random seed."""
    return random.SystemRandom().getrandbits(31) if seed is None else seed
