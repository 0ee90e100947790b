"""Prefect's temporary server, kept out of the reach of a terminal's Ctrl-C.

Where no server is configured, Prefect starts one for each flow process, in that process's group. A Ctrl-C, which a
terminal sends to the whole group, ended it at once: the flow could then report nothing more, and Prefect's client asked
the dead server again for minutes before the command ended.
"""

from __future__ import annotations

import subprocess
from functools import partial
from typing import Any
from unittest.mock import patch

from prefect.settings import PREFECT_API_URL


def keep_apart() -> None:
    """Let a temporary server of this process start in a group of its own; Prefect still ends it with the process.

    Does nothing where a server is configured: none is started then.
    """
    if PREFECT_API_URL.value():
        return
    # Needed for the temporary server anyway, and slow: not before it is known that there will be one.
    from prefect.server.api.server import SubprocessASGIServer

    start = SubprocessASGIServer._run_uvicorn_command
    if getattr(start, "apart", False):
        return

    def start_apart(server: SubprocessASGIServer) -> subprocess.Popen[Any]:
        # Prefect has no setting for how it starts the process.
        with patch.object(subprocess, "Popen", partial(subprocess.Popen, process_group=0)):
            return start(server)

    start_apart.apart = True  # type: ignore[attr-defined]
    SubprocessASGIServer._run_uvicorn_command = start_apart  # type: ignore[assignment, method-assign]
