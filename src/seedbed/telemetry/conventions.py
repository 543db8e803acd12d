"""Conventions: the names of OpenTelemetry for generative AI, as opentelemetry-util-genai writes them."""

from __future__ import annotations

PROVIDERS = {
    "langchain_openai": "openai",
    "langchain_anthropic": "anthropic",
    "langchain_google_genai": "gcp.gemini",
    "langchain_google_vertexai": "gcp.vertex_ai",
    "langchain_cohere": "cohere",
    "langchain_mistralai": "mistral_ai",
    "langchain_groq": "groq",
    "langchain_deepseek": "deepseek",
    "langchain_xai": "x_ai",
    "langchain_aws": "aws.bedrock",
    "langchain_perplexity": "perplexity",
    "langchain_ibm": "ibm.watsonx.ai",
    "seedbed.models.providers.openai": "openai",
}
"""Providers by the package or module of their model class."""

PROVIDER = "gen_ai.provider.name"
OPERATION = "gen_ai.operation.name"
CONVERSATION = "gen_ai.conversation.id"
AGENT_ID, AGENT_NAME = "gen_ai.agent.id", "gen_ai.agent.name"
WORKFLOW = "gen_ai.workflow.name"
REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.request.model", "gen_ai.response.model"
TEMPERATURE, MAX_TOKENS, SEED = "gen_ai.request.temperature", "gen_ai.request.max_tokens", "gen_ai.request.seed"
INPUT_TOKENS, OUTPUT_TOKENS = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TOOL_NAME, TOOL_TYPE = "gen_ai.tool.name", "gen_ai.tool.type"
KIND = "gen_ai.token.type"
ERROR = "error.type"

USAGE = "gen_ai.client.token.usage"
CHAT_DURATION = "gen_ai.client.operation.duration"
AGENT_DURATION = "gen_ai.invoke_agent.duration"
TOOL_DURATION = "gen_ai.execute_tool.duration"
WORKFLOW_DURATION = "gen_ai.invoke_workflow.duration"


def provider_of(class_path: str) -> str:
    """The provider of a model class, by its path; the top package of one that is not known."""
    places = class_path.split(".")
    known = (".".join(places[:end]) for end in range(len(places), 0, -1))
    return next((PROVIDERS[place] for place in known if place in PROVIDERS), places[0])
