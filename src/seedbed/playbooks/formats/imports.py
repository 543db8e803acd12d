"""Imports: the parts of a foreign document, and what its readers and writers share."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from seedbed import plugins
from seedbed.errors import PlaybookError, Problem, shown
from seedbed.playbooks import checking
from seedbed.playbooks.changes import diff
from seedbed.playbooks.library import SEMVER
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest, Json, digest


@dataclass(frozen=True, slots=True)
class Note:
    """A fact to append about a playbook: `change`, `score`, `parent` or `import`.

    An export also takes notes of kind `version`, each under the digest of a version: who made it, when, why and from
    which version.
    """

    kind: str
    key: str
    body: Json


@dataclass(frozen=True, slots=True)
class Import:
    """The parts of a foreign document.

    `refs` are names that should point at the playbook, `facts` its history according to the document, and `protection`
    the settings for the channel it is released to in seedbed.yaml. `warnings` say what is probably not meant, or cannot
    be kept.
    """

    playbook: Playbook
    format: str
    refs: dict[str, Digest] = field(default_factory=dict)
    facts: tuple[Note, ...] = ()
    protection: Json = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Original:
    """A foreign document as it was written, with the resolved document that it extends."""

    document: Json
    source: str = ""
    parent: Json | None = None

    def note(self, format_name: str) -> Note:
        """The `import` fact, which holds the document, so that an export loses nothing of it."""
        body = {"format": format_name, "source": self.source, "document": copy.deepcopy(self.document)}
        if self.parent is not None:
            body["parent"] = copy.deepcopy(self.parent)
        return Note("import", digest("import", {"document": self.document, "parent": self.parent}), body)


def original(notes: Iterable[Note], format_name: str) -> Original | None:
    """The document in the newest `import` fact of this format; None if there is none."""
    bodies = [note.body for note in notes if note.kind == "import" and note.body["format"] == format_name]
    return Original(bodies[-1]["document"], bodies[-1]["source"], bodies[-1].get("parent")) if bodies else None


def signature(version: Note) -> Json:
    """Who made a version, when and why, under the keys that documents have for it."""
    body = version.body
    return {"created_at": body["at"], "created_by": body["by"], "description": body["because"]}


# Names


def part(name: str) -> str:
    """A name as one part of the path of a ref."""
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.")


def parts(refs: Iterable[str], kind: str, count: int) -> list[str] | None:
    """The parts after `kind/` in the first ref that has so many of them."""
    for ref in refs:
        head, *rest = ref.split("/")
        if head == kind and len(rest) == count:
            return rest
    return None


def keep_spelling(old: str | None, name: str) -> str:
    """The old spelling of a name if it is still the same name."""
    return old if old is not None and part(old) == name else name


def unique(name: str, taken: Iterable[str]) -> str:
    """The name, with a number if it is taken."""
    known = set(taken)
    candidates = (name if number == 1 else f"{name}_{number}" for number in range(1, len(known) + 2))
    return next(candidate for candidate in candidates if candidate not in known)


# Checks


class Foreign(BaseModel):
    """The known keys of a foreign document; unknown keys are allowed and stay."""

    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=())
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Keys for people and for other tools, which nobody expects to do anything here."""


def _version(text: str) -> str:
    if not SEMVER.fullmatch(text):
        raise PydanticCustomError("version", 'a version such as "2.0.0"')
    return text


def _ref_name(text: str) -> str:
    if not part(text):
        raise PydanticCustomError("name", "a name with a letter or digit")
    return text


def _uuid(text: str) -> str:
    try:
        UUID(text)
    except ValueError:
        raise PydanticCustomError("uuid", "a uuid: 32 hexadecimal digits in five groups") from None
    return text


Version = Annotated[str, AfterValidator(_version)]
RefName = Annotated[str, AfterValidator(_ref_name)]
Identifier = Annotated[str, AfterValidator(_uuid)]


def problems(model: type[Foreign], value: object, at: str = "") -> list[Problem]:
    """Everything in a value that does not fit; the description of a field is the remedy."""
    try:
        model.model_validate_json(json.dumps(value))
    except ValidationError as wrong:
        return [_at(problem, model, at) for problem in checking.explain(wrong, lambda _: ())]
    return []


def _at(problem: Problem, model: type[Foreign], at: str) -> Problem:
    top = model.model_fields.get(re.split(r"[.\[]", problem.path)[0])
    path = problem.path if not at else at if problem.path == "document" else f"{at}.{problem.path}"
    expected = problem.expected.removeprefix("input should be ")
    return replace(problem, path=path, expected=expected, remedy=(top and top.description) or "")


def unkept_tools(value: Json, at: str = "") -> Iterator[Problem]:
    """Tools of a foreign document: a playbook has none of its own."""
    if value.get("tools"):
        remedy = "Name them under tools in seedbed.yaml, and what they may do under rules."
        yield Problem(f"{at}.tools" if at else "tools", "tools", "none: a playbook has no tools", remedy)


def unknown_keys(model: type[Foreign], value: Json, at: str = "") -> Iterator[Problem]:
    """Keys that the format does not have: they come back in an export, and do nothing here."""
    known = list(model.model_fields)
    for place in unknown_values(model, value, at):
        remedy = plugins.suggestion(place.rpartition(".")[2], known) or "It is kept under meta and does nothing here."
        yield Problem(place, "an unknown key", f"one of: {', '.join(known)}", remedy)


def unknown_values(model: type[Foreign], value: Json, at: str = "") -> Json:
    """The values under keys that the format does not have, by their places."""
    known = model.model_fields.keys() | model.ignored | {"tools"}
    unknown = [key for key in value if key not in known and not key.endswith("_model")]
    return {f"{at}.{key}" if at else key: value[key] for key in unknown}


def refuse(problems: list[Problem], source: str) -> None:
    """Raise PlaybookError if there are problems."""
    if problems:
        raise PlaybookError(problems, source)


def refuse_loss(playbook: Playbook, again: Playbook, format_name: str) -> None:
    """Raise PlaybookError with everything in a playbook that is missing when its export is read again.

    A parameter may gain bounds and rules may gain `otherwise`: formats without them imply them.
    """
    remedy = "Keep it as a seedbed playbook, which says everything, or remove this first."
    refuse(
        [
            Problem(each.path, shown(each.before), f"what a {format_name} can say", remedy)
            for each in diff(playbook, again)
            if each.before is not None or not each.path.startswith(("parameters.", "rules.otherwise"))
        ],
        "",
    )
