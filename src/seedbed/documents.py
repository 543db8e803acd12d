"""YAML and JSON text to plain values and back, without loss and without surprises.

Both languages give the same values: `no`, `on` and dates are text, as in YAML 1.2. Duplicate keys,
runaway aliases, endless nesting and oversized files are errors that say where they are.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import yaml

from seedbed.errors import DocumentError, Problem, shown

MAX_BYTES = 5_000_000
MAX_DEPTH = 60
MAX_VALUES = 500_000
LONGEST_CELL = 300
PLAIN_TEXTS = (".txt", ".md")

_SCALARS = {
    "null": re.compile(r"^(?:~|null|Null|NULL|)$"),
    "bool": re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
    "int": re.compile(r"^[-+]?[0-9]+$"),
    "float": re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
}


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its value, and the line on which each path of it starts."""

    value: Any
    source: str
    lines: dict[str, int] = field(default_factory=dict)


def file_path(path: object, what: str, error: type[DocumentError]) -> Path:
    """A path as people give it, as a text or a Path. Raises `error` for anything else."""
    if not isinstance(path, str | Path):
        raise error([Problem("path", shown(path), f"the path of {what}", "Give its name as a text, or a Path.")])
    return Path(path)


def read(path: Path | str, error: type[DocumentError]) -> Document:
    """Parse a YAML or JSON file; a plain text is a mapping with it under `text`.

    Raises `error` with what is wrong and how to correct it.
    """
    path = file_path(path, "a YAML or JSON file", error)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            _refuse(
                error, str(path), "file", f"{size:,} bytes", f"at most {MAX_BYTES:,}", "Keep long texts in a corpus."
            )
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        _refuse(error, str(path), "file", "nothing there", "a YAML or JSON file", "Check the path.")
    except UnicodeDecodeError as wrong:
        _refuse(error, str(path), f"byte {wrong.start}", "a byte that is not UTF-8", "UTF-8 text", "Save it as UTF-8.")
    except OSError as wrong:
        _refuse(error, str(path), "file", wrong.strerror or "an unreadable file", "a readable file")
    if path.suffix in PLAIN_TEXTS:
        return Document({"text": text}, str(path))
    return parse(text, str(path), error, as_json=path.suffix == ".json")


def parse(text: str, source: str, error: type[DocumentError], *, as_json: bool = False) -> Document:
    if len(text) > MAX_BYTES:
        _refuse(error, source, "text", f"{len(text):,} characters", f"at most {MAX_BYTES:,}")
    return _parse_json(text, source, error) if as_json else _parse_yaml(text, source, error)


