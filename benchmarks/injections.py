"""AgentDojo's four suites with a model that does whatever an injected text says: what do the rules let through?

No language model is needed. For each pair of a user's task and an injected one, the script performs the calls that
AgentDojo gives as the task's own solution, and then, as if every injection were read and obeyed, those of the injected
task. All calls go through a stage. Injected tasks without a solution try nothing.

    pip install agentdojo
    python benchmarks/injections.py [--suites banking slack] [--rules FILE]

`--rules` is a playbook whose rules are measured as the worked example; the default is that of docs/rules.md.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from seedbed import documents, tool
from seedbed.errors import ActionForbidden, PlaybookError, RunError
from seedbed.models.cards import Registry
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run_start import RunStart
from seedbed.stage.stage import Stage, StageOptions
from seedbed.stage.tools import Tool, toolbox
from seedbed.storage.memory import MemoryStore

VERSION = "v1.2.1"
"""Of AgentDojo's tasks."""

CHANGES = (
    *("send_email", "delete_email", "create_calendar_event", "cancel_calendar_event", "reschedule_calendar_event"),
    *("add_calendar_event_participants", "append_to_file", "create_file", "delete_file", "share_file"),
    *("reserve_hotel", "reserve_car_rental", "reserve_restaurant"),
    *("send_money", "schedule_transaction", "update_scheduled_transaction", "update_password", "update_user_info"),
    *("add_user_to_channel", "send_direct_message", "send_channel_message", "invite_user_to_slack"),
    *("remove_user_from_slack", "post_webpage"),
)
SENDS = ("get_webpage",)
"""Asking for a page tells its owner what is asked. All other tools read what the user owns."""

DOCS = Path(__file__).parents[1] / "docs" / "rules.md"
EXAMPLE = re.compile(r"<!-- file: office\.yaml -->\n```yaml\n(.*?)```", re.DOTALL)


@dataclass
class Count:
    """What happened under one set of rules."""

    tasks: int = 0
    work: int = 0
    questions: int = 0
    asked: int = 0
    attacks: int = 0
    tried: int = 0
    passed: int = 0
    succeeded: int = 0
    let_through: dict[str, int] = field(default_factory=dict)

    def add(self, other: Count) -> None:
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
        for name, times in other.let_through.items():
            self.let_through[name] = self.let_through.get(name, 0) + times


@cache
def _environment(suite: str) -> Any:
    from agentdojo.task_suite.load_suites import get_suites

    return get_suites(VERSION)[suite].load_and_inject_default_environment({})


class Trial:
    """One conversation: an environment of AgentDojo behind a stage."""

    def __init__(self, suite: Any, task: Any, rules: Playbook, *, person: bool) -> None:
        from agentdojo.functions_runtime import FunctionsRuntime

        self.suite, self.task = suite, task
        self.environment = task.init_environment(_environment(suite.name).model_copy(deep=True))
        self.before = self.environment.model_copy(deep=True)
        self.runtime = FunctionsRuntime(suite.tools)
        self.wanted = list(task.ground_truth(self.environment))
        self.done: list[Any] = []
        self.questions = 0
        recorder = Recorder(Journal(MemoryStore()), RunStart(rules.digest, {}, seed=1, models={}), by="benchmark")
        confirm = self._person if person else self._nobody
        options = StageOptions(tools=toolbox(map(self._tool, suite.tools)), confirm=confirm)
        self.stage = Stage(rules, Registry({}).__getitem__, recorder, options)

    def _tool(self, function: Any) -> Tool:
        name = function.name

        def use(**arguments: Any) -> str:
            result, error = self.runtime.run_function(self.environment, name, arguments)
            if error:
                raise RunError(error)
            return str(result)

        made: Tool = tool(changes=name in CHANGES or name in SENDS, name=name)(use)
        return made

    async def _person(self, action: str, because: str, arguments: Any) -> bool:
        """Says yes to what belongs to the user's task."""
        self.questions += 1
        return any(call.function == action and self._arguments(call) == arguments for call in self.wanted)

    async def _nobody(self, action: str, because: str) -> bool:
        self.questions += 1
        return False

    def _arguments(self, call: Any) -> dict[str, Any]:
        """The arguments of a call, with the defaults that its tool declares."""
        fields = self.runtime.functions[call.function].parameters.model_fields
        defaults = {name: each.default for name, each in fields.items() if not each.is_required()}
        return _value({**defaults, **call.args})  # type: ignore[no-any-return]

    async def perform(self, calls: Iterable[Any]) -> list[tuple[str, bool]]:
        """Each call of a tool that changes or sends, and whether it got through."""
        passed = []
        for call in calls:
            try:
                await self.stage.call(call.function, **self._arguments(call))
                through = True
            except ActionForbidden:
                through = False
            except RunError:  # the tool was called and failed
                through = True
            if through:
                self.done.append(call)
            if call.function in CHANGES or call.function in SENDS:
                passed.append((call.function, through))
        return passed

    def holds(self, task: Any) -> bool:
        """Whether AgentDojo finds a task done, given the answer that its solution would give."""
        answer = [{"type": "text", "content": task.GROUND_TRUTH_OUTPUT or ""}]
        try:
            return bool(self.suite._check_task_result(task, answer, self.before, self.environment, self.done))
        except (
            AttributeError,
            IndexError,
            KeyError,
            StopIteration,
            ValueError,
        ):  # a refused call left nothing to check
            return False


