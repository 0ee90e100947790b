"""`TextGenerator`: one generation from a server, written otherwise or shorter as long as its refusals say how."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from luthier.target import Attempt, Request
from luthier.targets.server.dialect import Dialect
from luthier.targets.server.refusals import smaller_room
from luthier.targets.server.replies import Reply, ReplyReader
from luthier.targets.server.wire import Wire
from luthier.targets.support.attempts import Ask, GaveUpError


class TextGenerator:
    """Asks for text. Threads may use it at once.

    Args:
        wire, dialect, reader, ask: How to exchange, write, read and repeat.
    """

    def __init__(self, wire: Wire, reader: ReplyReader, ask: Ask, dialect: Dialect) -> None:
        self._wire, self._reader, self._ask, self._dialect = wire, reader, ask, dialect

    def generate(self, request: Request, tries: list[Attempt]) -> Reply:
        """The reply to a request; its choices are constrained, which not every server can.

        Args:
            request: What to ask.
            tries: Gets every try that failed, also when the last one did.

        Raises:
            GaveUpError: no reply; of kind "too_long" when the prompt leaves no room.
        """
        room = self._dialect.room(request)
        while True:
            path, body = self._dialect.write(request, room)
            try:
                send, read = partial(self._wire.post, path, body), partial(self._read, request)
                reply, failed = self._ask(send, read, request.key(""))
            except GaveUpError as end:
                tries.extend(end.attempts)
                if end.last is not None and end.last.kind == "parameter":
                    if self._dialect.learn(end.last.parameter, body, request):
                        continue
                elif end.last is not None and end.last.kind == "too_long":
                    room = smaller_room(end.last.text, room, self._dialect.least_room(request))
                    if room:
                        continue
                raise
            tries.extend(failed)
            assert isinstance(reply, Reply)
            return reply

    def _read(self, request: Request, body: Mapping[str, Any], seconds: float) -> Reply:
        return self._reader.read(body, seconds, request.stop, chat=self._dialect.is_chat(request))
