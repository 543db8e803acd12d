"""The shape of the source: sizes, names and paths that a reader of the code meets.

python benchmarks/shape.py                           # this checkout
python benchmarks/shape.py --against ../seedbed-old  # before and after, side by side
python benchmarks/shape.py --list                    # also every function, name and call that was counted
python benchmarks/shape.py --root DIR --json         # another checkout, for a script

Everything but the last figure is read from the syntax trees, so some figures are approximations:

- A parameter counts unless it is `self` or `cls`; `*args` and `**kwargs` count as one each.
- An import inside a function counts where it stands, also in a nested function. The first figure is for modules of
  seedbed, the second for other packages. Imports under `if TYPE_CHECKING:` count nowhere.
- A type is a class, or a type alias of a module (`X: TypeAlias = …`, or `X = A[…]`, `X = A | B` with a capital letter);
  type variables are left out.
- A catch-all name counts once for each place that binds it (assignment, parameter, field, function, class, import), not
  where it is used. `found` beside `expected` is no catch-all: errors say what they found and expected.
- An untyped `**dict` call is `f(**x)` where x is a name that is annotated as Any, Json, dict or a mapping to Any, or a
  local variable without annotation that is assigned a dictionary (a literal, a comprehension or `dict(…)`). What other
  expressions hold is not looked into. A function that passes on its own `**kwargs` does not count.
- Fan-out is the number of modules of seedbed that a module imports, at the top or inside functions.

Hops are counted live: a `seedbed run` with a scripted model in a temporary folder, and at the moment when the model is
called all functions of seedbed that are waiting for it, from the entry point of the command line on. Where one task
waits for another, those that created it count too.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import importlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parents[1]
WIDTH = 100

LONG_MODULE, LONG_FUNCTION, MANY_PARAMETERS = 400, 60, 7
CATCH_ALLS = {"told", "given", "asked", "kept", "found", "heard", "done_with"}
UNTYPED = {"Any", "Json", "dict"} | {
    f"{mapping}[str, Any]" for mapping in ("dict", "Dict", "Mapping", "MutableMapping")
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Package:
    """How large a package is. Its `__init__.py` has lines and is no module of its own."""

    modules: int = 0
    """Directly in it."""
    modules_below: int = 0
    """In it and in all its sub-packages."""
    lines: int = 0
    """In it and in all its sub-packages."""


@dataclass
class Shape:
    """What is measured in one checkout. Places are `module:line` and what stands there."""

    packages: dict[str, Package] = field(default_factory=dict)
    long_modules: list[str] = field(default_factory=list)
    long_functions: list[str] = field(default_factory=list)
    many_parameters: list[str] = field(default_factory=list)
    nested_imports: list[str] = field(default_factory=list)
    nested_imports_of_others: list[str] = field(default_factory=list)
    shared_type_names: list[str] = field(default_factory=list)
    catch_all_names: list[str] = field(default_factory=list)
    untyped_calls: list[str] = field(default_factory=list)
    fan_out: dict[str, int] = field(default_factory=dict)
    hops: list[str] = field(default_factory=list)

    def rows(self) -> list[tuple[str, str]]:
        """Names and figures for a table, without those of packages."""
        level = max(self.packages, key=lambda name: self.packages[name].modules)
        importer = max(self.fan_out, key=lambda name: self.fan_out[name])
        whole = self.packages["seedbed"]
        return [
            ("modules", f"{whole.modules_below}"),
            ("lines", f"{whole.lines:,}"),
            ("modules of the largest level", f"{self.packages[level].modules} ({_short(level)})"),
            (f"modules over {LONG_MODULE} lines", f"{len(self.long_modules)}"),
            (f"functions over {LONG_FUNCTION} lines", f"{len(self.long_functions)}"),
            (f"functions with more than {MANY_PARAMETERS} parameters", f"{len(self.many_parameters)}"),
            ("imports of seedbed inside functions", f"{len(self.nested_imports)}"),
            ("imports of other packages inside functions", f"{len(self.nested_imports_of_others)}"),
            ("type names in several modules", f"{len(self.shared_type_names)}"),
            ("catch-all names", f"{len(self.catch_all_names)}"),
            ("untyped ** calls", f"{len(self.untyped_calls)}"),
            ("fan-out of the largest importer", f"{self.fan_out[importer]} ({_short(importer)})"),
            ("hops from main to the model", f"{len(self.hops)}"),
        ]

    def lists(self) -> dict[str, list[str]]:
        return {name: value for name, value in asdict(self).items() if isinstance(value, list)}


# ---------------------------------------------------------------------------------------------------- the source


def read_source(root: Path) -> Shape:
    """The shape of the checkout at `root`, without the hops: nothing is run."""
    source = root / "src"
    shape = Shape()
    modules = {_dotted(path, source): path for path in sorted((source / "seedbed").rglob("*.py"))}
    types: dict[str, list[str]] = defaultdict(list)
    for module, path in modules.items():
        text = path.read_text(encoding="utf-8")
        _add_to_packages(shape, module, path, text.count("\n"))
        reader = _Reader(module, path.name == "__init__.py", set(modules))
        reader.visit(ast.parse(text))
        if text.count("\n") > LONG_MODULE:
            shape.long_modules.append(f"{_short(module)}: {text.count(chr(10))} lines")
        for name in reader.types:
            types[name].append(_short(module))
        shape.long_functions += reader.long_functions
        shape.many_parameters += reader.many_parameters
        shape.nested_imports += reader.nested_imports
        shape.nested_imports_of_others += reader.nested_imports_of_others
        shape.catch_all_names += reader.catch_alls
        shape.untyped_calls += reader.untyped_calls
        shape.fan_out[module] = len(reader.imported - {module})
    shape.shared_type_names = [f"{name}: {', '.join(where)}" for name, where in sorted(types.items()) if len(where) > 1]
    return shape


def _dotted(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _short(module: str) -> str:
    return module.removeprefix("seedbed.")


def _add_to_packages(shape: Shape, module: str, path: Path, lines: int) -> None:
    own = module if path.name == "__init__.py" else module.rpartition(".")[0]
    counts = path.name != "__init__.py"
    shape.packages.setdefault(own, Package()).modules += counts
    while own:
        package = shape.packages.setdefault(own, Package())
        package.modules_below += counts
        package.lines += lines
        own = own.rpartition(".")[0]


class _Reader(ast.NodeVisitor):
    """Reads one module."""

    def __init__(self, module: str, is_package: bool, modules: set[str]) -> None:
        self.types: set[str] = set()
        self.imported: set[str] = set()
        self.long_functions: list[str] = []
        self.many_parameters: list[str] = []
        self.nested_imports: list[str] = []
        self.nested_imports_of_others: list[str] = []
        self.catch_alls: list[str] = []
        self.untyped_calls: list[str] = []
        self._module = module
        self._package = module if is_package else module.rpartition(".")[0]
        self._modules = modules
        self._functions = 0
        """How many functions the visited node is inside of."""
        self._untyped: list[dict[str, bool]] = [{}]
        """For each open scope: names whose type is known, and whether it says as little as Any."""
        self._errors: set[int] = set()
        """Ids of nodes named `found` that stand beside `expected`."""

    def _place(self, node: Any, text: str) -> str:
        return f"{_short(self._module)}:{node.lineno} {text}"

    # imports

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            for each in node.orelse:
                self.visit(each)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self._see_import(node, [alias.name for alias in node.names])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = node.module or ""
        if node.level:
            base = self._package.split(".")
            source = ".".join([*base[: len(base) - node.level + 1], *([source] if source else [])])
        self._see_import(
            node,
            [name if (name := f"{source}.{alias.name}") in self._modules else source for alias in node.names],
        )

    def _see_import(self, node: ast.Import | ast.ImportFrom, sources: list[str]) -> None:
        ours = {source for source in sources if source.partition(".")[0] == "seedbed"}
        self.imported |= ours
        if self._functions:
            (self.nested_imports if ours else self.nested_imports_of_others).append(
                self._place(node, ast.unparse(node))
            )
        for alias in node.names:
            self._bind(node, alias.asname)

    # functions and classes

    def visit_FunctionDef(self, node: Function) -> None:
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        parameters = _parameters(node)
        if lines > LONG_FUNCTION:
            self.long_functions.append(self._place(node, f"{node.name}: {lines} lines"))
        if len(parameters) > MANY_PARAMETERS:
            self.many_parameters.append(self._place(node, f"{node.name}: {len(parameters)} parameters"))
        self._bind(node, node.name)
        names = {parameter.arg for parameter in parameters}
        self._errors |= {id(each) for each in parameters if each.arg == "found" and "expected" in names}
        self._untyped.append(
            {
                each.arg: each is not node.args.kwarg and _is_untyped(each.annotation)
                for each in parameters
                if each.annotation
            }
        )
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1
        self._untyped.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - `ast` looks for this name

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.types.add(node.name)
        self._bind(node, node.name)
        fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
        names = {each.id for each in fields if isinstance(each, ast.Name)}
        self._errors |= {id(each) for each in fields if "expected" in names and isinstance(each, ast.Name)}
        self._untyped.append({})
        self.generic_visit(node)
        self._untyped.pop()

    # names

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                if not self._functions and len(self._untyped) == 1 and _is_alias(target.id, node.value):
                    self.types.add(target.id)
                if _is_dictionary(node.value):
                    self._untyped[-1].setdefault(target.id, True)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name):
            if ast.unparse(node.annotation).endswith("TypeAlias"):
                self.types.add(node.target.id)
            self._untyped[-1][node.target.id] = _is_untyped(node.annotation)
        self.generic_visit(node)

    def visit_TypeAlias(self, node: Any) -> None:  # `type X = …`, of Python 3.12
        self.types.add(node.name.id)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._bind(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store):
            self._bind(node, node.attr)
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        self._bind(node, node.arg)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._bind(node, node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._bind(node, node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._bind(node, node.name)

    def _bind(self, node: Any, name: str | None) -> None:
        if name and name.lstrip("_").lower() in CATCH_ALLS and id(node) not in self._errors:
            self.catch_alls.append(self._place(node, name))

    # calls

    def visit_Call(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg is None and isinstance(keyword.value, ast.Name) and self._says_nothing(keyword.value.id):
                self.untyped_calls.append(self._place(node, f"{ast.unparse(node.func)}(**{keyword.value.id})"))
        self.generic_visit(node)

    def _says_nothing(self, name: str) -> bool:
        return next((scope[name] for scope in reversed(self._untyped) if name in scope), False)


def _parameters(node: Function) -> list[ast.arg]:
    every = node.args
    listed = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
    parameters = [each for each in listed if each is not None]
    return parameters[1:] if parameters and parameters[0].arg in ("self", "cls") else parameters


def _is_untyped(annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    text = ast.unparse(annotation).strip("'\"").removesuffix(" | None")
    return text in UNTYPED


def _is_dictionary(value: ast.expr) -> bool:
    called = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict"
    return called or isinstance(value, ast.Dict | ast.DictComp)


def _is_alias(name: str, value: ast.expr) -> bool:
    union = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
    subscript = isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name | ast.Attribute)
    capital = name.lstrip("_")[:1].isupper() and not name.isupper()
    return capital and (union or subscript)


# ---------------------------------------------------------------------------------------------------- a live run

WORKSPACE = """\
store: sqlite:///seedbed.db
models:
  fast: {use: scripted, args: {replies: {".": "yes"}}}
