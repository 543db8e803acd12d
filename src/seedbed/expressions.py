"""Regular expressions that others wrote, matched within a time limit.

Some expressions take longer than anybody waits, and Python's engine cannot be interrupted. They are matched in a small
process of their own, which is ended and started again if it takes too long.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import selectors
import subprocess
import sys
import threading
from typing import Any

SECONDS = 1.0
"""How long one match may take."""

_SLOW = re.compile(r"[*+{?|]")
_MATCHER = """
import json, re, sys
for line in sys.stdin:
    pattern, flags, text, how = json.loads(line)
    each = re.compile(pattern, flags)
    if how == "count":
        found = sum(1 for _ in each.finditer(text))
    else:
        match = each.fullmatch(text) if how == "whole" else each.search(text)
        found = match and ((match[1] or "") if each.groups else match[0])
    print(json.dumps(found), flush=True)
"""


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A compiled expression. Raises re.error, also for one that is too deep or repeats too often."""
    try:
        return re.compile(pattern, flags)
    except (OverflowError, RecursionError) as wrong:
        raise re.error(str(wrong)) from None


def find(pattern: str, text: str, *, flags: int = 0, whole: bool = False) -> str | None:
    """The first group of the first match, or all of it; None if there is none. Raises ValueError if it takes too long,
    and re.error for what is no expression."""
    match: str | None = _match(pattern, flags, text, "whole" if whole else "first")
    return match


def count(pattern: str, text: str, *, flags: int = 0) -> int:
    """How often an expression matches. Raises as `find` does."""
    return int(_match(pattern, flags, text, "count"))


def _match(pattern: str, flags: int, text: str, how: str) -> Any:
    expression = compiled(pattern, flags)
    if _SLOW.search(pattern):
        return _matcher.ask(json.dumps([pattern, flags, text, how]))
    if how == "count":
        return sum(1 for _ in expression.finditer(text))
    match = expression.fullmatch(text) if how == "whole" else expression.search(text)
    return match and ((match[1] or "") if expression.groups else match[0])


class _Matcher:
    """The process that matches, one for each process that asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def ask(self, question: str) -> Any:
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{question}\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stdout, selectors.EVENT_READ)
                answer = process.stdout.readline() if waiting.select(SECONDS) else ""
            if not answer:
                self.end()
                raise ValueError(f"the expression took longer than {SECONDS:g} s; expected a simpler one")
        return json.loads(answer)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            command = [sys.executable, "-I", "-S", "-c", _MATCHER]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8")
            self._owner = os.getpid()
        return self._process

    def end(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            self._process.communicate()
        self._process = None


_matcher = _Matcher()
atexit.register(_matcher.end)
