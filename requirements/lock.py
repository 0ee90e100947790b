"""Write the locks: each package that pip resolves for embedded.in, and what extras.in adds, pinned and sorted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Resolve without installing and write the pins (local build tags such as +cpu are left off)."""
    write("embedded", "--ignore-installed")
    write("extras")  # on top of what is installed here, the main environment


def write(name: str, *options: str) -> None:
    """Write requirements/<name>.lock from requirements/<name>.in."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = ["install", "--quiet", "--dry-run", *options, "--report", report.name, "-r", str(HERE / f"{name}.in")]
        # DeepSpeed builds its operators when they are first used.
        subprocess.run([sys.executable, "-m", "pip", *command], check=True, env=os.environ | {"DS_BUILD_OPS": "0"})
        found = json.loads(Path(report.name).read_text())["install"]
    pins = sorted(f"{i['metadata']['name'].lower()}=={i['metadata']['version'].split('+')[0]}" for i in found)
    text = f"# Made by `make lock` from {name}.in for Python 3.11.\n" + "\n".join(pins) + "\n"
    (HERE / f"{name}.lock").write_text(text)


if __name__ == "__main__":
    main()
