"""A reverse proxy that spoils chosen requests on their way to a real server."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.luthier.targets.local_server import running

Fault = Literal[
    "ok", "429", "429-later", "500", "400", "reset", "slow", "truncated", "model", "empty", "list", "uncounted"
]


class FaultProxy:
    """Passes everything on; the n-th POST meets the n-th fault of the script, later ones none.

    Args:
        upstream: Root of the real server, with /v1.
        slow_seconds: How long a "slow" answer takes.
    """

    def __init__(self, upstream: str, slow_seconds: float) -> None:
        self.upstream = upstream
        self.slow_seconds = slow_seconds
        self.script: list[Fault] = []
        self.posts = 0
        self.url = ""
        self.lock = threading.Lock()

    def plan(self, *faults: Fault) -> None:
        """Start a new script."""
        with self.lock:
            self.script, self.posts = list(faults), 0

    def next_fault(self) -> Fault:
        """The fault of the POST that arrives now."""
        with self.lock:
            self.posts += 1
            return self.script[self.posts - 1] if self.posts <= len(self.script) else "ok"


class _Handler(BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep test output quiet."""

    def do_GET(self) -> None:
        self._send(*self._forward(b""))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        fault = self.proxy.next_fault()
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif fault in ("429", "429-later", "500", "400"):
            wait = {"429": {"retry-after": "0.01"}, "429-later": {"retry-after": "3600"}}.get(fault, {})
            error = {"error": {"message": f"scripted {fault}"}}
            self._send(int(fault[:3]), json.dumps(error).encode(), wait)
        else:
            if fault == "slow":
                time.sleep(self.proxy.slow_seconds)
            status, answer = self._forward(body)
            self._send(status, _spoiled(fault, answer))

    def _forward(self, body: bytes) -> tuple[int, bytes]:
        root = urlsplit(self.proxy.upstream)
        connection = http.client.HTTPConnection(root.hostname or "", root.port)
        try:
            headers = {"content-type": "application/json"}
            connection.request(self.command, self.path, body or None, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        try:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client has already hung up on a slow answer
            self.close_connection = True


def _spoiled(fault: Fault, answer: bytes) -> bytes:
    value = json.loads(answer)
    if fault == "truncated":
        return answer[: len(answer) // 2]
    if fault == "model":
        value["model"] = "another-model"
    elif fault == "empty":
        value["choices"] = []
    elif fault == "list":
        value = [value]
    elif fault == "uncounted":
        del value["usage"]
    return json.dumps(value).encode()


@contextmanager
def proxied(upstream: str, *, slow_seconds: float = 2.5) -> Iterator[FaultProxy]:
    """Run the proxy on a free port in front of `upstream`."""
    proxy = FaultProxy(upstream, slow_seconds)
    with running(type("Handler", (_Handler,), {"proxy": proxy})) as port:
        proxy.url = f"http://127.0.0.1:{port}/v1"
        yield proxy
