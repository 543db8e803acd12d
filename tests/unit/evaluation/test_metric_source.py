from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from seedbed.evaluation.metrics.source import source_of

Written = Callable[[str], Any]
SCORE = "def score(run, task):\n    return len(run.output) < 80\n"


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def compiled(text: str) -> Any:
        path = tmp_path / f"module_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        module = ModuleType("module")
        exec(compile(text, str(path), "exec"), vars(module))
        return module.score  # type: ignore[attr-defined]

    return compiled


@pytest.mark.parametrize(
    "text",
    [
        "# why\ndef score(run, task):\n    # why\n    return (len(run.output)\n        < 80)\n",
        "def score(run,task): return len( run.output )<80\n",
        "import json\nLIMIT = 3\n" + SCORE,
    ],
)
def test_comments_layout_and_what_is_not_used_make_no_difference(written: Written, text: str) -> None:
    assert source_of(written(text)) == source_of(written(SCORE))


USING = """
LIMIT = 80
import re
WORDS = {'a', 'b'}
PATTERN = re.compile('x+')
BOUNDS = {'low': (1, 2.5)}
def near(x):
    return x < LIMIT
def score(run, task):
    return near(run) in WORDS or PATTERN.match(run) or BOUNDS['low']
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("run) in", "task) in"), ("= 80", "= 81"), ("'b'", "'c'"), ("x <", "x <="), ("x+", "x*"), ("2.5", "3")],
    ids=["body", "constant of a function used", "set", "function used", "pattern", "mapping"],
)
def test_whatever_a_function_does_or_uses_of_its_module_makes_another(written: Written, old: str, new: str) -> None:
    assert source_of(written(USING)) == source_of(written(USING))
    assert source_of(written(USING.replace(old, new))) != source_of(written(USING))


def test_what_a_function_remembers_from_where_it_was_made_counts() -> None:
    def made(limit: int) -> Callable[[str], bool]:
        return lambda said: len(said) < limit

    assert source_of(made(3)) == source_of(made(3))
    assert source_of(made(3)) != source_of(made(4))


def test_functions_that_call_each_other_have_an_end(written: Written) -> None:
    circle = "def other(x):\n    return score(x, 1)\ndef score(run, task):\n    return other(run)\n"
    assert source_of(written(circle)) != source_of(written(circle.replace("1", "2")))


def typed(body: str, seed: str) -> str:
    script = f"from seedbed.evaluation.metrics.source import source_of\n{body}\nprint(source_of(score))"
    around = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=around)
    return done.stdout


@pytest.mark.parametrize(
    "body",
    [
        "def score(run, task):\n    return run.output in {'yes', 'no', 'maybe', 'never', 'always'}",
        "WORDS = {'yes', 'no', 'maybe', 'never', 'always'}\ndef score(run, task):\n    return run.output in WORDS",
    ],
    ids=["within", "beside"],
)
def test_a_function_typed_in_is_known_again_in_another_process(body: str) -> None:
    assert typed(body, "1") == typed(body, "2")
    assert typed(body, "1") != typed(body.replace("maybe", "perhaps"), "1")
