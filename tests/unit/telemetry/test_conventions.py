"""The names of OpenTelemetry: a library of the project itself is the oracle."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai.handler import TelemetryHandler

from seedbed.telemetry import conventions
from seedbed.telemetry.conventions import provider_of


def test_names_are_those_that_the_library_of_opentelemetry_emits() -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    handler = TelemetryHandler(tracers, MeterProvider([reader]))
    with handler.workflow("evaluate"), handler.invoke_local_agent(agent_name="clerk") as agent:
        agent.conversation_id, agent.provider_name = "one", "seedbed"
        with handler.invoke_remote_agent("seedbed") as remote:
            remote.agent_id = "7"
        with handler.inference("openai", request_model="m") as chat:
            chat.response_model_name, chat.finish_reasons, chat.input_tokens, chat.output_tokens = "m", ["stop"], 3, 4
            chat.temperature, chat.max_tokens, chat.seed = 0.5, 9, 7
        with handler.tool("refund", tool_type="function"):
            pass
        with pytest.raises(LookupError), handler.tool("broken"):
            raise LookupError
    finished = spans.get_finished_spans()
    emitted = {name for span in finished for name in span.attributes or ()}
    data = reader.get_metrics_data()
    assert data is not None
    metrics = [each for one in data.resource_metrics for scope in one.scope_metrics for each in scope.metrics]
    emitted |= {metric.name for metric in metrics}
    emitted |= {name for each in metrics for point in each.data.data_points for name in point.attributes or ()}
    ours = {value for value in vars(conventions).values() if isinstance(value, str) and "gen_ai." in value}
    assert ours - {conventions.__doc__} <= emitted
    assert {span.name for span in finished} >= {"invoke_workflow evaluate", "invoke_agent clerk", "chat m"}


@pytest.mark.parametrize(
    ("path", "provider"),
    [
        ("langchain_openai.ChatOpenAI", "openai"),
        ("langchain_google_genai.chat_models.ChatGoogleGenerativeAI", "gcp.gemini"),
        ("seedbed.models.providers.openai.OpenAIChat", "openai"),
        ("seedbed.models.providers.scripted.ScriptedChat", "seedbed"),
        ("mine.Chat", "mine"),
    ],
)
def test_a_provider_is_known_by_the_class_of_its_model(path: str, provider: str) -> None:
    assert provider_of(path) == provider
