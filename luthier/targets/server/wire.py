"""`Wire`: one HTTP exchange with a server through the official client, within a total time."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from luthier.target import Usage
from luthier.targets.server.redaction import Redactor
from luthier.targets.server.refusals import read_status
from luthier.targets.support.attempts import AttemptError


def is_web_address(url: str) -> bool:
    """Whether a server can be asked at this address."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:  # a port or an address that is none
        return False


class Wire:
    """Sends bodies and gives back texts. Threads may use it at once.

    The exchanges run on an event loop of their own: there a deadline ends whatever goes on. The time limits of a
    blocking client hold for one read alone, so that a server that sends a byte now and then holds it for ever.

    Args:
        url: Root of the server, with its /v1.
        key: Sent as a bearer token.
        timeout_seconds: From the first byte sent to the last one read.
        redact: Cleans what is told of errors.
    """

    def __init__(self, url: str, key: str, timeout_seconds: float, redact: Redactor) -> None:
        import openai

        self._seconds, self._redact = timeout_seconds, redact
        self._client = openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0, timeout=timeout_seconds)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="luthier-openai-loop", daemon=True)
        self._thread.start()

    def get(self, path: str, timeout_seconds: float | None = None) -> str:
        """The text of a page below the root.

        Raises:
            AttemptError: no text came.
        """
        return self._exchange(lambda: self._client.get(path, cast_to=str), timeout_seconds)

    def post(self, path: str, body: Mapping[str, Any]) -> str:
        """The text that answers a JSON body; `path` is below the root, or a whole address. Raises as `get`."""
        return self._exchange(lambda: self._client.post(path, body=dict(body), cast_to=str), None)

    def close(self) -> None:
        """Break off what is in flight, end the thread."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.close()
        await self._loop.shutdown_default_executor()

    def _exchange(self, send: Callable[[], Awaitable[str]], timeout_seconds: float | None) -> str:
        import openai

        if self._loop.is_closed():
            raise AttemptError("the target is closed", kind="refused", retry=False, usage=Usage())
        started = time.perf_counter()

        async def bounded() -> str:
            async with asyncio.timeout(timeout_seconds or self._seconds):
                return await send()

        def spent(calls: int) -> Usage:
            return Usage(calls=calls, seconds=round(time.perf_counter() - started, 6))

        try:
            return asyncio.run_coroutine_threadsafe(bounded(), self._loop).result()
        except (TimeoutError, openai.APITimeoutError):
            problem = AttemptError(
                "the server timed out", kind="down", retry=True, usage=spent(1), fix="raise target.timeout_seconds"
            )
        except openai.APIStatusError as error:
            problem = read_status(error, spent, self._redact)
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            unmade = type(cause).__name__ == "ConnectError"
            text = f"the connection {'was refused' if unmade else 'broke'} ({cause})"
            usage = spent(0 if unmade else 1)
            problem = AttemptError(self._redact(text), kind="down", retry=True, usage=usage, fix="start the server")
        except RecursionError:  # the library's own reading of an error
            problem = AttemptError("the server's error cannot be read", retry=True, usage=spent(1))
        except concurrent.futures.CancelledError:  # closed meanwhile
            problem = AttemptError("the target is closed", kind="refused", retry=False, usage=spent(1))
        raise problem
