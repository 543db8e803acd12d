"""An OpenAI-compatible endpoint on loopback whose behaviour is scripted for each request.

```python
with serving(Answer("first"), Answer(status=500), Answer("third", cut=True)) as server:
    OpenAIChat(model="m", base_url=server.url)
```
When the script is over the endpoint echoes the last message. `script` may also be a function that is given the request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Answer:
    """What the endpoint does about one request.

    `text` is said word by word if the request asks for a stream. With `status` it is an error, whose `code` and
    `message` are told. `cut` breaks off in the middle, `body` is sent as it stands, `delay` seconds pass first (or
    until the server is told to stop), `hang_up` closes the connection without a word.
    """

    text: str = ""
    status: int = 200
    code: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: bool = False
    body: bytes | None = None
    hang_up: bool = False
    finish_reason: str = "stop"
    refusal: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] = ()
    """Each with `name` and `arguments`, a text of JSON."""
    usage: Mapping[str, Any] | None = None
    logprobs: Sequence[float] = ()
    error_in_stream: Mapping[str, Any] | None = None


Request: TypeAlias = dict[str, Any]
"""The JSON of a request; `headers` are beside it, in lower case."""

Script: TypeAlias = Callable[[Request], Answer]


class ModelServer(ThreadingHTTPServer):
    """The endpoint. `requests` is what it was asked, in order, over so many `connections`."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.script = script
        self.requests: list[Request] = []
        self.connections = 0
        self.stopping = threading.Event()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that hang up are part of the tests


@contextmanager
def serving(*answers: Answer, script: Script | None = None) -> Iterator[ModelServer]:
    """An endpoint that gives these answers in order, or as the script says."""
    rest = iter(answers)
    server = ModelServer(script or (lambda request: next(rest, None) or echo(request)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


def echo(request: Request) -> Answer:
    content = request["messages"][-1]["content"]
    return Answer(content if isinstance(content, str) else json.dumps(content))


class _Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append({**request, "headers": {k.lower(): v for k, v in self.headers.items()}})
            answer = self.server.script(request)
        if answer.delay:
            self.server.stopping.wait(answer.delay)
        if answer.hang_up:
            self.close_connection = True
            return
        with suppress(ConnectionError):
            if answer.body is None and answer.status == 200 and request.get("stream"):
                self._stream(request, answer)
            else:
                self._send(answer, answer.body if answer.body is not None else _document(request, answer))

    def _send(self, answer: Answer, body: bytes) -> None:
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if answer.cut else body)
        self.close_connection |= answer.cut

    def _stream(self, request: Request, answer: Answer) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = list(_events(request, answer))
        for event in events[: len(events) // 2] if answer.cut else events:
            line = b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        if answer.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


def _document(request: Request, answer: Answer) -> bytes:
    if answer.status != 200:
        error = {"message": answer.message, "type": answer.code, "code": answer.code or None}
        return json.dumps({"error": error}).encode()
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": answer.refusal}
    if answer.tool_calls:
        message |= {"content": None, "tool_calls": _calls(answer)}
    choice = {"index": 0, "message": message, "finish_reason": _reason(answer), "logprobs": _logprobs(answer)}
    return json.dumps({**_head(request), "choices": [choice], "usage": _usage(request, answer)}).encode()


def _events(request: Request, answer: Answer) -> Iterator[dict[str, Any] | bytes]:
    def event(delta: Mapping[str, Any], **choice: Any) -> dict[str, Any]:
        return {**_head(request), "choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}]}

    yield event({"role": "assistant", "content": ""}, logprobs=_logprobs(answer))
    for number, call in enumerate(_calls(answer)):
        arguments = call["function"]["arguments"]
        begun = {**call, "index": number, "function": {**call["function"], "arguments": ""}}
        yield event({"tool_calls": [begun]})
        for half in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            yield event({"tool_calls": [{"index": number, "function": {"arguments": half}}]})
    if answer.refusal:
        yield event({"refusal": answer.refusal})
    for number, word in enumerate(answer.text.split(" ")):
        yield event({"content": f" {word}" if number else word})
    if answer.error_in_stream is not None:
        yield {"error": dict(answer.error_in_stream)}
        return
    yield event({}, finish_reason=_reason(answer))
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**_head(request), "choices": [], "usage": _usage(request, answer)}
    yield b"[DONE]"


def _head(request: Request) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": request["model"]}


def _reason(answer: Answer) -> str:
    return "tool_calls" if answer.tool_calls else answer.finish_reason


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{number}", "type": "function", "function": dict(call)}
        for number, call in enumerate(answer.tool_calls)
    ]


def _logprobs(answer: Answer) -> dict[str, Any] | None:
    tokens = [{"token": "t", "logprob": value, "bytes": None, "top_logprobs": []} for value in answer.logprobs]
    return {"content": tokens} if tokens else None


def _usage(request: Request, answer: Answer) -> dict[str, Any]:
    """Words between spaces, unless the answer says otherwise."""
    read = sum(len(str(message.get("content") or "").split()) for message in request["messages"])
    written = len(answer.text.split())
    counted = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return dict(answer.usage) if answer.usage is not None else counted
