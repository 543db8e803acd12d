"""Recorded model: answers from a table of earlier answers.

```yaml
models:
  small: {use: table, args: {path: answers.csv, model: small-1}}
```
The table has the columns prompt, model and reply, and may have prompt_tokens, completion_tokens, cost_usd and
latency_seconds, which the Reply then has too; and calls, the tools that the model called: a JSON list of
`{"tool": NAME, "arguments": {…}}`.
"""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Self, TextIO

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PrivateAttr,
    ValidationError,
    field_validator,
)
from pydantic import model_validator as validated

from seedbed.errors import ModelUnavailable, shown
from seedbed.models.providers.tool_calling import RequestedCall, ToolCallingChat, last_prompt, with_ids


class RecordedAnswer(BaseModel):
    """One row of the table. Further columns are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    prompt: str
    model: str
    reply: str
    prompt_tokens: NonNegativeInt | None = None
    completion_tokens: NonNegativeInt | None = None
    cost_usd: NonNegativeFloat | None = None
    latency_seconds: NonNegativeFloat | None = None
    calls: tuple[RequestedCall, ...] = ()

    @field_validator("calls", mode="before")
    @classmethod
    def _read_cell(cls, calls: object) -> object:
        return json.loads(calls) if isinstance(calls, str) else calls


class RecordedChat(ToolCallingChat):
    """Answers the last message of the user or of a tool with the reply recorded for exactly this prompt.

    The table is a file, CSV or one JSON object on each line, or a list of `rows`. `model` is the recorded model that
    answers; it may be left out if there is only one. If a prompt was recorded twice, the first reply counts.
    """

    model_config = ConfigDict(extra="forbid")

    path: Path | None = None
    rows: list[RecordedAnswer] = Field(default_factory=list, repr=False)
    model: str = ""
    folder: Path = Path()
    """The folder that a relative `path` starts from: that of the workspace file, if there is one."""
    _replies: dict[str, RecordedAnswer] = PrivateAttr()

    @validated(mode="after")
    def _look_up(self) -> Self:
        if (self.path is None) == (not self.rows):
            raise ValueError("found neither or both of path and rows; expected one of them")
        if self.path is None:
            record = _by_model(self.rows)
        else:
            file = self.folder / self.path
            try:
                record = _recorded(file, file.stat().st_mtime_ns)
            except OSError as error:
                raise ValueError(f"path: found {self.path}: {error.strerror}; expected a CSV or JSONL file") from error
        if self.model not in record and (self.model or len(record) != 1):
            known = ", ".join(record) or "none"
            raise ValueError(f"model: found {shown(self.model)}; expected one of those recorded: {known}")
        self._replies = record[self.model or next(iter(record))]
        return self

    @property
    def _llm_type(self) -> str:
        return "table"

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        prompt = last_prompt(messages)
        if prompt not in self._replies:
            who = f" of {self.model}" if self.model else ""
            raise ModelUnavailable(
                f"the table has no reply{who}: found the prompt {shown(prompt, 300)}; "
                f"expected one of the {len(self._replies)} that were recorded. Add a row for it"
            )
        row = self._replies[prompt]
        read, written = row.prompt_tokens, row.completion_tokens
        took = {"cost_usd": row.cost_usd, "latency_seconds": row.latency_seconds}
        answer = AIMessage(
            content=row.reply,
            tool_calls=with_ids(row.calls, messages),
            usage_metadata=None
            if read is None or written is None
            else {"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
            response_metadata={
                "finish_reason": "tool_calls" if row.calls else "stop",
                **{name: value for name, value in took.items() if value is not None},
            },
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return self._generate(messages)  # a lookup in a dictionary needs no thread


@functools.lru_cache(maxsize=8)
def _recorded(path: Path, changed: int) -> dict[str, dict[str, RecordedAnswer]]:
    """A file is read once for all its models, and again if it `changed`."""
    return _by_model(_read(path))


def _by_model(rows: Iterable[RecordedAnswer]) -> dict[str, dict[str, RecordedAnswer]]:
    record: dict[str, dict[str, RecordedAnswer]] = {}
    for row in rows:
        record.setdefault(row.model, {}).setdefault(row.prompt, row)
    return record


def _read(path: Path) -> Iterator[RecordedAnswer]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = _cells(file) if path.suffix == ".csv" else (json.loads(text) for text in file if text.strip())
        for number in count(1):
            try:
                yield RecordedAnswer.model_validate(next(rows))
            except StopIteration:
                return
            except ValidationError as error:
                problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
                raise ValueError(f"{path.name}, row {number}: {problems}") from None
            except (ValueError, csv.Error) as error:
                raise ValueError(f"{path.name}, row {number}: {error}") from None


def _cells(file: TextIO) -> Iterator[dict[str, str]]:
    """The rows of a CSV file. An empty cell counts as missing, but a reply may be empty."""
    for row in csv.DictReader(file, strict=True):
        yield {name: cell for name, cell in row.items() if name and cell is not None and (cell or name == "reply")}
