"""Prompt profiles: instructions for each role, for one corpus and one type of task.

They become the debate that they describe: `num_workers` workers answer together and a reviewer replies, for at most
`max_debate_rounds` or until they agree by `consensus_threshold`; the orchestrator decides, and the summarizer sums up.
A role that is missing has no step, and one role alone needs none. The prompts of the steps are locked: the role prompts
evolve, as those are what a profile can say. A playbook imported before this has the three settings as parameters.

Ids, names and the corpus become refs; scores and the parent profile become facts. Role prompts are under
`role_prompts`, `roles` or `profile`, or at the top level: every mapping there with a `system_prompt` (or
`prompt_text`).
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Annotated, Any
from uuid import NAMESPACE_OID, uuid5

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from seedbed.errors import Problem
from seedbed.playbooks import warnings
from seedbed.playbooks.conditions import MOST_ROUNDS, Until
from seedbed.playbooks.formats import imports
from seedbed.playbooks.formats.imports import Foreign, Identifier, Import, Note, Original, RefName, part
from seedbed.playbooks.library import SEMVER
from seedbed.playbooks.playbook import Playbook, Step
from seedbed.playbooks.values import is_number
from seedbed.storage.store import Json

FORMAT = "profile"
TASK_TYPE = "qa"
"""The type of task of a profile that names none."""
ROLES = ("worker", "reviewer", "orchestrator", "summarizer")
TEXTS = ("system_prompt", "prompt_text")
SETTINGS = ("model", "temperature", "max_tokens")
SCORES = ("scores", "metrics", "performance", "performance_stats")
PARAMETERS: dict[str, Json] = {
    "max_debate_rounds": {"low": 1, "whole": True},
    "num_workers": {"low": 1, "whole": True},
    "consensus_threshold": {"low": 0, "high": 1},
}
"""The settings of a debate as the parameters of earlier imports."""
USUAL = {"max_debate_rounds": Until().at_most, "num_workers": 1}
MOST_WORKERS = 20

ANSWER = 'End with a line that begins with "Answer:".'
"""Answers are compared by this line, and so rounds end when workers and reviewer come to the same."""
PROMPTS = {
    "work": f"{{question}}\n{ANSWER}",
    "review": f"Question: {{question}}\nSay what is wrong or missing in each answer, and which you accept. {ANSWER}",
    "decision": f"Decide by these answers and their review: {{question}}\n{ANSWER}",
    "summary": "Answer in a few sentences, as it was decided: {question}",
}


class RolePrompt(Foreign):
    system_prompt: str | None = None
    prompt_text: str | None = None
    model: str | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None


def _version_label(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not part(str(value)):
        raise PydanticCustomError("label", "text or a number")
    return value


VersionLabel = Annotated[Any, AfterValidator(_version_label)]
_UUID = "Profiles are identified by UUIDs."


class Profile(Foreign):
    profile_id: Identifier | None = Field(default=None, description=_UUID)
    id: Identifier | None = Field(default=None, description=_UUID)
    parent_profile_id: Identifier | None = Field(default=None, description=_UUID)
    base_profile_id: Identifier | None = Field(default=None, description=_UUID)
    name: RefName | None = Field(default=None, description="Give the name as text in quotes.")
    version: VersionLabel | None = Field(default=None, description='Give the version as text, such as "1.2".')
    corpus_id: RefName | None = Field(default=None, description="Name the corpus it was written for.")
    task_type: RefName | None = Field(default=None, description="Name the type of task, such as qa.")
    metadata: dict[str, Any] | None = None
    scores: dict[str, float | None] | None = Field(default=None, description="Give each metric one number.")
    metrics: dict[str, Any] | None = None
    performance: dict[str, Any] | None = None
    performance_stats: dict[str, Any] | None = None


class Debate(Foreign):
    max_debate_rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] | None = None
    num_workers: Annotated[int, Field(ge=1, le=MOST_WORKERS)] | None = None
    consensus_threshold: Annotated[float, Field(ge=0, le=1)] | None = None


class ProfileFile(Profile, Debate):
    """The usual shape of a file, for editors."""

    worker: RolePrompt | None = None
    reviewer: RolePrompt | None = None
    orchestrator: RolePrompt | None = None
    summarizer: RolePrompt | None = None


def likeness(document: Json) -> int:
    signs = {"profile_id", "parent_profile_id", "base_profile_id", "corpus_id", "task_type", "role_prompts"}
    home, _ = _home(document)
    return len(signs & document.keys()) + sum(_is_role(value) for value in home.values())


def _home(document: Json) -> tuple[Json, str]:
    """The mapping with the role prompts, and its path."""
    inner = document.get("profile")
    home, path = (inner, "profile.") if isinstance(inner, dict) else (document, "")
    for section in ("role_prompts", "roles"):
        if isinstance(home.get(section), dict):
            return home[section], f"{path}{section}."
    return home, path


def _role_names(document: Json) -> list[str]:
    home, path = _home(document)
    if path.endswith(("role_prompts.", "roles.")):
        return list(home)
    return [name for name, value in home.items() if name in ROLES or _is_role(value)]


def _is_role(value: object) -> bool:
    return isinstance(value, dict) and any(key in value for key in TEXTS)


def _debate(document: Json) -> Json:
    """The mapping with the settings of a debate."""
    inner = document.get("profile")
    return inner if isinstance(inner, dict) else document


# In and out


def read(original: Original) -> Import:
    document = original.document
    home, path = _home(document)
    names = _role_names(document)
    problems = [*imports.problems(Profile, document), *imports.problems(Debate, _debate(document))]
    for name in names:
        wrong = imports.problems(RolePrompt, home[name], f"{path}{name}")
        if not wrong and home[name].get(_text_key(home[name])) is None:
            wrong = [Problem(f"{path}{name}", "no instructions", f"text under {' or '.join(TEXTS)}")]
        problems += wrong
    if not names:
        remedy = "Give each role a mapping with system_prompt, temperature and max_tokens."
        problems.append(Problem("document", "no role prompts", f"some for {', '.join(ROLES)} or others", remedy))
    imports.refuse(problems, original.source)
    roles = {name: _role(home[name]) for name in names}
    playbook = Playbook.from_document({"roles": roles, **_dialogue(_debate(document), names)}, source=original.source)
    refs = dict.fromkeys(_refs(document), playbook.digest)
    texts = [(f"{path}{name}.{_text_key(home[name])}", home[name][_text_key(home[name])]) for name in names]
    tools = [imports.unkept_tools(document), *(imports.unkept_tools(home[name], f"{path}{name}") for name in names)]
    unclear = (*warnings.literal_placeholders(texts), *_silent(names, path), *chain.from_iterable(tools))
    return Import(playbook, FORMAT, refs, (*_parents(document), *_scores(document)), warnings=unclear)


def _dialogue(debate: Json, names: Collection[str]) -> Json:
    """The steps of the debate, as far as it has the roles."""
    workers = debate.get("num_workers") or USUAL["num_workers"]
    if not {*names} & {*ROLES} or (len(names) == 1 and workers == 1):
        return {}
    work: list[Json] = []
    if "worker" in names:
        work = [_step(f"work_{number}", "worker", "work", []) for number in range(1, workers + 1)]
    steps: list[Json] = [{"together": work}] if len(work) > 1 else [*work]
    before = [step["name"] for step in work]
    for name, role in (("review", "reviewer"), ("decision", "orchestrator"), ("summary", "summarizer")):
        if role in names:
            steps.append(_step(name, role, name, [*before]))
            before.append(name)
    last = steps[1] if "reviewer" in names and work else work[-1] if len(work) > 1 else None
    at_most, agreement = debate.get("max_debate_rounds"), debate.get("consensus_threshold")
    if last and (at_most, agreement) != (None, None):
        last["until"] = {"back_to": "work_1", "at_most": at_most or USUAL["max_debate_rounds"]}
        last["until"] |= {} if agreement is None else {"agreement": agreement}
    return {"steps": steps, "locked": ["steps.*.prompt"]}


def _step(name: str, role: str, prompt: str, sees: list[str]) -> Json:
    return {"name": name, "role": role, "prompt": PROMPTS[prompt], "sees": sees}


def _silent(names: Collection[str], path: str) -> Iterator[Problem]:
    """Roles that take no part in the debate."""
    for name in names:
        if name not in ROLES and len(names) > 1:
            yield Problem(f"{path}{name}", "a role without a part", f"one of: {', '.join(ROLES)}", "It has no step.")


def _text_key(role: Json) -> str:
    return next((key for key in TEXTS if role.get(key) is not None), TEXTS[0])


def _role(prompt: Json) -> Json:
    settings = {key: prompt[key] for key in SETTINGS if prompt.get(key) is not None}
    return {"system": prompt[_text_key(prompt)], **settings}


def _refs(document: Json) -> Iterator[str]:
    if identifier := document.get("profile_id") or document.get("id"):
        yield f"profiles/{identifier}"
    if corpus := document.get("corpus_id"):
        yield f"corpora/{part(corpus)}/{part(document.get('task_type') or TASK_TYPE)}"
    if name := document.get("name"):
        yield f"branches/{part(name)}"
        version = document.get("version")
        if isinstance(version, str) and SEMVER.fullmatch(version):
            yield f"versions/{part(name)}/{version}"


def _parents(document: Json) -> Iterator[Note]:
    parent = document.get("parent_profile_id") or document.get("base_profile_id")
    if parent:
        yield Note("parent", f"{_owner(document)}/{parent}", {"ref": f"profiles/{parent}"})


def _owner(document: Json) -> str:
    return next(_refs(document), "profile")


def _scores(document: Json) -> Iterator[Note]:
    """One fact for each number in the sections with scores; a new number is a new fact. Where several sections name a
    metric, the first one counts."""
    named: set[str] = set()
    for section in SCORES:
        for metric, value in (document.get(section) or {}).items():
            if is_number(value) and metric not in named:
                body = {"metric": metric, "value": value}
                yield Note("score", f"{_owner(document)}/{metric}/{value!r}", body)
        named |= {*(document.get(section) or {})}


def write(playbook: Playbook, original: Original | None, notes: Iterable[Note], refs: Iterable[str]) -> Json:
    document: Json = copy.deepcopy(original.document) if original else {"profile_id": None}
    _rename(document, list(refs))
    if not original and not document["profile_id"]:
        document["profile_id"] = str(uuid5(NAMESPACE_OID, playbook.digest))
    home, _ = _home(document)
    content = playbook.content()
    roles = content.get("roles", {})
    known = _role_names(document)
    for name in known:
        if name not in roles:
            del home[name]
    for name, role in roles.items():
        if name in known or name not in home:
            _write_role(home.setdefault(name, {}), role)
    if roles:
        _write_debate(document, playbook)
    known_notes = {note.key for note in read(original).facts} if original else set()
    for note in notes:
        if note.kind == "version" and note.key == playbook.digest:
            document |= {key: value for key, value in imports.signature(note).items() if key in document}
        if note.kind == "score" and note.key not in known_notes:
            section = next((name for name in SCORES if document.get(name)), SCORES[0])
            document[section] = {**(document.get(section) or {}), note.body["metric"]: note.body["value"]}
    again = read(Original(document)).playbook if roles else Playbook()
    if not playbook.steps:  # as it was imported before profiles had steps
        parameters = {name: {"value": value, **PARAMETERS[name]} for name, value in _settings(document).items()}
        earlier = {"roles": again.content().get("roles", {}), "parameters": parameters}
        again = Playbook.from_document(earlier) if roles or parameters else again
    imports.refuse_loss(playbook, again, FORMAT)
    return document


def _rename(document: Json, refs: list[str]) -> None:
    """Take id, corpus, name and version from the refs; the previous profile becomes the parent."""
    key = "id" if document.get("id") and not document.get("profile_id") else "profile_id"
    identifier = imports.parts(refs, "profiles", 1)
    if identifier and identifier[0] != document.get(key):
        if document.get(key):
            parent = "base_profile_id" if "base_profile_id" in document else "parent_profile_id"
            document[parent] = document[key]
        document[key] = identifier[0]
    if corpus := imports.parts(refs, "corpora", 2):
        document["corpus_id"] = imports.keep_spelling(document.get("corpus_id"), corpus[0])
        if document.get("task_type") is not None or corpus[1] != TASK_TYPE:
            document["task_type"] = imports.keep_spelling(document.get("task_type"), corpus[1])
    if branch := imports.parts(refs, "branches", 1):
        document["name"] = imports.keep_spelling(document.get("name"), branch[0])
    if named := imports.parts(refs, "versions", 2):
        document["name"] = imports.keep_spelling(document.get("name"), named[0])
        document["version"] = named[1]


def _write_role(prompt: Json, role: Json) -> None:
    wanted = {_text_key(prompt): role.get("system", ""), **{name: role.get(name) for name in SETTINGS}}
    for theirs, new in wanted.items():
        if prompt.get(theirs) != new:
            prompt[theirs] = new


def _settings(document: Json) -> Json:
    debate = _debate(document)
    return {name: debate[name] for name in PARAMETERS if debate.get(name) is not None}


def _write_debate(document: Json, playbook: Playbook) -> None:
    """Write what the document does not say yet, by its own reading."""
    wanted: Json = {}
    if playbook.steps:
        says = read(Original(document)).playbook
        if len(_work(says)) != len(_work(playbook)):
            wanted["num_workers"] = len(_work(playbook)) or None
        until, known = (
            next((step.until for step in each.all_steps() if step.until), None) for each in (playbook, says)
        )
        if until and until != known:
            wanted |= {"max_debate_rounds": until.at_most, "consensus_threshold": until.agreement}
    elif playbook.parameters:
        values = {name: parameter["value"] for name, parameter in playbook.content()["parameters"].items()}
        wanted = {name: values.get(name) for name in PARAMETERS}
    debate = _debate(document)
    debate |= {name: new for name, new in wanted.items() if debate.get(name) != new}


def _work(playbook: Playbook) -> list[Step]:
    return [step for step in playbook.all_steps() if step.name.startswith("work_")]
