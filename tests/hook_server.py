"""A server on loopback that takes what is posted to it, and answers as it is told to.

```python
with taking(500, 200) as server:  # and 200 from then on
    Webhook("hook", "info", server.url, "secret")
```
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG, HANG_UP = -1, -2
"""In the place of a status: no answer until the server stops; none at all."""


@dataclass(frozen=True)
class Posted:
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class HookServer(ThreadingHTTPServer):
    """`posted` is what it was sent, in order."""

    daemon_threads = True

    def __init__(self, statuses: tuple[int, ...]) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.statuses = iter(statuses)
        self.posted: list[Posted] = []
        self.stopping = threading.Event()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that hang up are part of the tests


@contextmanager
def taking(*statuses: int) -> Iterator[HookServer]:
    server = HookServer(statuses)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Conversation(BaseHTTPRequestHandler):
    server: HookServer

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.posted.append(Posted(self.path, dict(self.headers), body))
            status = next(self.server.statuses, 200)
        if status == HANG:
            self.server.stopping.wait(60)
        if status < 0:
            return
        with suppress(ConnectionError):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"You said: " + self.path.encode() + body)  # as some do, with all the secrets in it
