"""`OpenAITarget`: any OpenAI-compatible server (vLLM first), through the official client."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from luthier.errors import InputError, TargetError
from luthier.files import digest_text
from luthier.target import Attempt, Completion, Failure, Request, Usage
from luthier.targets.server.choosing import Chooser
from luthier.targets.server.dialect import Dialect
from luthier.targets.server.gate import OUTAGE_SECONDS, Gate, print_line
from luthier.targets.server.redaction import Redactor, secrets_of
from luthier.targets.server.replies import ReplyReader
from luthier.targets.server.wire import Wire, is_web_address
from luthier.targets.support.attempts import FIRST_WAIT_SECONDS, AttemptError, GaveUpError, Policy, attempt
from luthier.targets.support.batching import Answer, complete_once_each, context_is_full
from luthier.targets.support.generation import TextGenerator
from luthier.targets.support.scoring import ChoiceScorer

KEY_VARIABLE = "OPENAI_API_KEY"
_PROBE_SECONDS = 10.0
_TEMPLATE_TOKENS = 128
"""Ours: more than the begin, system and end marks that chat templates of current models add."""
_MESSAGE_TOKENS = 16


class OpenAITarget:
    """A model behind HTTP. The server batches; we keep `concurrency` requests in flight.

    Raw prompts go to /completions, messages to /chat/completions (the server applies its template). A server without
    /completions gets a raw prompt as one user message. docs/servers.md says which replies are answers and which are
    faults, what is tried again, and when the server is given up.

    Retries are ours: exponential backoff with a seeded jitter, Retry-After honoured, every try an `Attempt`. Only
    tries that may have reached the engine count a call (not a refused connection, not a 4xx). A server says how many
    tokens a *successful* try took; those of a try that timed out stay unknown and are entered as 0.

    A server that lists its models as owned by "vllm" also gets `structured_outputs` (choices, JSON schema), no begin
    token on raw prompts, and /tokenize. Elsewhere a schema goes out as `response_format` (chat only). Choices are
    then picked by log-probability where the prompt is raw and the server gives them; else the model is asked to name
    one and its words are matched, messages twice at most; a model that names none gives "".

    A server's weights cannot be seen. The fingerprint is made of the model's name with `revision`, if the user pins
    one; else with the server's address and what it lists about the model. Room to think and a missing /completions
    change answers and are part of it.

    Args:
        base_url: Root with its /v1.
        model: Name that the server lists.
        revision: Pins the weights; the address then no longer matters.
        api_key: Taken from the environment variable OPENAI_API_KEY when None; servers without keys ignore it. It
            never stands in an error, an attempt or a line, even where the server repeats it.
        timeout_seconds: Of one attempt, from the first byte to the last.
        retries: Further tries of one request.
        concurrency: Requests in flight.
        first_wait_seconds: Wait before the first retry; doubles each time.
        outage_seconds: How long to wait for a server that is away, when opened and later.
        thinking_tokens: New tokens of a chat answer beyond `max_tokens`, for what a reasoning model thinks before it.

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
        outage_seconds: float = OUTAGE_SECONDS,
        thinking_tokens: int = 0,
    ) -> None:
        if not is_web_address(base_url):
            raise InputError(
                f"base_url {base_url!r} is not a web address", where="target.base_url", fix="write http://host:port/v1"
            )
        if concurrency < 1 or timeout_seconds <= 0 or outage_seconds < 0 or thinking_tokens < 0:
            raise InputError(
                f"one of concurrency {concurrency}, timeout_seconds {timeout_seconds}, outage_seconds "
                f"{outage_seconds} and thinking_tokens {thinking_tokens} is out of range",
                where="target",
                fix="use a concurrency of 1 or more, a timeout above 0, and nothing below 0",
            )
        self.name = model
        self._url = base_url.rstrip("/")
        key = api_key or os.environ.get(KEY_VARIABLE) or "none"
        if not (key.isascii() and key.isprintable()):
            raise InputError("the key holds characters that no key has", where=KEY_VARIABLE, fix="copy the key again")
        self._redact = Redactor(key, *secrets_of(self._url))
        where = f"{self._redact(self._url)}, model {model}"
        self._policy = Policy(retries, first_wait_seconds, where=where)
        self._wire = Wire(self._url, key, timeout_seconds, self._redact)
        self._gate = Gate(lambda: self._look(min(timeout_seconds, _PROBE_SECONDS)), where, outage_seconds)
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="luthier-openai")
        try:
            listed = self._listed()
            vllm = listed.get("owned_by") == "vllm"
            chat_only = not vllm and self._lacks_raw()
            self._gate.opened()
        except BaseException:
            self.close()
            raise
        aliases = frozenset({str(listed.get("root") or model)})
        self._dialect = Dialect(model, vllm=vllm, chat_only=chat_only, thinking_tokens=thinking_tokens, say=print_line)
        reader = ReplyReader(model, aliases, thinking_tokens > 0, self._redact)
        self._scorer = ChoiceScorer(self._wire, reader, self._ask, model, self._url, tokenizes=vllm)
        self._generator = TextGenerator(self._wire, reader, self._ask, self._dialect)
        self._chooser = Chooser(self._generator, self._scorer, self._dialect)
        place = revision or json.dumps([self._url, listed.get("root"), listed.get("owned_by")])
        extras = [f"thinking {thinking_tokens}"] * (thinking_tokens > 0) + ["chat only"] * chat_only
        self.fingerprint = f"openai-{digest_text(json.dumps([model, place, *extras]))[:16]}"

    def complete(self, requests: Sequence[Request]) -> list[Completion | Failure]:
        """Answer requests, `concurrency` at a time, equal ones once; same length and order as given.

        Raises:
            InputError: a request without one meaning, or one that this server cannot express.
            TargetError: nothing can be served (wrong key or model, a server that stays away or fails every request),
                and nothing of this batch was answered or paid.
        """
        for request in requests:
            self._dialect.check(request)
        if self._gate.closed is not None:
            raise self._gate.closed
        answers = complete_once_each(requests, self._serve)
        paid = any(isinstance(answer, Completion) or _spent(answer.attempts).calls for answer in answers)
        if self._gate.closed is not None and not paid:
            raise self._gate.closed
        return answers

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
        for request in requests:
            if not self._scorer.takes(request):
                problem = "the server gives no log-probabilities for messages"
                raise TargetError(problem, where=self._policy.where, fix="use a raw prompt")
        scores = list(self._pool.map(lambda job: self._demand(lambda: self._scorer.score(*job)[0]), jobs))
        rows, start = [], 0
        for request in requests:
            rows.append(tuple(scores[start : start + len(request.choices)]))
            start += len(request.choices)
        return rows

    def count_tokens(self, request: Request) -> int:
        """Upper bound of a call's prompt tokens: one a byte (no tokenizer makes more), plus the template's."""
        asked = self._chooser.most_prompt_tokens(request)
        if isinstance(request.prompt, str):
            template = _TEMPLATE_TOKENS if self._dialect.chat_only else 0
            return len(request.prompt.encode()) + 1 + template + asked
        text = sum(len(message.content.encode()) + _MESSAGE_TOKENS for message in request.prompt)
        return text + _TEMPLATE_TOKENS + asked

    def most_usage(self, request: Request) -> Usage:
        """The most calls and new tokens of a request when no try fails: thoughts, and choices that are asked for."""
        room, calls = self._dialect.room(request), self._chooser.most_calls(request)
        return Usage(calls, 0, calls * room)

    def close(self) -> None:
        """End the threads and connections; what is in flight is broken off."""
        self._gate.end()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._wire.close()
        self._pool.shutdown(wait=True)

    def _look(self, seconds: float) -> str:
        """Whether the server is there: "" or what is wrong. Any answer that is no 5xx will do."""
        try:
            self._wire.get("/models", seconds)
        except AttemptError as error:
            return error.text if error.kind == "down" or error.status >= 500 else ""
        return ""

    def _listed(self) -> Mapping[str, Any]:
        """What /models says of our model."""

        def read(body: Mapping[str, Any], seconds: float) -> list[Mapping[str, Any]]:
            rows = body.get("data")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise AttemptError("/models lists nothing", retry=True, usage=Usage(seconds=seconds))
            return rows

        rows = self._demand(lambda: self._ask(lambda: self._wire.get("/models"), read, "models"))[0]
        names = [str(row.get("id")) for row in rows]
        if self.name not in names:
            served = self._redact(", ".join(sorted(names))) or "no model"
            raise TargetError(
                f"the server serves {served}, not {self.name!r}",
                where=self._redact(self._url),
                fix="correct target.model, or start the server with this model",
            )
        row: Mapping[str, Any] = rows[names.index(self.name)]
        return row

    def _lacks_raw(self) -> bool:
        """Whether the server has no /completions for this model."""
        try:
            self._wire.post("/completions", {"model": self.name, "prompt": {}, "max_tokens": 1})
        except AttemptError as error:
            return error.status in (404, 405, 501)
        return False

    def _ask(self, send: Callable[[], str], read: Any, seed: str) -> tuple[Any, tuple[Attempt, ...]]:
        return attempt(send, read, self._policy, seed, self._gate)

    def _demand(self, ask: Callable[[], Any]) -> Any:
        """What `ask` gives; its failure as the `TargetError` inside, without the library's errors behind it."""
        try:
            return ask()
        except GaveUpError as end:
            error = end.error
        raise error

    def _serve(self, requests: list[Request]) -> list[Answer]:
        answers: list[Answer] = []
        if self._gate.tripped:
            self._gate.try_again(lambda: answers.append(self._complete_one(requests[0])))
        return answers + list(self._pool.map(self._complete_one, requests[len(answers) :]))

    def _complete_one(self, request: Request) -> Answer:
        tries: list[Attempt] = []
        try:
            if request.choices:
                return self._chooser.choose(request, tries)
            reply = self._generator.generate(request, tries)
            return reply.completion(tries)
        except GaveUpError as end:
            if end.last is not None and end.last.kind == "too_long":
                return replace(context_is_full(), attempts=tuple(tries))
            return Failure(end.error, tuple(tries))


def _spent(attempts: Sequence[Attempt]) -> Usage:
    return sum((tried.usage for tried in attempts), Usage())
