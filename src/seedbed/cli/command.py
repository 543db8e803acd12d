"""How commands are declared: the shared options, and how errors become text and exit codes."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from seedbed.cli import output
from seedbed.cli.output import Column
from seedbed.errors import DocumentError, PlaybookError, Problem, SettingsError
from seedbed.reports.numbers import counted
from seedbed.workspace import Workspace, find_file, open_workspace
from seedbed.workspace.resources import is_in_a_file

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., None])

FILE_HELP = "The workspace file. Default: seedbed.yaml in the current folder or its nearest parent."
SHARED = {
    "workspace": Annotated[Path | None, typer.Option("--workspace", "-w", metavar="FILE", help=FILE_HELP)],
    "dry_run": Annotated[bool, typer.Option("--dry-run", help="Show what would happen without changing anything.")],
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")],
}
METAVARS = {bool: "", int: "N", float: "NUMBER", str: "TEXT"}
"""What stands for an option's value in the help, unless the option says it."""

DEFAULTS = {"workspace": None, "dry_run": False, "as_json": False}


@dataclass(frozen=True)
class Invocation:
    """How a command was called: with which workspace file, whether to change nothing, and how to print."""

    workspace: Path | None = None
    dry_run: bool = False
    as_json: bool = False

    @contextmanager
    def open(self, *, dry_run: bool | None = None, real_tools: bool = False) -> Iterator[Workspace]:
        """The workspace, closed again at the end. In a dry run nothing that happens in it is stored. With `real_tools`
        the person lets tools change the world where they otherwise may not."""
        path = find_file(self.workspace)
        import_beside(path)
        with closing(open_workspace(path, real_tools=real_tools)) as space:
            yield space.dry_run() if (self.dry_run if dry_run is None else dry_run) else space

    @contextmanager
    def open_for_files(self, *names: str) -> Iterator[Workspace]:
        """The workspace, or an empty one in memory where there is none and all the names are files or built in."""
        try:
            find_file(self.workspace)
        except SettingsError:
            if self.workspace or not all(map(is_in_a_file, names)):
                raise
            with closing(open_workspace(store="memory:")) as space:
                yield space
        else:
            with self.open() as space:
                yield space

    def show(self, document: object, *renderables: Any) -> None:
        """Print the result: the document for programs, or what people read."""
        output.show(document, self.as_json, *renderables)

    def list(
        self,
        key: str,
        documents: Sequence[Any],
        columns: Sequence[Column],
        empty: str,
        *,
        rows: Sequence[Any] | None = None,
    ) -> None:
        """Print documents one line each, or as JSON, under a key if there is one.

        `rows` are what the columns read, if that is more than the documents.
        """
        text = output.listing(columns, documents if rows is None else rows) if documents else output.line(empty)
        self.show({key: [*documents]} if key else [*documents], text)

    def say_held_out(self, space: Workspace, tasks: str) -> None:
        """Say on the error stream how many tasks of a dataset are left out because they are held out."""
        held = space.datasets.held_out(tasks)
        if held and not tasks.endswith(":held-out"):
            output.warn(f"{counted(held, 'task')} of {tasks} {'is' if held == 1 else 'are'} held out.")

    def say_warnings(self, warnings: Iterable[Problem], strict: bool, source: str = "") -> None:
        """Say on the error stream what is probably not meant; raise it as PlaybookError if the command is strict."""
        problems = list(warnings)
        if strict and problems:
            raise PlaybookError(problems, source)
        for problem in problems:
            output.warn(f"{source}: {problem}" if source else str(problem))

    def say_written(self, file: Path | None) -> None:
        """Say that a report was written, if one was."""
        if file and not self.as_json:
            output.show(None, False, output.line(("✓ ", "bold green"), f"wrote {file}"))

    def done(self, document: dict[str, Any], text: str) -> None:
        """Print what a command changed, or would have changed."""
        mark = ("dry run: ", "yellow") if self.dry_run else ("✓ ", "bold green")
        self.show({**document, "dry_run": self.dry_run}, output.line(mark, text))


