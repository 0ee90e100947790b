"""The one form in which a measurement is kept (`docs/design.md`, section 10)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path

RESULTS = Path(__file__).parent / "results.jsonl"


def record(
    name: str,
    value: float,
    *,
    unit: str,
    n: int,
    ours: float | None = None,
    peer: float | None = None,
    seeds: Sequence[int] = (),
    interval: tuple[float, float] | None = None,
    keep: bool = True,
) -> None:
    """Print one result as a JSON line and append it to `benchmarks/results.jsonl`.

    Args:
        name: Fixed name of the figure.
        value: The figure; yes/no results are 1 or 0.
        unit: Of the value.
        n: What it was measured over.
        ours: Our side, where there are two.
        peer: The other side.
        seeds: Training seeds that it is the mean of.
        interval: 95 % interval.
        keep: Whether it is appended too.
    """
    row = {
        "name": name,
        "value": value,
        "ours": ours,
        "peer": peer,
        "unit": unit,
        "n": n,
        "seeds": list(seeds),
        "interval": list(interval) if interval else None,
        "machine": machine(),
        "date": date.today().isoformat(),
    }
    line = json.dumps(row)
    if keep:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    print(line)


def machine() -> str:
    """What a reader must know of the machine: processor, cores, matrix instructions, Python."""
    flags: set[str] = set()
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "flags":
                flags |= set(value.split())
            if key.strip() == "model name":
                model = value.strip()
    matrix = [name for name in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if name in flags][:1]
    return f"{model}, {os.cpu_count()} cores, {' '.join(matrix)}, Python {platform.python_version()}"
