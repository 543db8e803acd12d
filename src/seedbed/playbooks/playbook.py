"""Playbook, Role, Step, Parameter: frozen, validated, named by the hash of their content.

`Playbook.load` reads a file and `Playbook.from_document` plain values; both report every problem at once, as
PlaybookError. The classes can also be called with values of exactly their types; a wrong type then raises pydantic's
ValidationError.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from seedbed import documents
from seedbed.errors import PlaybookError, Problem, shown
from seedbed.playbooks import checking, loading
from seedbed.playbooks.conditions import Condition, StopRule, Until
from seedbed.playbooks.prompts import placeholders
from seedbed.playbooks.rules import ArgumentTest, Permission, Rules, Taken, rule_text
from seedbed.playbooks.steps.schemas import OUTPUT_SCHEMA, REPAIRS, expand_outputs
from seedbed.playbooks.steps.tool_use import CallLimits, ToolText
from seedbed.playbooks.values import Frozen, Number, ReadOnly, StepName, freeze, thaw, tidy
from seedbed.storage.store import Digest, Json, digest, short

MAX_TEXT = 200_000
CHECKED = object()
"""As the context of a validation: the document was already checked as a whole."""

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
ItemName = Annotated[str, StringConstraints(pattern=r"^[^\W\d][\w-]*$", max_length=100)]
DigestText = Annotated[str, StringConstraints(pattern=r"^b2:[0-9a-f]{64}$")]
Scalar: TypeAlias = bool | Number | Text


class Role(Frozen):
    """One speaker: its instructions, its model, by name or by what it needs, and the tools that it may call."""

    system: Text = ""
    model: Text | None = None
    needs: tuple[ItemName, ...] = ()
    prefer: Text | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: tuple[Text, ...] = ()
    tools: tuple[Text, ...] = ()


class Context(Frozen):
    """How much a step receives of the steps it sees: so many tokens, the most relevant to its prompt, or a summary by a
    role."""

    at_most_tokens: Annotated[int, Field(ge=50)]
    summary: ItemName | None = None


class Opens(Frozen):
    """Starts a dialogue for each item of the list that a step answers, and adds their conclusions to the answer.

    Each dialogue runs this playbook again, or the one with that digest. Its `input` is the item; the other inputs are
    the same. It may open dialogues itself, down to `depth`.
    """

    input: StepName
    playbook: DigestText | None = None
    at_most: Annotated[int, Field(ge=1, le=20)] = 3
    depth: Annotated[int, Field(ge=1, le=5)] = 1


class Step(Frozen):
    """One planned answer: which role, which prompt, and which other earlier steps it sees.

    Its own `needs`, `prefer`, `tools` and limit of cost override those of the role. The step is skipped unless `when`
    holds. Its answer fits the JSON Schema `output`, if there is one, after at most so many turns of `repair`.
    """

    name: StepName
    role: ItemName
    prompt: Text = ""
    sees: tuple[StepName, ...] = ()
    context: Context | None = None
    when: Condition | None = None
    until: Until | None = None
    opens: Opens | None = None
    tools: tuple[Text, ...] | None = None
    calls: CallLimits | None = None
    output: Annotated[dict[str, Any], AfterValidator(freeze), OUTPUT_SCHEMA] | None = None
    repair: Annotated[int, Field(ge=0, le=10)] = REPAIRS
    needs: tuple[ItemName, ...] = ()
    prefer: Text | None = None
    quality: Literal["balanced", "maximum"] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Together(Frozen):
    """Steps that run at the same time and do not see each other."""

    together: tuple[Step, ...] = Field(min_length=1)


def _is_together(item: object) -> str:
    return "together" if isinstance(item, Together) or (isinstance(item, Mapping) and "together" in item) else "step"


StepOrTogether: TypeAlias = Annotated[
    Annotated[Step, Tag("step")] | Annotated[Together, Tag("together")], Discriminator(_is_together)
]


class Demo(Frozen):
    """One worked example: the inputs and the wanted answer."""

    inputs: Annotated[dict[StepName, Text], AfterValidator(ReadOnly)]
    output: Text


class Parameter(Frozen):
    """A value that the agent reads, and how it may change: between `low` and `high`, or among `options`.

    In a file a parameter without bounds may be written as its bare value.
    """

    value: Scalar
    low: Number | None = None
    high: Number | None = None
    options: tuple[Scalar, ...] = ()
    whole: bool = False


class Playbook(Frozen):
    """The immutable document that an agent runs under.

    Two playbooks with the same content have the same digest, whatever file they come from. `meta` is for people; the
    digest does not cover it.
    """

    inputs: tuple[StepName, ...] = ()
    tools: Annotated[dict[ItemName, ToolText], AfterValidator(ReadOnly)] = Field(default_factory=ReadOnly)
    roles: Annotated[dict[ItemName, Role], AfterValidator(ReadOnly)] = Field(default_factory=ReadOnly)
    steps: tuple[StepOrTogether, ...] = ()
    demos: Annotated[dict[StepName, tuple[Demo, ...]], AfterValidator(ReadOnly)] = Field(default_factory=ReadOnly)
    parameters: Annotated[dict[ItemName, Parameter], AfterValidator(ReadOnly)] = Field(default_factory=ReadOnly)
    rules: Rules = Rules()
    locked: tuple[Text, ...] = ()
    program: Annotated[str, StringConstraints(pattern=r"^[\w.]+:\w+$")] | None = None
    meta: Annotated[dict[str, Any], AfterValidator(freeze)] = Field(default_factory=ReadOnly)

    @classmethod
    def load(cls, path: Path | str, overrides: Mapping[str, object] | None = None) -> Playbook:
        """Load a YAML or JSON file with the files it extends, and apply the overrides."""
        loaded = loading.load(path, overrides)
        return cls._validate(loaded.document, str(path), loaded.origins, loaded.problems)

    @classmethod
    def from_document(cls, document: object, *, source: str = "", lines: Mapping[str, str] | None = None) -> Playbook:
        """Validate a document. Raises PlaybookError with every problem it has."""
        return cls._validate(document, source, lines or {}, ())

    @classmethod
    def _validate(
        cls, document: object, source: str, lines: Mapping[str, str], known_problems: Iterable[Problem]
    ) -> Playbook:
        playbook: Playbook | None = None
        document, wrong_outputs = expand_outputs(document)
        problems = [*wrong_outputs, *checking.problems(document)]
        try:
            text = json.dumps(_expand_parameters(document), allow_nan=False)
            playbook = cls.model_validate_json(text, context=CHECKED)
        except ValidationError as wrong:
            problems = [*checking.explain(wrong, _known_keys), *problems]
        except (TypeError, ValueError) as wrong:
            problems = [Problem("document", str(wrong), "values that JSON can hold"), *problems]
        problems = [*known_problems, *checking.locate(problems, document, lines)]
        if playbook is None or problems:
            raise PlaybookError(problems, source)
        content = playbook.content()
        playbook.__dict__["digest"] = digest("playbook", content)
        if isinstance(document, dict) and {**document, "meta": None} == {**content, "meta": None}:
            playbook.__dict__["_as_written"] = True
        return playbook

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Self:
        # An empty playbook is not a document, but others are compared with it.
        content = self.content() if info.context is not CHECKED else {}
        if content and (problems := checking.problems(content)):
            raise PlaybookError(problems)
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; an updated one is validated again."""
        if not update:
            return super().model_copy(deep=deep)
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate({**fields, **update})

    @classmethod
    def file_schema(cls) -> Json:
        """The JSON Schema of a playbook file, for editors."""
        return loading.with_extends(cls.model_json_schema())

    def content(self) -> Json:
        """The document that the digest covers: all but `meta`, without fields at their default."""
        content: Json = tidy(self.model_dump(mode="json", exclude_defaults=True, exclude={"meta"}))
        return content

    def document(self) -> Json:
        """The whole playbook as plain values, for `from_document`."""
        return {**self.content(), "meta": thaw(self.meta)} if self.meta else self.content()

    def read_again(self) -> Playbook:
        """The playbook that `from_document` makes of its document. Raises PlaybookError if no document can express it,
        which happens only to one made by calling the class."""
        return self if "_as_written" in self.__dict__ else Playbook.from_document(self.document())

    def to_yaml(self) -> str:
        return documents.to_yaml(self.document())

    def to_json(self) -> str:
        return documents.to_json(self.document())

    @cached_property
    def digest(self) -> Digest:
        return digest("playbook", self.content())

    @property
    def plan(self) -> tuple[tuple[Step, ...], ...]:
        """The steps in groups: groups run one after another, the steps of a group at the same time.

        A playbook with one role and no steps has a single step, named after the role.
        """
        if not self.steps and len(self.roles) == 1:
            (role,) = self.roles
            return ((Step(name=role.replace("-", "_"), role=role),),)
        return tuple(item.together if isinstance(item, Together) else (item,) for item in self.steps)

    def all_steps(self) -> Iterator[Step]:
        for group in self.plan:
            yield from group

    def tools_of(self, step: Step) -> tuple[str, ...]:
        """The names and patterns of the tools of a step: its own, or those of its role."""
        return self.roles[step.role].tools if step.tools is None else step.tools

    @property
    def named_tools(self) -> frozenset[str]:
        """The tools that its steps may call."""
        return frozenset(name for step in self.all_steps() for name in self.tools_of(step))

    @property
    def uses_tools(self) -> bool:
        """Whether its runs may call tools: a program may call any, a dialogue those that it names."""
        return self.program is not None or bool(self.named_tools)

    @property
    def opened(self) -> frozenset[Digest]:
        """The other playbooks that its steps open."""
        return frozenset(step.opens.playbook for step in self.all_steps() if step.opens and step.opens.playbook)

    @cached_property
    def needed_inputs(self) -> frozenset[str]:
        """The task inputs that prompts name."""
        steps = {step.name for step in self.all_steps()}
        texts = [step.prompt for step in self.all_steps()] + [role.system for role in self.roles.values()]
        named = {placeholder.name for text in texts for placeholder in placeholders(text)}
        return frozenset(named - steps) | frozenset(self.inputs)

    def check_inputs(self, inputs: Mapping[str, object]) -> None:
        """Raise PlaybookError with every placeholder that these task inputs do not fill."""
        missing = sorted(self.needed_inputs - inputs.keys())
        if missing:
            got = ", ".join(sorted(inputs)) or "no inputs"
            remedy = "Add it to the task, or write {{name}} where plain text in braces is meant."
            raise PlaybookError([Problem(f"{{{name}}}", got, f"a task input named {name}", remedy) for name in missing])

    def may(
        self,
        action: str,
        confidence: float | None = None,
        arguments: Mapping[str, Any] | None = None,
        *,
        changes: bool = False,
        taken: Taken = (),
    ) -> Permission:
        """Whether the rules permit an action at this confidence. See `Rules.may`."""
        return self.rules.may(action, confidence, self._values(), arguments, changes=changes, taken=taken)

    @property
    def threshold(self) -> float:
        """The confidence below which a `prefer_confirm` action needs confirmation."""
        return self.rules.threshold(self._values())

    @property
    def threshold_parameter(self) -> str | None:
        """The parameter that holds the threshold, if one does and a rule uses it. As a gene it may only rise."""
        name = self.rules.confirm_below
        return name if self.rules.asks_for_confidence and isinstance(name, str) and name in self.parameters else None

    def loosened_by(self, other: Playbook) -> list[Problem]:
        """What `other` would allow that this playbook does not: rules it drops, actions it allows, a lower threshold.

        Only a person may loosen rules.
        """
        return self.rules.with_threshold(self._values()).loosened_by(other.rules.with_threshold(other._values()))

    def _values(self) -> dict[str, object]:
        return {name: parameter.value for name, parameter in self.parameters.items()}

    def parameter(self, name: str) -> bool | float | str:
        """The value of a parameter; whole numbers are int."""
        try:
            parameter = self.parameters[name]
        except KeyError:
            known = ", ".join(self.parameters) or "none"
            raise PlaybookError([Problem(f"parameters.{name}", "nothing", f"one of: {known}")]) from None
        value = parameter.value
        return int(value) if parameter.whole and isinstance(value, float) else value

    def __repr__(self) -> str:
        parts = [f"{len(self.roles)} roles", f"{sum(1 for _ in self.all_steps())} steps"]
        return f"<Playbook {short(self.digest)} {', '.join(parts)}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        roles = [
            (f"role {name}", role.model or ", ".join(role.needs), role.system) for name, role in self.roles.items()
        ]
        steps = [(f"step {step.name}", step.role, step.prompt) for step in self.all_steps() if self.steps]
        values = [(f"parameter {name}", each.value, _bounds(each)) for name, each in self.parameters.items()]
        rules = [(place.partition("[")[0], "", rule_text(rule)) for place, rule in self.rules.all()]
        rows = [*roles, *steps, *values, *rules]
        title = f"Playbook {short(self.digest)}"
        return documents.html_table(title, rows)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Playbook) and self.digest == other.digest


