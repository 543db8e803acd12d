"""OpenAI-compatible model: any endpoint with OpenAI's chat API, without OpenAI's package."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, InvalidToolCall, convert_to_openai_messages
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import ToolCall, invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt, SecretStr, field_validator

from seedbed.errors import ModelUnavailable, Why, shown
from seedbed.models.calling.connections import abounded, bounded, client, shared_client
from seedbed.models.failures import LATE, explain_status, retry_after
from seedbed.models.providers.tool_calling import ToolCallingChat
from seedbed.models.usage import read_count, read_usage


class OpenAIChat(ToolCallingChat):
    """Any OpenAI-compatible endpoint as a LangChain chat model.

    `timeout` is how many seconds the endpoint may stay silent. `headers` and `body` are added to every request, for
    options that only some endpoints have. With `logprobs` a reply has a confidence. Nothing is retried here: every
    failure is a ModelUnavailable that says why.
    """

    model_config = ConfigDict(extra="forbid")

    model: str
    base_url: str = "https://api.openai.com/v1"
    api_key: SecretStr | None = None
    timeout: PositiveFloat = 120.0
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    body: dict[str, Any] = Field(default_factory=dict)
    temperature: NonNegativeFloat | None = None
    max_tokens: PositiveInt | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("expected a URL such as https://host/v1")
        return url

    @property
    def _llm_type(self) -> str:
        return "openai-compatible"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model": self.model, "base_url": self.base_url}

    # Requests

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        request = self._request(messages, stop, **kwargs)
        with self._failures(), client() as once, once.stream("POST", **request) as answer:
            content = b"".join(bounded(answer))
            self._check(answer, content)
            return self._result(content)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        request = self._request(messages, stop, **kwargs)
        with self._failures():
            async with (await shared_client()).stream("POST", **request) as answer:
                content = b"".join([piece async for piece in abounded(answer)])
            self._check(answer, content)
            return self._result(content)

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        request = self._request(messages, stop, stream=True, **kwargs)
        with self._failures(), client() as once, once.stream("POST", **request) as answer:
            if not answer.is_success:
                self._check(answer, b"".join(bounded(answer)))
            events = EventStreamParser()
            for piece in bounded(answer):
                yield from map(self._chunk, events.feed(piece))
            yield self._last(events)

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = self._request(messages, stop, stream=True, **kwargs)
        with self._failures():
            async with (await shared_client()).stream("POST", **request) as answer:
                if not answer.is_success:
                    self._check(answer, b"".join([piece async for piece in abounded(answer)]))
                events = EventStreamParser()
                async for piece in abounded(answer):
                    for event in events.feed(piece):
                        yield self._chunk(event)
                yield self._last(events)

    def _request(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, stream: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        """The arguments of an httpx request. Options that a call does not set are taken from the fields."""
        options = {
            "model": self.model,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "stop": [*self.stop, *(stop or ())] or None,
            "logprobs": self.logprobs or None,
            **self.body,
            **kwargs,
        }
        if "//api.openai.com/" in f"{self.base_url}/":  # where newer models refuse the name that all others accept
            limit = options.pop("max_tokens")
            options["max_completion_tokens"] = limit or options.get("max_completion_tokens")
        if stream:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        content = {name: value for name, value in options.items() if value is not None}
        content["messages"] = convert_to_openai_messages(messages)
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key.get_secret_value()}"
        return {
            "url": f"{self.base_url.rstrip('/')}/chat/completions",
            "content": json.dumps(content, ensure_ascii=False).encode(errors="replace"),
            "headers": {"Content-Type": "application/json", **headers},
            "timeout": httpx.Timeout(self.timeout, pool=None),  # waiting for a free connection is no failure
        }

    # Answers

    def _result(self, content: bytes) -> ChatResult:
        answer = _read(content)
        if answer.get("error"):
            raise self._error_in_answer(answer["error"])
        choice = answer["choices"][0]
        message = choice["message"]
        self._check_refusal(choice, message)
        extra = {key: message[key] for key in ("reasoning_content",) if message.get(key)}
        calls, malformed = _calls(message.get("tool_calls") or ())
        answered = AIMessage(
            content=_text(message.get("content")),
            additional_kwargs=extra,
            tool_calls=calls,
            invalid_tool_calls=malformed,
            usage_metadata=_usage(answer.get("usage")),
            response_metadata={**_metadata(answer, answer.get("usage")), **_logprobs(choice)},
        )
        return ChatResult(generations=[ChatGeneration(message=answered)])

    def _chunk(self, event: dict[str, Any]) -> ChatGenerationChunk:
        if event.get("error"):
            raise self._error_in_answer(event["error"])
        choice = (event.get("choices") or [{}])[0]
        delta = choice.get("delta") or {}
        self._check_refusal(choice, delta)
        calls = [
            tool_call_chunk(
                name=call.get("function", {}).get("name"),
                args=call.get("function", {}).get("arguments"),
                id=call.get("id"),
                index=call.get("index", 0),
            )
            for call in delta.get("tool_calls") or ()
        ]
        extra = {key: delta[key] for key in ("reasoning_content",) if delta.get(key)}
        message = AIMessageChunk(
            content=_text(delta.get("content")),
            additional_kwargs=extra,
            tool_call_chunks=calls,
            response_metadata=_logprobs(choice),
        )
        return ChatGenerationChunk(message=message)

    def _last(self, events: EventStreamParser) -> ChatGenerationChunk:
        """The last chunk, with usage and metadata: LangChain adds chunks up, so only one may have them."""
        if events.end is None:
            raise self._unavailable("transient", "found an answer that breaks off", "Ask again", paid=True)
        metadata = _metadata(events.end, events.usage)
        message = AIMessageChunk(
            content="", usage_metadata=_usage(events.usage), response_metadata=metadata, chunk_position="last"
        )
        return ChatGenerationChunk(message=message)

    # Failures

    def _check_refusal(self, choice: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        refusal = message.get("refusal")
        if refusal or choice.get("finish_reason") == "content_filter":
            text = self._quote(refusal or "its content filter")
            raise self._unavailable("refused", f"found a refusal: {text}", "Ask for something else", paid=True)

    def _check(self, answer: httpx.Response, content: bytes) -> None:
        if not answer.is_success:
            status, paid = answer.status_code, answer.status_code in LATE
            try:
                said = json.loads(content)
                text, paid = _error_text(said["error"]), paid or bool(said.get("usage"))
            except (ValueError, KeyError, TypeError, AttributeError):
                text = content[:1000].decode(errors="replace")
            raise self._failure(status, text, f"status {status}", retry_after(answer.headers), paid=paid)

    def _error_in_answer(self, error: object) -> ModelUnavailable:
        """An error inside an answer that began well; its code may be an HTTP status or a word."""
        code = error.get("code") if isinstance(error, Mapping) else None
        text = _error_text(error)
        status = code if isinstance(code, int) else 400 if "invalid_request" in text else 500
        return self._failure(status, text, "an error in the answer", paid=True)

    def _failure(
        self, status: int, text: str, where: str, wait_seconds: float | None = None, *, paid: bool
    ) -> ModelUnavailable:
        why = explain_status(status, text)
        remedies = {401: "Check api_key", 403: "Check api_key", 404: "Check model and base_url"}
        remedy = remedies.get(status, _REMEDIES[why])
        return self._unavailable(why, f"found {where}: {self._quote(text)}", remedy, wait_seconds, paid=paid)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turns everything that goes wrong with a request into a ModelUnavailable that says why."""
        try:
            yield
        except httpx.TimeoutException as error:
            problem = f"found {type(error).__name__} after {self.timeout:g} s"
            paid = not isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            raise self._unavailable("transient", problem, "Ask again, or raise timeout", paid=paid) from error
        except httpx.HTTPError as error:
            problem = f"found {type(error).__name__}: {self._quote(error)}"
            paid = not isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol)
            raise self._unavailable("transient", problem, "Check base_url and the network", paid=paid) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            problem = f"found an answer that cannot be read ({type(error).__name__}: {self._quote(error)})"
            raise self._unavailable("transient", problem, "Ask again, or check base_url", paid=True) from error

    def _quote(self, value: object) -> str:
        """A text of the endpoint without our secrets: some endpoints repeat the key that they refuse."""
        text = str(value)
        for secret in (self.api_key, *self.headers.values()):
            if secret is not None and secret.get_secret_value():
                text = text.replace(secret.get_secret_value(), "…")
        return shown(text, 300)

    def _unavailable(
        self, why: Why, problem: str, remedy: str, wait: float | None = None, *, paid: bool
    ) -> ModelUnavailable:
        name = f"{self.model} at {urlsplit(self.base_url).netloc.rpartition('@')[2]}"
        return ModelUnavailable(f"{name} gave no answer: {problem}; expected a reply. {remedy}", why, wait, paid=paid)