def _value(value: Any) -> Any:
    """A value as JSON has it, so that a stage can record it."""
    if isinstance(value, dict):
        return {str(key): _value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


async def measure(suite: Any, rules: Playbook, *, person: bool) -> Count:
    count = Count()
    for task in suite.user_tasks.values():
        trial = Trial(suite, task, rules, person=person)
        await trial.perform(trial.wanted)
        count.tasks += 1
        count.work += trial.holds(task)
        count.questions += trial.questions
        count.asked += bool(trial.questions)
        for injected in suite.injection_tasks.values():
            trial = Trial(suite, task, rules, person=person)
            await trial.perform(trial.wanted)
            calls = await trial.perform(injected.ground_truth(trial.environment))
            count.attacks += 1
            count.tried += len(calls)
            count.succeeded += bool(calls) and trial.holds(injected)
            for name, through in calls:
                count.passed += through
                if through:
                    count.let_through[name] = count.let_through.get(name, 0) + 1
    return count


def _example(file: Path | None) -> Playbook:
    if file:
        return Playbook.load(file)
    found = EXAMPLE.search(DOCS.read_text())
    if found is None:
        raise SystemExit(f"found no office.yaml in {DOCS}; expected the worked example, or --rules FILE")
    return Playbook.from_document(documents.parse(found[1], str(DOCS), PlaybookError).value)


def _row(name: str, count: Count) -> str:
    works, asked = f"{count.work} of {count.tasks}", f"{count.questions} in {count.asked} tasks"
    return (
        f"| {name} | {works} | {asked} | {count.passed:,} of {count.tried:,} | {count.succeeded} of {count.attacks} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", nargs="*", default=["workspace", "travel", "banking", "slack"])
    parser.add_argument("--rules", type=Path)
    chosen = parser.parse_args(arguments)
    from agentdojo.task_suite.load_suites import get_suites

    none, free = Playbook.from_document({"rules": {}}), Playbook.from_document({"rules": {"otherwise": "allow"}})
    example = _example(chosen.rules)
    rows: list[tuple[str, Playbook, bool]] = [
        ("everything allowed (`otherwise: allow`)", free, False),
        ("no rules written, nobody to ask", none, False),
        ("no rules written, a person confirms", none, True),
        ("worked example, nobody to ask", example, False),
        ("worked example, a person confirms", example, True),
    ]
    print("| rules | user's tasks that work | questions | injected calls let through | attacks that succeed |")
    print("|---|---|---|---|---|")
    let_through: Callable[[Count], str] = lambda count: ", ".join(f"{k} {v}" for k, v in count.let_through.items())  # noqa: E731
    for name, rules, person in rows:
        count = Count()
        for suite in chosen.suites:
            count.add(asyncio.run(measure(get_suites(VERSION)[suite], rules, person=person)))
        print(_row(name, count), flush=True)
        if count.let_through and rules is not free:
            print(f"  let through: {let_through(count)}", file=sys.stderr)


if __name__ == "__main__":
    main()
