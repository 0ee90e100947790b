"""Broken servers: no stage ends well with a fault of the machine in its rows, and each goes on once it is mended.

For each kind of broken server `dvc repro grid` must fail, the stage with status 75 and the server's message on the
terminal; once the server is mended the same command must build a grid without a hole. Then *teach* and a search meet
a server that broke after the grid.

    python -m benchmarks.broken_servers           # about five minutes on two cores
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.record import record
from benchmarks.workspace import ROOT, copy_project, environment
from stages.entry import TRY_AGAIN

WORK = ROOT / ".cache" / "broken-servers"
MODEL = "small"
KINDS = (
    "wrong key",
    "key that expires half-way",
    "forbidden",
    "another model listed",
    "model gone",
    "another model answers",
    "dies half-way",
    "500",
    "overloaded",
    "no JSON",
    "half an answer",
    "no choices",
    "no usage",
    "error inside a 200",
    "never answers",
)
FIRST_ANSWERS = 5
"""Answers that a server gives before it breaks half-way."""
PROFILE = """
target: {{ engine: openai, model: {model}, base_url: "{url}", timeout_seconds: 1, retries: 1, concurrency: 4,
  outage_seconds: 1 }}
limits: {{ steps: 20, visits: 4, calls: 8, tokens: 4000 }}
questions: {{ train: 17, validation: 17, test: 17 }}
grid: {{ configurations: [direct, gcd, sort-words], train: 17, validation: 17 }}
mas_architect:
  generator: {{ model: embedded, max_tokens: 32 }}
  teach: {{ variations: 4, confirm: 1 }}
  sft: {{ learning_rate: 1.0e-4, batch: 4, epochs: 1 }}
  reinforce: {{ learning_rate: 1.0e-5, batch: 8, steps: 1, questions: 2, samples: 4 }}
evaluate: {{ resamples: 200 }}
proposer: {{ engine: openai, model: {model}, base_url: "{proposer}", timeout_seconds: 1, retries: 1,
  outage_seconds: 1 }}
search:
  train: 9
  validation: 6
  scope: {{ demonstrations: true, feedback: trace, max_characters: 2000 }}
  textgrad: {{ iterations: 2, proposer: model }}
compare: {{ seeds: [17], unit: calls, budgets: [60, 300], resamples: 200 }}
"""


class Server:
    """A server of one model on a port of its own, healthy until `kind` names what is wrong with it."""

    def __init__(self) -> None:
        self.kind, self.answered, self.posts = "", 0, 0
        self._lock = threading.Lock()

        class Handler(_Handler):
            server_state = self

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def breaks(self, kind: str) -> None:
        """Be broken in this way from now on, "" for healthy."""
        with self._lock:
            self.kind, self.answered, self.posts = kind, 0, 0

    def fault(self, post: bool) -> str:
        """What is wrong with the request that arrives now, "" when it is to be answered."""
        with self._lock:
            self.posts += post
            half_way = self.kind.endswith("half-way")
            if half_way and self.answered < FIRST_ANSWERS:
                self.answered += post
                return ""
            return self.kind


class _Handler(BaseHTTPRequestHandler):
    server_state: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the output quiet."""

    def do_GET(self) -> None:
        fault = self.server_state.fault(post=False)
        if fault == "dies half-way":
            self._hang_up()
        elif fault == "another model listed":
            self._models("another")
        else:
            self._models(MODEL)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        fault = self.server_state.fault(post=True)
        broken: dict[str, Callable[[], None]] = {
            "wrong key": lambda: self._refuse(401, "Incorrect API key provided"),
            "key that expires half-way": lambda: self._refuse(401, "The API key has expired"),
            "forbidden": lambda: self._refuse(403, "This account may not use the model"),
            "model gone": lambda: self._refuse(404, f"The model `{MODEL}` does not exist"),
            "dies half-way": self._hang_up,
            "500": lambda: self._refuse(500, "out of memory"),
            "overloaded": lambda: self._refuse(429, "too many requests", {"retry-after": "3600"}),
            "no JSON": lambda: self._send(200, b"<html>Bad Gateway</html>"),
            "half an answer": lambda: self._send(200, self._answer(body)[:40]),
            "no choices": lambda: self._send(200, self._answer(body, choices=[])),
            "no usage": lambda: self._send(200, self._answer(body, usage=None)),
            "another model answers": lambda: self._send(200, self._answer(body, model="another")),
            "error inside a 200": lambda: self._send(200, json.dumps({"error": {"message": "engine died"}}).encode()),
            "never answers": lambda: time.sleep(5),
        }
        broken.get(fault, lambda: self._send(200, self._answer(body)))()

    def _answer(self, body: dict[str, Any], **changes: Any) -> bytes:
        choice = {"index": 0, "finish_reason": "stop", "text": "2", "message": {"role": "assistant", "content": "2"}}
        usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
        return json.dumps({"model": body.get("model", MODEL), "choices": [choice], "usage": usage, **changes}).encode()

    def _models(self, name: str) -> None:
        rows = [{"id": name, "object": "model", "owned_by": "someone", "root": name}]
        self._send(200, json.dumps({"object": "list", "data": rows}).encode())

    def _refuse(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps({"error": {"message": message}}).encode(), headers)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        try:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client has hung up
            self.close_connection = True