_REMEDIES: dict[Why, str] = {
    "transient": "Ask again",
    "rate": "Wait, and set requests_per_minute or tokens_per_minute on its card",
    "credit": "Add credit at its provider, or use another model",
    "context": "Shorten the messages, or use a model with a larger context",
    "refused": "Ask for something else",
    "ours": "Correct its arguments",
}


class EventStreamParser:
    """Reads the events of a streamed answer from pieces of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self.end: dict[str, Any] | None = None
        """The event that ended the answer, with its reason."""
        self.usage: Any = None
        """The newest usage: some endpoints count up from event to event. That of an event before the end is not all."""

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The events that a piece completes."""
        # Only a line feed ends a row; Python knows other separators, which may occur within an answer.
        *rows, self._rest = (self._rest + piece).split(b"\n")
        for row in rows:
            data = row[5:].strip() if row.startswith(b"data:") else b""
            if data == b"[DONE]":
                self.end = self.end or {"choices": [{}]}
            elif data:
                event = _read(data)
                self.usage = event.get("usage") or self.usage
                if any(choice.get("finish_reason") for choice in event.get("choices") or ()):
                    self.end, self.usage = event, event.get("usage")
                yield event


def _read(content: bytes) -> dict[str, Any]:
    value = json.loads(content)
    if not isinstance(value, dict):
        raise TypeError(f"found {type(value).__name__} in the place of an object")
    return value


