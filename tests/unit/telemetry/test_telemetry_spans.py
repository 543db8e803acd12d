from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from telemetry_samples import ENDED, FAILED, STARTED, SUBSTITUTED, TOOL, TURN, Received, attributes

from seedbed.telemetry import RunEnded

PARENT, CHILD = "0" * 31 + "1", "0" * 31 + "2"
RUN = "invoke_agent 00"


def test_spans_reach_a_collector_before_the_process_ends(tmp_path: Path, collector: tuple[str, Received]) -> None:
    url, received = f"{collector[0]}/v1/traces", collector[1]
    (tmp_path / "seedbed.yaml").write_text(f"telemetry: {{spans: '{url}'}}")
    script = f"""
from seedbed.settings import Settings
from seedbed.telemetry import *
switch_on(Settings.load("seedbed.yaml", {{}}))
with during("evaluate"), within(run="{PARENT}"):
    emit({STARTED})
    with within(run="{CHILD}"):
        emit({STARTED})
        with within(step="facts", model="small"):
            emit({FAILED})
            emit({SUBSTITUTED})
            emit({TURN})
            emit({TOOL})
        emit({RunEnded(status="failed", turns=1, tokens=75, cost_usd=0.25, latency_seconds=2.0)})
    emit({ENDED})
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not done.stderr
    spans = [
        each
        for got in received["/v1/traces"]
        for one in got.resource_spans
        for two in one.scope_spans
        for each in two.spans
    ]
    named = {(span.name, attributes(span).get("gen_ai.conversation.id")): span for span in spans}
    verb, parent, child = named["invoke_workflow evaluate", None], named[RUN, PARENT], named[RUN, CHILD]
    used, answered = named["execute_tool refund", CHILD], named["chat gpt-large", CHILD]
    assert len(spans) == 5
    assert not verb.parent_span_id
    assert parent.parent_span_id == verb.span_id
    assert child.parent_span_id == parent.span_id
    assert used.parent_span_id == answered.parent_span_id == child.span_id
    assert len({span.trace_id for span in spans}) == 1
    assert attributes(answered) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-large",
        "gen_ai.response.model": "gpt-large",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.seed": 7,
        "gen_ai.conversation.id": CHILD,
        "gen_ai.agent.name": "critic",
        "gen_ai.usage.input_tokens": 70,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ["stop"],
        "seedbed.step": "facts",
        "seedbed.model": "large",
        "seedbed.cost_usd": 0.25,
        "seedbed.waited_seconds": 0.5,
    }
    assert answered.end_time_unix_nano - answered.start_time_unix_nano == 1_500_000_000
    assert attributes(used)["error.type"] == "tool_failed"
    assert used.status.code == child.status.code == 2
    assert parent.status.code != 2
    assert [event.name for event in child.events] == ["seedbed.model_failed", "seedbed.substituted"]
    assert attributes(child)["gen_ai.agent.id"] == "b2:00"