"""
PLAYBOOK = """\
roles:
  writer: {model: fast, system: "Answer with yes or no."}
"""


def hops(root: Path) -> list[str]:
    """The functions of seedbed between the entry point and the model, outermost first: by another process."""
    with tempfile.TemporaryDirectory(prefix="seedbed-shape-") as folder:
        Path(folder, "seedbed.yaml").write_text(WORKSPACE)
        Path(folder, "yes.yaml").write_text(PLAYBOOK)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SEEDBED_")}
        performed = subprocess.run(
            [sys.executable, __file__, "--trace-run", "--root", str(root.resolve())],
            cwd=folder,
            env=inherited,
            capture_output=True,
            text=True,
            check=False,
        )
        if performed.returncode:
            raise SystemExit(f"seedbed run failed in {root}:\n{performed.stdout}{performed.stderr}")
        names: list[str] = json.loads(Path(folder, "hops.json").read_text())
        return names


def _trace_run(root: Path) -> None:
    """Perform `seedbed run` in this process and write who waited for the model into hops.json."""
    source = str(root / "src")
    sys.path.insert(0, source)
    created: dict[asyncio.Task[Any], tuple[list[FrameType], asyncio.Task[Any] | None]] = {}
    hops: list[FrameType] = []

    create_task = asyncio.BaseEventLoop.create_task

    def creating(loop: asyncio.BaseEventLoop, *arguments: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = create_task(loop, *arguments, **options)
        created[task] = (list(_waiting(sys._getframe(1), source)), _current_task())
        return task

    def see(frame: FrameType, event: str, argument: Any) -> None:
        model_called = event == "call" and frame.f_code.co_name in ("_agenerate", "_astream", "_generate", "_stream")
        if hops or not model_called or not frame.f_code.co_filename.startswith(source):
            return
        chain = list(_waiting(frame, source))
        task = _current_task()
        while task in created:
            waiting, task = created[task]
            chain += [each for each in waiting if each not in chain]
        hops.extend(reversed(chain))

    asyncio.BaseEventLoop.create_task = creating  # type: ignore[method-assign,assignment]
    with (root / "pyproject.toml").open("rb") as file:
        entry = tomllib.load(file)["project"]["scripts"]["seedbed"]
    module, _, function = entry.partition(":")
    start = getattr(importlib.import_module(module), function)
    sys.argv = ["seedbed", "run", "yes.yaml", "question=Is it so?"]
    sys.setprofile(see)
    try:
        start()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    if not any(frame.f_code is start.__code__ for frame in hops):
        raise SystemExit(f"the model was not reached from {entry}: {[frame.f_code.co_name for frame in hops]}")
    names = [f"{_dotted(Path(each.f_code.co_filename), root / 'src')}.{each.f_code.co_qualname}" for each in hops]
    Path("hops.json").write_text(json.dumps([_short(name) for name in names]))


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs yet
        return None


def _waiting(frame: FrameType | None, source: str) -> Iterator[FrameType]:
    """The functions of `source` that wait for `frame`, innermost first; comprehensions are part of theirs."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(source) and not code.co_name.startswith(
            ("<listcomp", "<genexpr", "<dictcomp", "<setcomp")
        ):
            yield frame
        frame = frame.f_back