def to_yaml(value: object) -> str:
    """YAML that reads back as the same value; texts of several lines stay readable."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100)


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def html_table(title: str, rows: Iterable[Sequence[object]], heads: Sequence[str] = (), note: str = "") -> str:
    """A small table for a notebook, as an HTML fragment. Cells are plain text, and long ones are cut."""
    left = ' style="text-align:left;vertical-align:top"'

    def line(tag: str, cells: Iterable[object]) -> str:
        return f"<tr>{''.join(f'<{tag}{left}>{html.escape(_cut(str(cell)))}</{tag}>' for cell in cells)}</tr>"

    caption = f'<caption style="text-align:left"><b>{html.escape(title)}</b></caption>'
    top = f"<thead>{line('th', heads)}</thead>" if heads else ""
    body = f"<tbody>{''.join(line('td', row) for row in rows)}</tbody>"
    below = f"<p><small>{html.escape(note)}</small></p>" if note else ""
    return f"<div><table>{caption}{top}{body}</table>{below}</div>"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"


def _refuse(
    error: type[DocumentError], source: str, path: str, found: str, expected: str, remedy: str = ""
) -> NoReturn:
    raise error([Problem(path, found, expected, remedy)], source)


# JSON


def _parse_json(text: str, source: str, error: type[DocumentError]) -> Document:
    doubled: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(items)
        if len(value) < len(items):
            names = [name for name, _ in items]
            doubled.extend(sorted({name for name in names if names.count(name) > 1}))
        return value

    def constant(name: str) -> NoReturn:
        _refuse(error, source, "number", name, "a finite number", "JSON has no other.")

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as wrong:
        _refuse(error, source, f"line {wrong.lineno}, column {wrong.colno}", wrong.msg.lower(), "valid JSON")
    except RecursionError:
        _refuse(error, source, "text", "endless nesting", f"at most {MAX_DEPTH} levels")
    if doubled:
        raise error(
            [Problem(name, "the same key twice", "each key once", "Remove one of them.") for name in doubled], source
        )
    return Document(value, source)


# YAML


class _Loader(yaml.CSafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - replaces PyYAML's class attribute


class _Dumper(yaml.SafeDumper):
    """Quotes every text that this module or a YAML 1.1 reader would read as something else."""

    def ignore_aliases(self, data: object) -> bool:
        return True


for _tag, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, None)
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, None)


_ODD = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_UNFIT_FOR_BLOCK = re.compile(r"^\s|\s$|[ \xa0]\n")


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML's single quotes lose NEL and the like, and its blocks lose outer spaces; double quotes lose nothing.
    if _ODD.search(text):
        style = '"'
    elif "\n" in text:
        style = '"' if _UNFIT_FOR_BLOCK.search(text) else "|"
    else:
        style = None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_float(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", repr(value))


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)


def _parse_yaml(text: str, source: str, error: type[DocumentError]) -> Document:
    try:
        _check_depth(text, source, error)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark or wrong.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "text"
        said = (wrong.problem or wrong.context or "something unreadable").removeprefix("found ")
        _refuse(error, source, where, said, "valid YAML")
    except yaml.YAMLError as wrong:
        _refuse(error, source, "text", " ".join(str(wrong).split()), "valid YAML")
    reader = _Reader(source, error)
    value = reader.value(node, "") if node is not None else None
    if reader.problems:
        raise error(reader.problems, source)
    return Document(value, source, reader.lines)


def _check_depth(text: str, source: str, error: type[DocumentError]) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                mark = event.start_mark
                where = f"line {mark.line + 1}" if mark else "text"
                _refuse(error, source, where, f"more than {MAX_DEPTH} levels of nesting", "fewer")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Reader:
    """Turns composed nodes into values, and counts them, so that aliases cannot multiply without end."""

    def __init__(self, source: str, error: type[DocumentError]) -> None:
        self.source = source
        self.error = error
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self._count = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node, path: str) -> Any:
        self._count += 1
        line = node.start_mark.line + 1
        if self._count > MAX_VALUES:
            remedy = "Aliases that repeat aliases grow without end; write the value out."
            _refuse(self.error, self.source, f"line {line}", f"over {MAX_VALUES:,} values", "fewer", remedy)
        if id(node) in self._open:
            _refuse(self.error, self.source, f"line {line}", "an alias inside its own anchor", "a finite value")
        self.lines.setdefault(path, line)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
            return dict(self._items(node, path))
        finally:
            self._open.discard(id(node))

    def _items(self, node: yaml.Node, path: str) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(f"line {line}", "a key that is not text", "a plain word"))
                continue
            name = str(key.value)
            inner = f"{path}.{name}" if path else name
            if name in seen:
                twice = f"the same key on lines {seen[name]} and {line}"
                self.problems.append(Problem(inner, twice, "each key once", "Remove one of them."))
            seen[name] = line
            yield name, self.value(item, inner)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        text = str(node.value)
        match node.tag.removeprefix("tag:yaml.org,2002:"):
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" if len(text) < 400:
                return int(text)
            case "float" if _SCALARS["float"].match(text) and abs(float(text)) != float("inf"):
                return float(text)
        line = f"{path or 'document'} (line {node.start_mark.line + 1})"
        self.problems.append(Problem(line, f"{shown(text)} tagged {node.tag}", "text, a number, true, false or null"))
        return None


_UNITS = ("second", "minute", "hour", "day", "week")
A_TIME = "a time such as 30 minutes, 12 hours, 7 days or 1 week"


def duration(written: object) -> timedelta | None:
    """A time as people write it, such as 12 hours; None for anything else."""
    match = re.fullmatch(rf"(\d+(?:\.\d+)?) ({'|'.join(_UNITS)})s?", written) if isinstance(written, str) else None
    try:
        return timedelta(**{f"{match[2]}s": float(match[1])}) if match else None
    except OverflowError:
        return None
