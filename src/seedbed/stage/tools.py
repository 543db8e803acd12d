"""Tool: a typed function that a program may call; it reads the world, changes it, or sends something out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError, validate_call

from seedbed.errors import InDoubt, PlaybookError, Problem, RunError, SettingsError, expect_function, expect_type, shown
from seedbed.playbooks.steps.tool_use import ToolText
from seedbed.redaction import redacted
from seedbed.storage.store import Json

Effect: TypeAlias = Literal["reads", "changes", "sends"]
"""What a tool does to the world. One that `sends` changes nothing but lets something out, as fetching a page does: it
is treated like one that `changes`."""

TIMEOUT_SECONDS = 60.0

KEY = "idempotency_key"
"""A parameter that a tool may declare: it receives a key of its own for each call, the same if a run is resumed."""

_CUT_OFF = {"ConnectionError", "IncompleteRead", "ProtocolError", "ReadError", "RemoteProtocolError", "WriteError"}
_NOT_CONNECTED = {"ConnectionRefusedError", "ConnectError", "NewConnectionError", "gaierror"}
"""Kinds of errors by name, for every HTTP library has its own."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function with a name. Unless its effect is `reads` it needs permission, never runs in a replay, and acts on the
    world in live runs only.

    In evaluations and searches something else acts: `simulated`, a function with the same arguments, or what `sandbox`
    makes for each run, by the tool's name. A sandbox is a function that returns an object or a mapping, or a context
    manager of one, sync or async, which is left when the run ends.
    """

    name: str
    function: Callable[..., Any]
    effect: Effect = "changes"
    about: str = ""
    timeout_seconds: float | None = TIMEOUT_SECONDS
    """None leaves the limit to the function."""
    simulated: Callable[..., Any] | None = None
    sandbox: Callable[[], Any] | None = None
    acts: Literal["really", "simulated", "sandbox"] = "really"
    """What the function is: the tool's own, or what acts in its place."""
    takes_key: bool = False
    """Whether the function has the parameter `idempotency_key`."""
    schema: Json | None = field(default=None, compare=False)
    """The JSON Schema of its arguments, if it does not follow from the function."""

    def __post_init__(self) -> None:
        expect_type(self.name, str, "name", "the name of a tool")
        expect_function(self.function, "tool", self.name)
        if self.effect not in get_args(Effect):
            expected = f"one of: {', '.join(get_args(Effect))}"
            raise SettingsError([Problem(f"tool {self.name}: effect", shown(self.effect), expected)])
        if self.simulated and self.sandbox:
            raise SettingsError([Problem(f"tool {self.name}", "both simulated and sandbox", "one of them")])

    @property
    def changes(self) -> bool:
        """Whether it acts on the world beyond reading it."""
        return self.effect != "reads"

    @property
    def parameters(self) -> Json:
        """The JSON Schema of the arguments that a model may give."""
        schema = _schema_of(self.function) if self.schema is None else self.schema
        named = {name: about for name, about in (schema.get("properties") or {}).items() if name != KEY}
        plain = {name: value for name, value in schema.items() if name not in ("title", "required", "properties")}
        required = [name for name in schema.get("required", ()) if name != KEY]
        return {"type": "object", **plain, "properties": named, **({"required": required} if required else {})}

    def with_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, with those that the function adds by itself."""
        try:
            parameters = inspect.signature(self.function).parameters
        except (TypeError, ValueError):  # a function without a signature
            return dict(arguments)
        defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}
        return {**defaults, **arguments}

    def with_key(self, arguments: dict[str, Any], key: str) -> dict[str, Any]:
        """The arguments of a call with its idempotency key, if the function takes one. Raises RunError."""
        if not self.takes_key:
            return arguments
        if KEY in arguments:
            raise RunError(f"tool {self.name}: found {KEY} as an argument; expected none: each call is given its own")
        return {**arguments, KEY: key}

    async def use(self, arguments: dict[str, Any]) -> Any:
        """The function's result. Raises RunError if the arguments do not fit, or if it fails; InDoubt if it does not
        answer, be it that it takes too long or that a connection breaks: it may have done its work."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                if inspect.iscoroutinefunction(inspect.unwrap(self.function)):
                    return await self.function(**arguments)
                return await asyncio.to_thread(self.function, **arguments)
        except TimeoutError:
            limit = "its own limit" if self.timeout_seconds is None else f"at most {self.timeout_seconds:g} seconds"
            raise InDoubt(f"tool {self.name}: found no answer in time; expected one within {limit}") from None
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise RunError(f"tool {self.name}: found arguments that do not fit: {problems}") from None
        except (RunError, SettingsError):  # nothing can simulate it: that is for the person to settle
            raise
        except Exception as error:
            kind = InDoubt if _is_cut_off(error) else RunError
            raise kind(f"tool {self.name} failed: {type(error).__name__}: {shown(str(error), 300)}") from error