def _calls(requested: Iterable[Mapping[str, Any]]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """The calls of an answer, and those whose arguments are no JSON object."""
    calls, malformed = list[ToolCall](), list[InvalidToolCall]()
    for each in requested:
        name, text = each["function"]["name"], each["function"].get("arguments") or "{}"
        try:
            arguments = json.loads(text)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            calls.append(tool_call(name=name, args=arguments, id=each.get("id")))
        else:
            malformed.append(invalid_tool_call(name=name, args=text, id=each.get("id"), error=None))
    return calls, malformed


def _text(content: Any) -> Any:
    """A text that can be encoded: JSON may contain lone surrogates. Other content is not changed."""
    return content.encode(errors="replace").decode() if isinstance(content, str) else content or ""


def _error_text(error: object) -> str:
    if not isinstance(error, Mapping):
        return str(error)
    return ": ".join(str(error[key]) for key in ("type", "code", "message") if error.get(key))


def _usage(reported: Any) -> UsageMetadata | None:
    """The usage in LangChain's form; None if there is none, or if it cannot be read: the answer is worth more."""
    counted = read_usage(reported, "prompt_tokens", "completion_tokens")
    if counted is None:
        return None
    read, written = counted.prompt_tokens, counted.completion_tokens
    usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    if (cached := _detail(reported, "prompt_tokens_details", "cached_tokens")) is not None:
        usage["input_token_details"] = InputTokenDetails(cache_read=cached)
    if (reasoning := _detail(reported, "completion_tokens_details", "reasoning_tokens")) is not None:
        usage["output_token_details"] = OutputTokenDetails(reasoning=reasoning)
    return usage


def _detail(usage: Mapping[str, Any], section: str, name: str) -> int | None:
    details = usage.get(section)
    return read_count(details.get(name)) if isinstance(details, Mapping) else None


def _metadata(answer: Mapping[str, Any], usage: Any) -> dict[str, Any]:
    known = {
        "finish_reason": next(choice.get("finish_reason") for choice in answer["choices"]),
        "model_name": answer.get("model"),
        "system_fingerprint": answer.get("system_fingerprint"),
        "cost_usd": usage.get("cost")
        if isinstance(usage, Mapping)
        else None,  # what was charged, which only some providers report
    }
    return {name: value for name, value in known.items() if value is not None}


def _logprobs(choice: Mapping[str, Any]) -> dict[str, Any]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return {"logprobs": {"content": content}} if content else {}