@contextmanager
def asked_of(folder: Path, profile: str) -> Iterator[tuple[Server, Server]]:
    """A healthy target and a healthy proposer, named in a profile of the folder."""
    with Server() as target, Server() as proposer:
        text = PROFILE.format(model=MODEL, url=target.url, proposer=proposer.url)
        (folder / "profiles" / f"{profile}.yaml").write_text(text)
        yield target, proposer


def holes(folder: Path) -> int:
    """Rows of the grid that hold no result; 1 when there is no grid."""
    path = folder / "data" / "grid" / "executions.jsonl"
    if not path.exists():
        return 1
    return sum(json.loads(line)["score"] is None for line in path.read_text().splitlines())


def run(folder: Path, *command: str) -> tuple[int, str]:
    """Status and output of a command in the copy."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def grid_of(folder: Path, kind: str) -> list[str]:
    """What is wrong with how `dvc repro grid` takes a broken server, and its repair."""
    wrong = []
    with asked_of(folder, "broken") as (target, _):
        target.breaks(kind)
        status, told = run(folder, "dvc", "repro", "grid")
        if status == 0:
            wrong.append(f"{kind}: the grid ended well")
        elif f"exited with {TRY_AGAIN}" not in told or target.url not in told:
            wrong.append(f"{kind}: not a fault of the machine, but: {told.strip()[-300:]}")
        if kind == "wrong key" and target.posts > 8:
            wrong.append(f"{kind}: asked {target.posts} times")
        target.breaks("")
        status, told = run(folder, "dvc", "repro", "grid")
        if status or holes(folder):
            wrong.append(f"{kind}: not built once mended: {told.strip()[-300:]}")
    return wrong


def later_stages(folder: Path) -> list[str]:
    """What is wrong with how *teach* and a search take a server that breaks after the grid was built."""
    wrong = []
    with asked_of(folder, "broken") as (target, proposer):
        if run(folder, "dvc", "repro", "grid")[0]:
            return ["the grid of a healthy server failed"]
        (folder / ".cache" / "store.sqlite").unlink()  # it has the answers that the teacher would ask for
        target.breaks("500")
        proposer.breaks("500")
        for stage in ("teach@mas_architect", "search@textgrad"):
            status, told = run(folder, "dvc", "repro", "-s", stage)
            if not status or f"exited with {TRY_AGAIN}" not in told:
                wrong.append(f"{stage}, target broken: {status}, {told.strip()[-300:]}")
        target.breaks("")
        status, told = run(folder, "dvc", "repro", "-s", "search@textgrad")
        if not status or f"exited with {TRY_AGAIN}" not in told:
            wrong.append(f"search@textgrad, proposer broken: {status}, {told.strip()[-300:]}")
    return wrong


def main() -> int:
    """Every kind, then the later stages; record how many were wrong."""
    shutil.rmtree(WORK, ignore_errors=True)
    folder = copy_project(WORK / "copy", profile="smoke")
    params = folder / "params.yaml"
    params.write_text(params.read_text().replace("profile: smoke", "profile: broken"))
    wrong = []
    for kind in KINDS:
        found = grid_of(folder, kind)
        print(f"{kind}: {found or 'fails, and is built once mended'}", file=sys.stderr, flush=True)
        wrong += found
    wrong += later_stages(folder)
    for problem in wrong:
        print(problem, file=sys.stderr)
    record("seams_broken_server", float(len(wrong)), unit="stages that end well with a fault", n=len(KINDS) + 3)
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