def tool(
    function: Callable[..., Any] | None = None,
    *,
    effect: Effect | None = None,
    changes: bool | None = None,
    name: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    simulated: Any = None,
    sandbox: Callable[[], Any] | None = None,
) -> Any:
    """Make a tool of a typed function, as a decorator with or without arguments.

    One that does not declare its effect `changes` the world; `changes=True` and `changes=False` are older words for the
    effects `changes` and `reads`.
    """
    declared = effect or _effect(changes)

    def make(function: Callable[..., Any]) -> Tool:
        expect_function(function, "tool", name)
        about, twin = inspect.getdoc(function) or "", simulated and as_tool(simulated).function
        made = Tool(name or function.__name__, validate_call(function), declared, about, timeout_seconds, twin, sandbox)
        return replace(made, takes_key=takes_key(function))

    return make if function is None else make(function)


def as_tool(each: Any) -> Tool:
    """The tool itself, or the tool that a function or a LangChain tool is."""
    if isinstance(each, Tool):
        return each
    made: Tool = _langchain(each) if hasattr(each, "ainvoke") else tool(each)
    return made


def toolbox(tools: Iterable[Any]) -> dict[str, Tool]:
    """Tools by name: ours, plain functions, and LangChain tools, which may declare their effect in their metadata."""
    box: dict[str, Tool] = {}
    for each in tools:
        made = as_tool(each)
        if made.name in box:
            raise PlaybookError([Problem("tools", f"two tools named {made.name}", "names that differ")])
        box[made.name] = made
    return box


def toolset(tools: Mapping[str, Tool], names: Iterable[str], words: Mapping[str, ToolText]) -> Json:
    """Tools as content: what models are told of them. The words of a playbook replace those that tools come with."""
    return {name: redacted(_described(tools[name], words.get(name))) for name in sorted(names)}


def _described(tool: Tool, words: ToolText | None) -> Json:
    about, parameters = tool.about, tool.parameters
    if words:
        about = words.about or about
        named = {
            name: {**parameters["properties"].get(name, {}), "description": text}
            for name, text in words.arguments.items()
        }
        parameters = {**parameters, "properties": {**parameters["properties"], **named}}
    return {"about": about, "parameters": parameters, "changes": tool.changes}


@lru_cache(maxsize=1_000)
def _schema_of(function: Callable[..., Any]) -> Json:
    """What the type hints of a function say; any arguments where they say nothing that JSON can express."""
    try:
        schema = TypeAdapter(inspect.unwrap(function)).json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, NameError):
        return {}
    for each in schema.get("properties", {}).values():
        each.pop("title", None)
    return schema if schema.get("type") == "object" else {}


def _langchain(original: Any) -> Tool:
    async def use(**arguments: Any) -> Any:
        return await original.ainvoke(arguments)

    about = original.metadata or {}
    effect, twin = about.get("effect") or _effect(about.get("changes")), about.get("simulated")
    schema = original.tool_call_schema
    return Tool(
        original.name,
        use,
        effect,
        original.description,
        simulated=twin and as_tool(twin).function,
        sandbox=about.get("sandbox"),
        takes_key=KEY in original.args,
        schema=schema if isinstance(schema, dict) else schema.model_json_schema(),
    )


def takes_key(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter for the key of the call."""
    try:
        return KEY in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function without a signature
        return False


def _effect(changes: bool | None) -> Effect:
    return "reads" if changes is False else "changes"


def _is_cut_off(error: BaseException) -> bool:
    """Whether an error, or one behind it, leaves open if the work was done."""
    if _NOT_CONNECTED & _kinds(_behind(error, context=False)):
        return False
    kinds = _kinds(_behind(error, context=True))
    return bool(_CUT_OFF & kinds) or any("Timeout" in kind for kind in kinds)


def _behind(error: BaseException, *, context: bool) -> list[BaseException]:
    """An error and those that it names as its reason; with `context`, also those it was raised in the handling of."""
    errors = [error]
    for each in errors:
        named = (each.__cause__, getattr(each, "reason", None), *each.args, each.__context__ if context else None)
        errors += [one for one in named if isinstance(one, BaseException) and all(one is not seen for seen in errors)]
    return errors


def _kinds(errors: Iterable[BaseException]) -> set[str]:
    return {kind.__name__ for error in errors for kind in type(error).__mro__}