# ---------------------------------------------------------------------------------------------------- the table


def table(shapes: list[Shape]) -> str:
    """Packages, then figures; a column for each of one or two shapes."""
    heads = ["before", "after"] if len(shapes) > 1 else ["now"]
    names = sorted({name for shape in shapes for name in shape.packages})
    rows = [["package", *(f"{head}: modules · in all · lines" for head in heads)]]
    for name in names:
        cells = [shape.packages.get(name) for shape in shapes]
        rows.append(
            [
                _short(name),
                *("—" if each is None else f"{each.modules} · {each.modules_below} · {each.lines:,}" for each in cells),
            ]
        )
    figures = [["figure", *heads]]
    figures += [
        [each[0][0], *(figure for _, figure in each)] for each in zip(*(shape.rows() for shape in shapes), strict=True)
    ]
    return f"{_aligned(rows)}\n\n{_aligned(figures)}"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "   ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))])
        for first, *rest in rows
    ]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def listing(shape: Shape) -> Iterator[str]:
    for name, places in shape.lists().items():
        if places:
            yield f"\n{name.replace('_', ' ')}: {len(places)}"
            for place in places:
                yield textwrap.fill(place, WIDTH, initial_indent="  ", subsequent_indent="      ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=HERE, metavar="DIR", help="the checkout to measure; default: this")
    parser.add_argument("--against", type=Path, metavar="DIR", help="an older checkout, to show before and after")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", action="store_true", help="also list all that was counted in the newer checkout")
    parser.add_argument("--trace-run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trace_run:
        _trace_run(options.root)
        return
    shapes = [replace(read_source(root), hops=hops(root)) for root in (options.against, options.root) if root]
    if options.json:
        documents = [asdict(shape) | {"figures": dict(shape.rows())} for shape in shapes]
        print(
            json.dumps(
                dict(zip(["before", "after"], documents, strict=True)) if options.against else documents[0], indent=2
            )
        )
        return
    print(table(shapes))
    if options.list:
        print(*listing(shapes[-1]), sep="\n")


if __name__ == "__main__":
    main()
