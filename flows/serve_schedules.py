"""Flow deployments of `prefect.yaml`, served from this process: `python -m flows.serve_schedules`.

Needs a Prefect server that outlives one run (`prefect server start`, and PREFECT_API_URL pointing at it). A
team that has a process work pool uses `prefect deploy --all` with the same file instead. After that, this process
still serves: a run goes to it or to the pool's worker, whoever is there first.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect import Flow, serve
from prefect.deployments.runner import RunnerDeployment
from prefect.runner.storage import LocalStorage
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL

from luthier.errors import InputError, LuthierError
from luthier.lineage.sources import find_root
from luthier.reading import parse_yaml, read_text, shaped
from luthier.stopping import started

FILE = "prefect.yaml"


def read_deployments(path: Path) -> list[RunnerDeployment]:
    """The deployments of a `prefect.yaml`, ready to serve.

    Raises:
        InputError: the file is missing or broken, or names a flow that does not exist.
    """
    fix = "restore the file, with its list `deployments`"
    document = parse_yaml(read_text(path, fix=fix), where=str(path), fix=fix)
    with shaped("not a file of deployments", where=str(path), fix=fix):
        return [_deployment(row, path) for row in document["deployments"]]


def _deployment(row: Mapping[str, Any], path: Path) -> RunnerDeployment:
    schedules = [
        Cron(item["cron"], timezone=item.get("timezone", "UTC"), active=item.get("active", True))
        for item in row.get("schedules", [])
    ]
    deployment = _flow(row, path).to_deployment(
        row["name"],
        schedules=schedules or None,
        parameters=dict(row.get("parameters") or {}),
        description=row.get("description"),
        tags=list(row.get("tags") or []),
        concurrency_limit=row.get("concurrency_limit"),
    )
    assert isinstance(deployment, RunnerDeployment)  # a coroutine only where an event loop runs
    # Said anew, since `prefect deploy` may have left the same deployment with another place of its code.
    deployment.storage = LocalStorage(str(path.parent.resolve()))
    return deployment


def _flow(row: Mapping[str, Any], path: Path) -> Flow[..., Any]:
    """The flow behind an entrypoint such as `flows/rebuild.py:rebuild`, imported as `flows.rebuild`."""
    file, _, name = str(row.get("entrypoint", "")).partition(":")
    module = file.removesuffix(".py").replace("/", ".")
    try:
        found = vars(importlib.import_module(module))[name]
    except (ImportError, KeyError, ValueError) as error:
        raise InputError(
            f"deployment {row.get('name')!r}, field entrypoint: no flow {row.get('entrypoint')!r}",
            where=str(path),
            fix="write flows/<module>.py:<flow>",
        ) from error
    assert isinstance(found, Flow)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of `python -m flows.serve_schedules`; runs until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m flows.serve_schedules", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--keep-schedules", action="store_true", help="leave schedules active on shutdown (for a supervisor's restart)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the deployments, serve nothing")
    options = parser.parse_args(argv)
    started()
    try:
        deployments = read_deployments(find_root() / FILE)
        if options.dry_run:
            for item in deployments:
                crons = [getattr(entry.schedule, "cron", "") for entry in item.schedules or []]
                print(f"{item.flow_name}/{item.name}  {', '.join(crons) or 'on demand'}")
            return 0
        if not PREFECT_API_URL.value():
            raise InputError(
                "no Prefect server is set",
                where="PREFECT_API_URL",
                fix="run `prefect server start` and `prefect config set PREFECT_API_URL=http://127.0.0.1:4200/api`",
            )
    except LuthierError as error:
        print(f"serve_schedules: {error}", file=sys.stderr)
        return 1
    serve(*deployments, pause_on_shutdown=not options.keep_schedules)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
