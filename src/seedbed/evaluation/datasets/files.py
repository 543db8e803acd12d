"""The rows of files of tasks, each with its place: JSON lines, JSON, CSV, TSV, Parquet, Arrow.

A row that cannot be read is returned as the DatasetError that says why, so that reading continues with the next one.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from seedbed import documents, plugins
from seedbed.errors import DatasetError, Problem, shown

LONGEST_LINE = documents.MAX_BYTES
LARGEST_DOCUMENT = 500_000_000
"""Bytes of a JSON document, which is read at once, and of all rows of a compressed file: a few bytes of one can stand
for any number. Plain text is read row by row."""

BATCH_ROWS = 1_024
"""How many rows of a table are decoded at a time."""

FileRow: TypeAlias = tuple[str, Any]
FileKind: TypeAlias = Literal["json", "cells", "table"]
"""JSON objects; texts under headings; values with types under headings."""

KINDS: dict[str, FileKind] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "json"),
    **dict.fromkeys((".csv", ".tsv"), "cells"),
    **dict.fromkeys((".parquet", ".arrow"), "table"),
}
SPLITS = "the splits of a JSON document"
"""The place of the row that has the named splits and is not a task."""


def ending(file: Path) -> str:
    """The kind of file by its name: `.csv` for `a.csv` and for `a.csv.gz`."""
    return Path(file.name.lower().removesuffix(".gz")).suffix


def _packed(file: Path) -> bool:
    return file.suffix.lower() == ".gz"


def read_rows(file: Path, listed: str | None = None) -> tuple[FileKind, Iterator[FileRow]]:
    """The kind of a file and its rows; `listed` names the list within a JSON document."""
    suffix = ending(file)
    if suffix not in KINDS or (KINDS[suffix] == "table" and _packed(file)):
        known = f"{', '.join(KINDS)}; also .gz, except for the last two"
        raise DatasetError([Problem("file", f"the ending {shown(suffix)}", f"one of: {known}")])
    match suffix:
        case ".json":
            numbered = _document(file, listed)
        case ".csv" | ".tsv":
            numbered = _cells(file, "\t" if suffix == ".tsv" else ",")
        case ".parquet" | ".arrow":
            numbered = _table(file)
        case _:
            numbered = _objects(_lines(file))
    return KINDS[suffix], numbered


# Text


def _lines(file: Path) -> Iterator[tuple[int, str | DatasetError]]:
    """Lines with their numbers. A line that is too long or not UTF-8 is an error, never read into memory whole."""
    with gzip.open(file) if _packed(file) else file.open("rb") as stream:
        number = 0
        while raw := stream.readline(LONGEST_LINE + 1):
            number += 1
            if _packed(file) and stream.tell() > LARGEST_DOCUMENT:
                raise _too_large()
            size = len(raw)
            if size > LONGEST_LINE:
                while not raw.endswith(b"\n") and (raw := stream.readline(1 << 20)):
                    size += len(raw)
                yield number, _wrong("line 1", f"{size:,} bytes", f"at most {LONGEST_LINE:,}")
                continue
            if number == 1:
                if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise DatasetError([Problem("file", "UTF-16", "UTF-8 text", "Save it as UTF-8.")])
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            try:
                yield number, raw.decode().replace("\r\n", "\n")
            except UnicodeDecodeError as wrong:
                place = f"line 1, byte {wrong.start + 1}"
                yield number, _wrong(place, "a byte that is not UTF-8", "UTF-8 text", "Save it as UTF-8.")


def _too_large(remedy: str = "Split it, or store it uncompressed.") -> DatasetError:
    return DatasetError([Problem("file", "a larger document", f"at most {LARGEST_DOCUMENT:,} bytes", remedy)])


def _wrong(path: str, actual: str, expected: str, remedy: str = "") -> DatasetError:
    return DatasetError([Problem(path, actual, expected, remedy)])


def _objects(lines: Iterator[tuple[int, str | DatasetError]]) -> Iterator[FileRow]:
    for number, line in lines:
        if isinstance(line, DatasetError) or line.strip():
            yield f"line {number}", line if isinstance(line, DatasetError) else _parsed(line.rstrip("\n"))


def _parsed(text: str) -> Any:
    try:
        return documents.parse(text, "", DatasetError, as_json=True).value
    except DatasetError as wrong:
        return wrong


def _cells(file: Path, delimiter: str) -> Iterator[FileRow]:
    """Records as mappings of heading to text, each with its first line: quoted text may span several lines."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # a document is longer than the usual limit
    read, bad = 0, []

    def fed(lines: Iterator[tuple[int, str | DatasetError]]) -> Iterator[str]:
        nonlocal read
        for read, line in lines:
            if isinstance(line, DatasetError):
                bad.append((f"line {read}", line))
            yield "\n" if isinstance(line, DatasetError) else line

    lines = _lines(file)
    first = next(lines, None)
    if first and isinstance(first[1], str) and "," not in first[1] and ";" in first[1] and delimiter == ",":
        delimiter = ";"  # spreadsheets write it where numbers have a decimal comma
    reader = csv.reader(fed(chain([first] if first else [], lines)), delimiter=delimiter, strict=True)
    heading: list[str] | None = None
    while True:
        begins = read + 1
        try:
            record = next(reader, None)
        except csv.Error as wrong:
            record = []
            bad.append((f"line {begins}", _wrong("line 1", str(wrong), "fields as CSV quotes them")))
        yield from bad
        bad.clear()
        if record is None:
            return
        where = f"line {begins}"
        if heading is None and record:
            heading = [name.strip() for name in record]
            if doubled := sorted({name for name in heading if name and heading.count(name) > 1}):
                yield where, DatasetError([Problem(name, "the same column twice", "each once") for name in doubled])
                return
        elif heading is not None and len(record) not in (0, len(heading)):
            yield where, _wrong("line 1", f"{len(record)} fields", f"{len(heading)}, as in the heading")
        elif heading is not None and record:
            # A column without a name is the row number that pandas writes.
            yield where, {name: text for name, text in zip(heading, record, strict=True) if name}


