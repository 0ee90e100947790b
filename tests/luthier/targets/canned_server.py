"""A real HTTP server whose replies a test writes: what odd servers send, byte for byte."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.luthier.targets.local_server import running

MODEL = "smol"


@dataclass(frozen=True)
class Canned:
    """One reply. `body` may be an object, or bytes that are no JSON; `drip` seconds lie between its bytes."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    drip: float = 0.0
    cut: bool = False

    @property
    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class CannedServer:
    """Where the server is, what it was asked, and how it answers."""

    reply: Callable[[str, dict[str, Any]], Canned]
    url: str = ""
    port: int = 0
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def posts(self, route: str = "completions") -> list[dict[str, Any]]:
        """Bodies posted to routes that end like this; the look for /completions at the start is left out."""
        return [body for path, body in self.asked if path.endswith(route) and body.get("prompt") != {}]


class CannedHandler(BaseHTTPRequestHandler):
    """Answers as `server_state` says."""

    server_state: CannedServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep test output quiet."""

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _answer(self, body: dict[str, Any]) -> None:
        state = self.server_state
        with state.lock:
            if body:
                state.asked.append((self.path, body))
            state.keys.add(self.headers.get("authorization", ""))
        canned = state.reply(self.path, body)
        try:
            self.send_response(canned.status)
            for name, value in {"content-type": "application/json", **canned.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(canned.data)))
            self.end_headers()
            if canned.cut:
                self.wfile.write(canned.data[: len(canned.data) // 2])
                self.close_connection = True
                self.connection.close()
            elif canned.drip:
                for place in range(len(canned.data)):
                    self.wfile.write(canned.data[place : place + 1])
                    self.wfile.flush()
                    time.sleep(canned.drip)
            else:
                self.wfile.write(canned.data)
        except OSError:  # the client has hung up
            self.close_connection = True


def models(*names: str, owner: str = "someone") -> Canned:
    """What /models lists."""
    return Canned({"object": "list", "data": [{"id": name, "owned_by": owner, "root": name} for name in names]})


def said(
    content: Any = "four", finish: Any = "stop", *, read: Any = 9, written: Any = 3, model: Any = MODEL, **more: Any
) -> Canned:
    """A reply of /chat/completions, and of /completions: the field that the other one reads is ignored."""
    usage = {"prompt_tokens": read, "completion_tokens": written}
    choice = {"index": 0, "finish_reason": finish, "message": {"content": content, **more}, "text": content}
    return Canned({"model": model, "choices": [choice], "usage": usage})


def refused(message: str, status: int = 400, **more: Any) -> Canned:
    """An error status with an error object."""
    return Canned({"error": {"message": message, **more}}, status)


@contextmanager
def answering(
    reply: Callable[[str, dict[str, Any]], Canned], *, listed: Canned | None = None, raw: bool = True
) -> Iterator[CannedServer]:
    """Run the server; `reply` answers posts with path and body. Without `raw` there is no /completions."""

    def all_routes(path: str, body: dict[str, Any]) -> Canned:
        if path.endswith("/models"):
            return listed or models(MODEL)
        if path.endswith("/v1/completions") and (not raw or body.get("prompt") == {}):
            return refused("no prompt" if raw else "no such route", 400 if raw else 404)
        return reply(path, body)

    state = CannedServer(all_routes)
    with running(type("Handler", (CannedHandler,), {"server_state": state})) as port:
        state.port, state.url = port, f"http://127.0.0.1:{port}/v1"
        yield state