def as_playbook(playbook: Playbook | Path | str) -> Playbook:
    """The playbook itself, or the one in a file. Raises PlaybookError for anything else."""
    if isinstance(playbook, Playbook):
        return playbook
    if not isinstance(playbook, str | Path):
        remedy = "Playbook.load(path) reads one, and space.playbooks.get(name) finds a stored one."
        raise PlaybookError([Problem("playbook", shown(playbook), "a Playbook, or the path of one", remedy)])
    return Playbook.load(playbook)


def _bounds(parameter: Parameter) -> str:
    if parameter.options:
        return f"one of {', '.join(map(str, parameter.options))}"
    if parameter.low is None and parameter.high is None:
        return ""
    return f"{'' if parameter.low is None else parameter.low} to {'' if parameter.high is None else parameter.high}"


def _expand_parameters(document: object) -> object:
    """The document with bare parameters as mappings."""
    if not isinstance(document, Mapping) or not isinstance(parameters := document.get("parameters"), Mapping):
        return document
    full = {name: item if isinstance(item, Mapping) else {"value": item} for name, item in parameters.items()}
    return {**document, "parameters": full}


def _known_keys(location: tuple[int | str, ...]) -> Iterable[str]:
    """The keys that are allowed where pydantic met an unknown one."""
    names = [part for part in location[:-1] if isinstance(part, str)]
    owners: dict[str, type[BaseModel]] = {"roles": Role, "parameters": Parameter, "demos": Demo, "rules": Rules}
    owners["tools"] = ToolText
    owner: type[BaseModel] = Playbook
    if names[:1] == ["rules"] and len(location) > 2:
        return ArgumentTest.model_fields
    if names:
        inner: dict[str, type[BaseModel]] = {"until": Until, "when": Condition, "opens": Opens, "context": Context}
        inner["calls"] = CallLimits
        places = [inner[name] for name in names if name in inner and names[0] == "steps"]
        owner = places[0] if places else owners.get(names[0], Step)
        if owner is Until and names[-1] in ("all", "any"):
            owner = StopRule
    return owner.model_fields