# JSON


def _document(file: Path, listed: str | None) -> Iterator[FileRow]:
    """The items of a list, or of the list in an object, each with its line; also JSON lines that are named .json."""
    with gzip.open(file) if _packed(file) else file.open("rb") as stream:
        raw = stream.read(LARGEST_DOCUMENT + 1)
    if len(raw) > LARGEST_DOCUMENT:
        raise _too_large("Write one object on each line, as .jsonl.")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as wrong:
        path = f"byte {wrong.start + 1}"
        raise DatasetError([Problem(path, "a byte that is not UTF-8", "UTF-8 text", "Save it as UTF-8.")]) from None
    try:
        scan = _JsonScanner(text)
        if scan.now == "[":
            yield from scan.items()
            scan.finish()
        elif scan.now == "{" and not scan.alone():
            yield from _objects(enumerate(text.split("\n"), 1))
        elif scan.now == "{":
            yield from _within(scan, listed)
        elif scan.now:
            yield "line 1", _wrong("task", shown(text), "a list of tasks, or an object with one")
    except json.JSONDecodeError as wrong:
        yield f"line {wrong.lineno}", _wrong(f"line 1, column {wrong.colno}", wrong.msg.lower(), "valid JSON")
    except RecursionError:
        yield "line 1", _wrong("text", "endless nesting", "a few levels")


def _within(scan: _JsonScanner, listed: str | None) -> Iterator[FileRow]:
    name, splits, lists, complete = listed or "tasks", None, [], False
    for key in scan.entries():
        if scan.now == "[" and key == name:
            complete = True
            yield from scan.items()
        else:
            value = scan.value()
            lists += [key] if isinstance(value, list) else []
            splits = value if key == "splits" else splits
    if not complete:
        remedy = f"Name the list with --rows {lists[0]} (rows={lists[0]!r})." if lists else ""
        yield "line 1", _wrong(name, "no such list", "the list of tasks", remedy)
    elif splits is not None:
        yield SPLITS, splits


_SPACE = re.compile(r"[ \n\r\t]*")


