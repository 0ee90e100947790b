"""`OpenAITarget`: any OpenAI-compatible server (vLLM first), through the official client."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal

from luthier.errors import InputError, TargetError
from luthier.files import digest_text
from luthier.target import Attempt, Completion, Failure, Request, Usage
from luthier.targets.attempts import FIRST_WAIT_SECONDS, AttemptError, GaveUpError, Policy, attempt
from luthier.targets.batching import Answer, chat_rows, complete_once_each, context_is_full, cut_at_stop

_TEMPLATE_TOKENS = 128
"""Ours: more than the begin, system and end marks that chat templates of current models add."""
_MESSAGE_TOKENS = 16


class OpenAITarget:
    """A model behind HTTP. The server batches; we keep `concurrency` requests in flight.

    Raw prompts go to /completions, messages to /chat/completions (the server applies its template).
    Retries are ours: exponential backoff with a seeded jitter, Retry-After honoured, every try an
    `Attempt`. Only tries that may have reached the engine count a call (not a refused connection, not
    a 4xx). A server says how many tokens a *successful* try took; those of a try that timed out stay
    unknown and are entered as 0. A prompt that the server refuses as longer than its context is
    answered as every engine does: "" and "length".

    A server that lists its models as owned by "vllm" also gets `structured_outputs` (choices, JSON
    schema), no begin token on raw prompts, and /tokenize. Elsewhere a schema goes out as
    `response_format` (chat only), and choices are picked by log-probability (raw prompts only).

    A server's weights cannot be seen. The fingerprint is made of the model's name with `revision`, if
    the user pins one; else with the server's address and what it lists about the model.

    Args:
        base_url: Root with its /v1.
        model: Name that the server lists.
        revision: Pins the weights; the address then no longer matters.
        api_key: Taken from OPENAI_API_KEY when None; servers without keys ignore it.
        timeout_seconds: Of one attempt.
        retries: Further tries of one request.
        concurrency: Requests in flight.
        first_wait_seconds: Wait before the first retry; doubles each time.

    Raises:
        InputError: no base_url, or a setting out of range.
        TargetError: the server does not answer, or does not serve the model (both named).
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        revision: str = "",
        api_key: str | None = None,
        timeout_seconds: float = 60.0,
        retries: int = 4,
        concurrency: int = 16,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
    ) -> None:
        import openai

        if not base_url.startswith(("http://", "https://")):
            raise InputError(
                f"base_url {base_url!r} is not a web address", where="target.base_url", fix="write http://host:port/v1"
            )
        if concurrency < 1 or timeout_seconds <= 0:
            raise InputError(
                f"concurrency {concurrency} or timeout_seconds {timeout_seconds} is out of range",
                where="target",
                fix="use 1 or more, and more than 0 seconds",
            )
        self.name = model
        self._url = base_url.rstrip("/")
        self._policy = Policy(retries, first_wait_seconds, where=f"{self._url}, model {model}")
        self._client = openai.OpenAI(
            base_url=self._url,
            api_key=api_key or os.environ.get("OPENAI_API_KEY") or "none",
            max_retries=0,
            timeout=timeout_seconds,
        )
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="luthier-openai")
        try:
            listed = self._listed()
        except TargetError:
            self.close()
            raise
        self._vllm = listed.get("owned_by") == "vllm"
        self._names = {model, str(listed.get("root") or model)}
        place = revision or json.dumps([self._url, listed.get("root"), listed.get("owned_by")])
        self.fingerprint = f"openai-{digest_text(json.dumps([model, place]))[:16]}"

    def complete(self, requests: Sequence[Request]) -> list[Completion | Failure]:
        """Answer requests, `concurrency` at a time, equal ones once; same length and order as given.

        Raises:
            InputError: a request without one meaning, or one that this server cannot express.
        """
        for request in requests:
            self._check(request)
        return complete_once_each(requests, lambda distinct: list(self._pool.map(self._complete_one, distinct)))

    def choice_logprobs(self, requests: Sequence[Request]) -> list[tuple[float, ...]]:
        """Summed log-probability of each choice after the prompt, echoed by /completions.

        With /tokenize (vLLM) prompt and choice are tokenised apart, as the in-process engines do; else
        the tokens that begin inside the choice are summed.

        Raises:
            InputError: a request without choices.
            TargetError: the server gives no log-probabilities, or none for messages.
        """
        jobs = [(request, choice) for request in requests for choice in request.choices]
        if any(not request.choices for request in requests):
            raise InputError("field choices: empty", fix="give the texts to score")
        scores = list(self._pool.map(lambda job: self._score(*job)[0], jobs))
        rows, start = [], 0
        for request in requests:
            rows.append(tuple(scores[start : start + len(request.choices)]))
            start += len(request.choices)
        return rows

    def count_tokens(self, request: Request) -> int:
        """Upper bound of the prompt's tokens: one a byte (no tokenizer makes more), plus the template's."""
        if isinstance(request.prompt, str):
            return len(request.prompt.encode()) + 1
        text = sum(len(message.content.encode()) + _MESSAGE_TOKENS for message in request.prompt)
        return text + _TEMPLATE_TOKENS

    def close(self) -> None:
        """End the threads and connections."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def _listed(self) -> Mapping[str, Any]:
        """What /models says of our model."""

        def read(body: Mapping[str, Any], seconds: float) -> list[Mapping[str, Any]]:
            rows = body.get("data")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise AttemptError("/models lists nothing", retry=True, usage=Usage(seconds=seconds))
            return rows

        rows = self._ask(lambda: self._client.models.with_raw_response.list().text, read, seed="models")[0]
        names = [str(row.get("id")) for row in rows]
        if self.name not in names:
            raise TargetError(
                f"the server serves {', '.join(sorted(names)) or 'no model'}, not {self.name!r}",
                where=self._url,
                fix="correct target.model, or start the server with this model",
            )
        return rows[names.index(self.name)]

    def _ask(self, send: Callable[[], str], read: Any, seed: str) -> tuple[Any, tuple[Attempt, ...]]:
        try:
            return attempt(send, read, self._policy, seed)
        except GaveUpError as end:
            raise end.error from end

    def _check(self, request: Request) -> None:
        raw = isinstance(request.prompt, str)
        if not self._vllm and raw and request.json_schema:
            raise InputError("field json_schema: this server takes it with messages only", fix="use chat messages")
        if not self._vllm and not raw and request.choices:
            raise InputError("field choices: this server takes them with raw prompts only", fix="use a raw prompt")

    def _complete_one(self, request: Request) -> Answer:
        if request.choices and not self._vllm:
            return self._complete_by_score(request)
        try:
            completion, failed = attempt(
                lambda: self._send(request),
                lambda body, seconds: self._read(request, body, seconds),
                self._policy,
                request.key(""),
            )
        except GaveUpError as end:
            if end.status == 400 and "context length" in end.error.problem:
                return replace(context_is_full(), attempts=end.attempts)
            return Failure(end.error, end.attempts)
        return replace(completion, attempts=(*failed, *completion.attempts))

    def _send(self, request: Request) -> str:
        values: dict[str, Any] = {
            "model": self.name,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        }
        if request.temperature > 0:
            values |= {"top_p": request.top_p, "seed": request.seed % 2**32}
        if request.stop:
            values["stop"] = list(request.stop)
        extra: dict[str, Any] = {}
        if request.choices:
            extra["structured_outputs"] = {"choice": list(request.choices)}
            values["max_tokens"] = max(request.max_tokens, max(len(choice.encode()) for choice in request.choices) + 1)
        elif request.json_schema and self._vllm:
            extra["structured_outputs"] = {"json": json.loads(request.json_schema)}
        elif request.json_schema:
            schema = {"name": "answer", "strict": True, "schema": json.loads(request.json_schema)}
            values["response_format"] = {"type": "json_schema", "json_schema": schema}
        if isinstance(request.prompt, str):
            if self._vllm:
                extra["add_special_tokens"] = False
            return self._client.completions.with_raw_response.create(
                prompt=request.prompt, extra_body=extra or None, **values
            ).text
        messages: Any = chat_rows(request)
        return self._client.chat.completions.with_raw_response.create(
            messages=messages, extra_body=extra or None, **values
        ).text

    def _read(self, request: Request, body: Mapping[str, Any], seconds: float) -> Completion:
        """Make a completion from a body that may be anything."""
        usage = _usage(body, seconds)
        self._check_model(body, usage)
        choices = body.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict):
            raise AttemptError("the server's answer has no choices", retry=True, usage=usage)
        message = first.get("message") if not isinstance(request.prompt, str) else {"content": first.get("text")}
        content = message.get("content") if isinstance(message, dict) else None
        finish = first.get("finish_reason")
        if finish not in ("stop", "length") or not isinstance(content, str | None):
            raise AttemptError(f"the server ended with {finish!r} instead of stop or length", retry=False, usage=usage)
        if usage.prompt_tokens == 0:
            raise AttemptError(
                "the server counts no tokens", retry=False, usage=usage, fix="use a server that fills `usage`"
            )
        text, stopped = cut_at_stop(content or "", request.stop)
        if request.choices and text not in request.choices:
            problem = f"the server ignored the choices and answered {text[:40]!r}"
            raise AttemptError(problem, retry=False, usage=usage, fix="use a server with structured_outputs")
        ended: Literal["stop", "length"] = "stop" if stopped or finish == "stop" else "length"
        return Completion(text, ended, usage, (Attempt(usage),))

    def _check_model(self, body: Mapping[str, Any], usage: Usage) -> None:
        """Refuse an answer of another model; a dated snapshot of ours (`name-2026-01-01`) is ours."""
        served = str(body.get("model", ""))
        if served not in self._names and not served.startswith(f"{self.name}-"):
            raise AttemptError(
                f"the server answered with model {served!r} instead of {self.name!r}",
                retry=False,
                usage=usage,
                fix="point target.base_url at a server of this model",
            )

    def _complete_by_score(self, request: Request) -> Answer:
        """Pick the likeliest choice; the usage is the sum over the choices scored."""
        scores: list[float] = []
        attempts: list[Attempt] = []
        for choice in request.choices:
            try:
                score, tries = self._score(request, choice)
            except TargetError as error:
                cause = error.__cause__
                attempts.extend(cause.attempts if isinstance(cause, GaveUpError) else ())
                return Failure(error, tuple(attempts))
            scores.append(score)
            attempts.extend(tries)
        usage = sum((tried.usage for tried in attempts if not tried.problem), Usage())
        best = max(range(len(scores)), key=lambda index: (scores[index], -index))
        return Completion(request.choices[best], "stop", usage, tuple(attempts))

    def _score(self, request: Request, choice: str) -> tuple[float, tuple[Attempt, ...]]:
        prompt, tail = self._token_ids(request), self._token_ids(Request(choice))
        apart = prompt is not None and tail is not None
        if not apart and not isinstance(request.prompt, str):
            raise TargetError(
                "the server gives no log-probabilities for messages", where=self._policy.where, fix="use a raw prompt"
            )
        sent: Any = [*(prompt or []), *(tail or [])] if apart else f"{request.prompt}{choice}"
        kept = len(tail or [])

        def read(body: Mapping[str, Any], seconds: float) -> tuple[float, Usage]:
            usage = _usage(body, seconds)
            self._check_model(body, usage)
            try:
                logprobs = body["choices"][0]["logprobs"]
                values = logprobs["token_logprobs"]
                chosen = (
                    values[-kept:]
                    if apart
                    else [v for v, at in zip(values, logprobs["text_offset"], strict=True) if at >= len(request.prompt)]
                )
                return float(sum(chosen)), usage
            except (KeyError, IndexError, TypeError, ValueError) as error:
                problem = "the server gives no log-probabilities of the prompt"
                raise AttemptError(
                    problem, retry=False, usage=usage, fix="use a server with echo and logprobs"
                ) from error

        (score, usage), failed = self._ask(
            lambda: (
                self._client.completions.with_raw_response.create(
                    model=self.name, prompt=sent, max_tokens=0, echo=True, logprobs=1, temperature=0.0
                ).text
            ),
            read,
            seed=request.key(choice),
        )
        return score, (*failed, Attempt(usage))

    def _token_ids(self, request: Request) -> list[int] | None:
        """Prompt tokens by vLLM's /tokenize, template included; None where the server has no such thing."""
        if not self._vllm:
            return None
        if isinstance(request.prompt, str):
            body: dict[str, Any] = {"prompt": request.prompt, "add_special_tokens": False}
        else:
            body = {"messages": chat_rows(request), "add_generation_prompt": True}
        url = self._url.removesuffix("/v1") + "/tokenize"

        def read(answer: Mapping[str, Any], seconds: float) -> list[int]:
            ids = answer.get("tokens")
            if not isinstance(ids, list) or not all(isinstance(value, int) for value in ids):
                raise AttemptError("/tokenize gives no tokens", retry=True, usage=Usage(seconds=seconds))
            return ids

        ids: list[int] = self._ask(
            lambda: self._client.post(url, body={"model": self.name, **body}, cast_to=str), read, request.key("tokens")
        )[0]
        return ids


def _usage(body: Mapping[str, Any], seconds: float) -> Usage:
    """What the server says the call cost; a missing or odd field counts as 0."""
    counts = body.get("usage")
    if not isinstance(counts, dict):
        counts = {}
    read, written = counts.get("prompt_tokens"), counts.get("completion_tokens")
    return Usage(1, read if isinstance(read, int) else 0, written if isinstance(written, int) else 0, round(seconds, 6))
