"""The files of a folder of tasks with their splits, in the layout of Hugging Face."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedbed import documents
from seedbed.errors import DatasetError, Problem, shown
from seedbed.evaluation.datasets.files import KINDS, ending


@dataclass(frozen=True, slots=True)
class DataFile:
    file: Path
    split: str | None


WORDS = r"(?:^|[-_. ])(train|training|validation|valid|val|dev|test|testing|eval)(?=[-_. \d]|$)"
SHARD = r"(\w[\w.+-]*?)-\d{5}-of-\d{5}"


def data_files(folder: Path) -> list[DataFile]:
    """The files with their splits. Raises DatasetError if there are none.

    These are the files that `save_to_disk` wrote, that the front matter of README.md names, or that are named after
    splits, here, in `data` or in folders with such names.
    """
    if (folder / "dataset_dict.json").is_file():
        splits = _noted(folder / "dataset_dict.json").get("splits", [])
        return [part for split in splits for part in _saved(folder / split, split)]
    if (folder / "state.json").is_file():
        return _saved(folder, None)
    if declared := _declared(folder):
        return declared
    named = [inner for inner in _inside(folder) if inner.is_dir() and _split_of(inner.name)]
    places = [folder, folder / "data", *named]
    files = [file for place in places if place.is_dir() for file in _inside(place) if _is_data(file)]
    named_files = [DataFile(file, _split_of(file.parent.name if file.parent in named else file.name)) for file in files]
    if not any(part.split for part in named_files):
        others = [*(file.name for file in files), *(inner.name for inner in _inside(folder) if inner.is_dir())]
        remedy = f"Name a file or folder in it: {', '.join(others[:8])}." if others else ""
        raise DatasetError([Problem("directory", "no file named after a split", "such as train.jsonl", remedy)])
    return [part for part in named_files if part.split]


def _inside(folder: Path) -> list[Path]:
    return sorted(inner for inner in folder.iterdir() if not inner.name.startswith("."))


def _is_data(file: Path) -> bool:
    return file.is_file() and ending(file) in KINDS


def _split_of(name: str) -> str | None:
    if shard := re.match(SHARD, name):
        return shard[1]
    word = re.search(WORDS, name, re.IGNORECASE)
    return word[1].lower() if word else None


def _noted(file: Path) -> dict[str, Any]:
    value = documents.read(file, DatasetError).value
    if not isinstance(value, dict):
        raise DatasetError([Problem(file.name, shown(value), "a mapping, as save_to_disk writes it")])
    return value


def _saved(folder: Path, split: str | None) -> list[DataFile]:
    state = _noted(folder / "state.json")
    named = split or state.get("_split")
    names = [Path(each["filename"]).name for each in state.get("_data_files", [])]
    return [DataFile(folder / name, named if isinstance(named, str) else None) for name in names]


def _declared(folder: Path) -> list[DataFile]:
    """The splits and files in the front matter of README.md, if there are any."""
    configs: Any = []
    with suppress(OSError, UnicodeDecodeError, DatasetError):
        text = (folder / "README.md").read_text(encoding="utf-8-sig")
        front = re.match(r"---\n(.*?)\n---\s", text, re.DOTALL)
        configs = documents.parse(front[1], "README.md", DatasetError).value.get("configs") or [] if front else []
    usable = [each for each in configs if isinstance(each, dict) and isinstance(each.get("data_files"), list)]
    chosen = [each for each in usable if each.get("default") or each.get("config_name") == "default"] or usable
    declared = []
    for each in chosen[0]["data_files"] if len(chosen) == 1 else []:
        split, paths = (each.get("split"), each.get("path")) if isinstance(each, dict) else (None, None)
        for path in paths if isinstance(paths, list) else [paths]:
            if isinstance(path, str) and not path.startswith("/") and ".." not in path.split("/"):
                declared += [DataFile(file, str(split)) for file in sorted(folder.glob(path)) if _is_data(file)]
    return declared