class _JsonScanner:
    """Scans JSON text and counts its lines."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.counted, self.line = text, 0, 0, 1
        self.decode = json.JSONDecoder().raw_decode
        self._skip()

    @property
    def now(self) -> str:
        return self.text[self.at : self.at + 1]

    def alone(self) -> bool:
        """Whether nothing follows the value that begins here."""
        _, end = self.decode(self.text, self.at)
        return not self.text[end:].strip()

    def value(self) -> Any:
        value, self.at = self.decode(self.text, self.at)
        self._skip()
        return value

    def items(self) -> Iterator[FileRow]:
        """The items of the list that begins here. Each is parsed by itself, so that all problems are reported."""
        for _ in self._between("]"):
            self.line += self.text.count("\n", self.counted, self.at)
            self.counted = begins = self.at
            self.value()
            yield f"line {self.line}", _parsed(self.text[begins : self.at])

    def entries(self) -> Iterator[str]:
        """The keys of the object that begins here; the caller reads the value of each."""
        for _ in self._between("}"):
            key = self.value()
            if self.now != ":" or not isinstance(key, str):
                self._fail("expecting a key and ':'")
            self._step()
            yield key

    def _between(self, closing: str) -> Iterator[None]:
        self._step()
        while self.now != closing:
            yield
            if self.now == ",":
                self._step()
                if self.now == closing:
                    self._fail("a comma before the end")
            elif self.now != closing:
                self._fail(f"expecting ',' or '{closing}'")
        self._step()

    def finish(self) -> None:
        if self.now:
            self._fail("extra data")

    def _step(self) -> None:
        self.at += 1
        self._skip()

    def _skip(self) -> None:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]

    def _fail(self, message: str) -> NoReturn:
        raise json.JSONDecodeError(message, self.text, self.at)


# Parquet and Arrow


def _table(file: Path) -> Iterator[FileRow]:
    pyarrow, kind = _pyarrow(""), ending(file)
    number, size = 0, 0
    with file.open("rb") as stream:
        try:
            for batch in _parquet(stream) if kind == ".parquet" else _arrow(stream):
                size += sum(map(_decoded_bytes, batch.columns)) + batch.num_rows
                if size > LARGEST_DOCUMENT:
                    raise _too_large()
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", _json(row)
        except (pyarrow.ArrowException, ValueError) as wrong:
            yield "file", _wrong("line 1", str(wrong).partition("\n")[0], f"{kind} as pyarrow reads it")


def _pyarrow(module: str) -> Any:
    return plugins.optional(f"pyarrow{module}", extra="parquet", needed_for="Parquet and Arrow files")


def _parquet(stream: Any) -> Iterator[Any]:
    """Batches of rows. Repeated texts stay references until it is known how much they come to."""
    parquet = _pyarrow(".parquet")
    columns = parquet.ParquetFile(stream).schema
    texts = [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]
    yield from parquet.ParquetFile(stream, read_dictionary=texts).iter_batches(batch_size=BATCH_ROWS)


def _decoded_bytes(column: Any) -> int:
    """How many bytes the values of a column come to when each stands for itself."""
    pyarrow, compute = _pyarrow(""), _pyarrow(".compute")
    if pyarrow.types.is_run_end_encoded(column.type):
        return len(column) * max((int(column.values[n : n + 1].nbytes) for n in range(len(column.values))), default=0)
    if not pyarrow.types.is_dictionary(column.type):
        return int(column.nbytes)
    try:
        lengths = compute.binary_length(column.dictionary).take(column.indices)
    except pyarrow.ArrowNotImplementedError:  # not texts
        return int(column.dictionary.nbytes / max(1, len(column.dictionary)) * len(column))
    return int(compute.sum(lengths).as_py() or 0)


def _arrow(stream: Any) -> Iterator[Any]:
    """Record batches of either form of an Arrow file."""
    ipc = _pyarrow(".ipc")
    try:
        yield from ipc.open_stream(stream)
    except _pyarrow("").ArrowInvalid:
        table = ipc.open_file(stream)
        yield from (table.get_batch(number) for number in range(table.num_record_batches))


def _json(value: Any) -> Any:
    """A value of a table as JSON: times in ISO 8601, exact decimals as text."""
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
