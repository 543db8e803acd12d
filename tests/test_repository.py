"""Habits of the repository that a reviewer should not have to check."""

from __future__ import annotations

import ast
import hashlib
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import seedbed
from seedbed import errors

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCES = sorted((ROOT / "src/seedbed").rglob("*.py"))
sys.path.insert(0, str(ROOT / "benchmarks"))
SHAPE = importlib.import_module("shape").read_source(ROOT)
PLUG_INS = {"evaluation.metrics.instructions", "evaluation.metrics.metric", "models.cards", "release.gates.registry"}
PLUG_INS |= {"stage.frameworks", "stage.tools", "stats.sequential.stopping_rule"}
"""Modules that call what somebody else wrote, whose parameters are known at run time only."""
HEAVY = {"sqlalchemy", "numpy", "scipy", "langchain_core", "pydantic", "rich", "typer", "yaml", "httpx", "psycopg"}


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines()]


def test_the_lock_names_no_host_and_no_accelerator() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"https?://", lock)
    assert not re.search(r"^(torch|nvidia|triton|cuda)", lock, re.MULTILINE)
    assert "--hash=sha256:" in lock


def test_no_lock_file_that_records_hosts_is_tracked() -> None:
    assert not {"uv.lock", "pylock.toml", "poetry.lock"} & {path.name for path in tracked()}


def test_the_licence_is_the_one_that_the_package_names() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_bytes()
    assert hashlib.sha256(text).hexdigest() == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_everything_optional_is_in_the_extra_all_and_installed_for_the_tests() -> None:
    extras = PROJECT["optional-dependencies"]
    (all_of_them,) = extras.pop("all")
    assert set(re.findall(r"\w+", all_of_them)) == {"seedbed", *extras}
    (installed,) = re.findall(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(installed.split(",")) == set(extras)


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "seedbed", "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == f"seedbed {PROJECT['version']}\n"


def test_importing_seedbed_loads_nothing_heavy() -> None:
    script = "import sys, seedbed; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded)


def test_public_names_are_sorted_complete_and_real() -> None:
    assert seedbed.__all__ == sorted(seedbed.__all__)
    assert set(seedbed.__all__) == set(seedbed._HOMES)
    for name in seedbed.__all__:
        assert getattr(seedbed, name).__doc__, name


def test_every_error_is_exported_and_drawn_in_the_tree() -> None:
    classes = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert classes | {"Problem"} == set(errors.__all__)
    for name in classes:
        assert name in (errors.__doc__ or "")


def test_modules_functions_and_packages_stay_small() -> None:
    assert not SHAPE.long_modules
    assert len(SHAPE.long_functions) <= 2
    assert len(SHAPE.many_parameters) <= 8
    assert max(package.modules for package in SHAPE.packages.values()) <= 15


def test_imports_stand_at_the_top_except_where_a_library_is_optional() -> None:
    assert len(SHAPE.nested_imports) <= 2
    assert len(SHAPE.nested_imports) + len(SHAPE.nested_imports_of_others) <= 20


def test_a_type_name_means_one_thing() -> None:
    assert not SHAPE.shared_type_names


def test_no_name_stands_for_anything() -> None:
    assert not SHAPE.catch_all_names


def test_keyword_arguments_are_typed_unless_only_a_plug_in_knows_them() -> None:
    assert {place.partition(":")[0] for place in SHAPE.untyped_calls} <= PLUG_INS


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        path for path in SOURCES if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent


def test_names_say_what_things_are() -> None:
    vague = re.compile(r"(Manager|Handler|Helper|Util|Service|Base|Abstract|Data|Info|Framework)$")
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert not vague.search(node.name), f"{path.name}: {node.name}"


def test_every_module_has_a_test_of_its_name() -> None:
    tests = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    for path in SOURCES:
        if path.stem not in ("__init__", "__main__"):
            assert any(path.stem in name for name in tests), path.name
