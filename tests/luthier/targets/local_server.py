"""A small OpenAI-compatible server over a real in-process target: what vLLM's routes that we use look like."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from luthier.target import Completion, Message, Request
from luthier.targets.openvino import OpenVinoTarget


class _Handler(BaseHTTPRequestHandler):
    target: OpenVinoTarget
    model: str
    owner: str
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep test output quiet."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            row = {"id": self.model, "object": "model", "owned_by": self.owner, "root": self.model}
            self._reply(200, {"object": "list", "data": [row]})
        else:
            self._refuse(404, "no such route")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("model") != self.model:
            self._refuse(404, f"the model {body.get('model')!r} does not exist")
        elif not isinstance(body.get("prompt", ""), str | list):
            self._refuse(400, "the prompt is neither text nor tokens")
        elif self.path == "/tokenize" and self.owner == "vllm":
            ids = self.target._prompt_ids(_request(body))
            self._reply(200, {"tokens": ids, "count": len(ids)})
        elif self.path == "/v1/completions" and body.get("echo"):
            self._echo(body)
        elif self.path in ("/v1/completions", "/v1/chat/completions"):
            self._complete(body)
        else:
            self._refuse(404, "no such route")

    def _complete(self, body: dict[str, Any]) -> None:
        request = _request(body)
        if self.target.count_tokens(request) + request.max_tokens > 8192:
            self._refuse(400, "This model's maximum context length is 8192 tokens")
            return
        (answer,) = self.target.complete([request])
        assert isinstance(answer, Completion)
        content = (
            {"text": answer.text} if "prompt" in body else {"message": {"role": "assistant", "content": answer.text}}
        )
        self._reply(200, self._body(content, answer.finish, answer.usage.prompt_tokens, answer.usage.completion_tokens))

    def _echo(self, body: dict[str, Any]) -> None:
        """Log-probabilities of a prompt given as text or as token ids, as `echo` with no new token gives."""
        prompt = body["prompt"]
        ids = self.target._encode(prompt) if isinstance(prompt, str) else prompt
        settings = self.target._settings(echo=True, logprobs=1, max_new_tokens=0)
        (output,) = self.target._run([(ids, settings)], companion=False)
        texts = [self.target._tokenizer.decode([token]) for token in ids]
        offsets = [len("".join(texts[:place])) for place in range(len(ids))]
        logprobs = {"tokens": texts, "text_offset": offsets, "token_logprobs": [None, *output.logprobs[1:]]}
        self._reply(200, self._body({"text": "", "logprobs": logprobs}, "length", len(ids), 0))

    def _body(self, content: dict[str, Any], finish: str, read: int, written: int) -> dict[str, Any]:
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        choice = {"index": 0, "finish_reason": finish, **content}
        return {"id": "local", "object": "completion", "model": self.model, "choices": [choice], "usage": usage}

    def _refuse(self, status: int, message: str) -> None:
        self._reply(status, {"error": {"message": message, "code": status}})

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serve(target: OpenVinoTarget, model: str, *, owner: str = "vllm") -> Iterator[str]:
    """Run the server on a free port; gives its root with /v1."""
    handler = type("Handler", (_Handler,), {"target": target, "model": model, "owner": owner})
    with running(handler) as port:
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def running(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Run a threaded HTTP server with this handler on a free local port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _request(body: dict[str, Any]) -> Request:
    prompt: str | tuple[Message, ...]
    if "messages" in body:
        prompt = tuple(Message(row["role"], row["content"]) for row in body["messages"])
    else:
        prompt = body["prompt"]
    bound = body.get("structured_outputs", {})
    schema = bound.get("json") or body.get("response_format", {}).get("json_schema", {}).get("schema")
    return Request(
        prompt,
        max_tokens=body.get("max_tokens", 16),
        temperature=body.get("temperature", 1.0),
        top_p=body.get("top_p", 1.0),
        seed=body.get("seed", 0),
        stop=tuple(body.get("stop", ())),
        choices=tuple(bound.get("choice", ())),
        json_schema=json.dumps(schema) if schema else "",
    )
