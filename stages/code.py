"""Stage `code`: write down what the code of each stage is, so that a change makes stale what it decides, no more."""

from __future__ import annotations

import shutil

from luthier.context import StageContext
from luthier.files import write_json
from luthier.lineage.sources import CODE_FOLDER
from luthier.stage_code import code_files
from stages.entry import Options, run_stage


def work(context: StageContext, options: Options) -> None:
    """Write data/code/<stage>.json, or data/code/<stage>/<method>.json."""
    files = code_files(context.root)
    print(f"code: {len(files)} stages, no model is called")
    if options.dry_run:
        return
    shutil.rmtree(context.root / CODE_FOLDER, ignore_errors=True)
    for path, content in files.items():
        write_json(context.root / path, content)


if __name__ == "__main__":
    raise SystemExit(run_stage("code", work))
