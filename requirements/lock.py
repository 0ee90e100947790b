"""Write requirements/embedded.lock: every package that pip resolves for embedded.in, pinned, sorted."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCE, LOCK = HERE / "embedded.in", HERE / "embedded.lock"


def main() -> None:
    """Resolve without installing and write the pins (local build tags such as +cpu are left off)."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", report.name, "-r", str(SOURCE)]
        subprocess.run([sys.executable, "-m", "pip", *command], check=True)
        found = json.loads(Path(report.name).read_text())["install"]
    pins = sorted(f"{i['metadata']['name'].lower()}=={i['metadata']['version'].split('+')[0]}" for i in found)
    LOCK.write_text("# Made by `make lock` from embedded.in for Python 3.11.\n" + "\n".join(pins) + "\n")


if __name__ == "__main__":
    main()
