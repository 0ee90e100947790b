"""Prefect flows, one per file: when things run and how they went.

Importing this package makes Prefect tell nothing over the network and log little of its own; it must therefore
come before `import prefect`, which is the case for every module in it. Whatever the user has set stays.
"""

import os
import sys

from luthier.stopping import end_while_starting

_QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL": "INFO",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "INFO",
    # A busy two-core machine needs more than the 20 seconds that are Prefect's default.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
}
for _name, _value in _QUIET.items():
    os.environ.setdefault(_name, _value)

# Only as a program (`python -m flows.rebuild`); its `main` then has its own way with signals.
if sys.argv[:1] == ["-m"]:
    end_while_starting()