def import_beside(file: Path) -> None:
    """Let code be imported from the folder of the workspace file: programs lie there more often than installed."""
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)


def wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    """Run async work to its end."""
    return asyncio.run(work)


@contextmanager
def going_on(command: Callable[[], str]) -> Iterator[None]:
    """Print the command that continues the work of this block, if Ctrl-C interrupts it."""
    try:
        yield
    except KeyboardInterrupt:
        output.warn(f"To continue: {command()}")
        raise


def command(
    app: typer.Typer,
    name: str | None = None,
    *,
    workspace: bool = True,
    dry_run: bool = False,
    aliases: Mapping[str, str] | None = None,
) -> Callable[[Function], Function]:
    """Declare a command of an app. Its first parameter is the Invocation; one that is a dataclass stands for options.

    Every command takes --json; `workspace` and `dry_run` say which of the other shared options it takes. A
    SettingsError about an option or argument is a wrong call, not a failure, and so is a PlaybookError about an option;
    `aliases` are options whose paths have other names.
    """
    shared = [*(["workspace"] if workspace else []), *(["dry_run"] if dry_run else []), "as_json"]

    def declare(function: Function) -> Function:
        parameters, groups = _parameters(function)
        hints = {**{each.name: _hint(each) for each in parameters}, **(aliases or {})}
        parameters += [_keyword(each, DEFAULTS[each], SHARED[each]) for each in shared]

        def called(**values: Any) -> None:
            call = Invocation(**{each: values.pop(each) for each in shared})
            values |= {
                name: kind(**{each.name: values.pop(each.name) for each in fields(kind)}) for name, kind in groups
            }
            try:
                function(call, **values)
            except DocumentError as wrong:
                path = wrong.problems[0].path.partition(" ")[0] if wrong.problems else ""
                hint = hints.get(path.replace("-", "_"), "")
                is_call = isinstance(wrong, SettingsError) or (isinstance(wrong, PlaybookError) and hint[:1] == "-")
                if wrong.source or not hint or not (is_call or path in (aliases or {})):
                    raise
                text = str(wrong)
                raise typer.BadParameter(
                    text.removeprefix(f"{path}: ") if len(wrong.problems) == 1 else text, param_hint=hint
                ) from wrong

        called.__doc__, called.__name__ = _unwrapped(function.__doc__ or ""), function.__name__
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app.command(name)(called)
        return function

    return declare


def _parameters(function: Callable[..., None]) -> tuple[list[inspect.Parameter], list[tuple[str, Any]]]:
    """The options and arguments of a function, and which of its parameters are groups of them."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: list[tuple[str, Any]] = []
    for each in list(inspect.signature(function).parameters.values())[1:]:
        kind = hints[each.name]
        if is_dataclass(kind):
            inner = get_type_hints(kind, include_extras=True)
            parameters += [
                _keyword(
                    field.name,
                    inspect.Parameter.empty if field.default is MISSING else field.default,
                    inner[field.name],
                )
                for field in fields(kind)
            ]
            groups.append((each.name, kind))
        else:
            parameters.append(_keyword(each.name, each.default, kind))
    return parameters, groups


def _unwrapped(text: str) -> str:
    """Paragraphs as one line each: the terminal wraps them to its own width."""
    return "\n\n".join(" ".join(each.split()) for each in inspect.cleandoc(text).split("\n\n"))


def _hint(parameter: inspect.Parameter) -> str:
    """What people call a parameter: `--max-cost`, or JUDGE for an argument."""
    info = get_args(parameter.annotation)[-1]
    return f"--{parameter.name.replace('_', '-')}" if isinstance(info, OptionInfo) else str(info.metavar)


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    kind, info = get_args(annotation)
    if isinstance(info, OptionInfo) and info.metavar is None:
        info.metavar = next(word for each, word in METAVARS.items() if each in (kind, *get_args(kind)))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
