"""Which process holds a reservation, and whether it still runs (Linux: a pid and its start time)."""

from __future__ import annotations

import socket
from pathlib import Path


def owner_of(pid: int) -> str:
    """Name of a process of this host, never that of a later process with the same id."""
    return f"{socket.gethostname()}:{pid}:{_start_ticks(pid)}"


def is_alive(owner: str) -> bool:
    """Whether a reservation's process still runs; another host's is taken to be alive."""
    host, pid, _ = owner.rsplit(":", 2)
    return host != socket.gethostname() or (_start_ticks(int(pid)) != "" and owner == owner_of(int(pid)))


def _start_ticks(pid: int) -> str:
    """Start time of a process (clock ticks since boot), so that a reused id is not mistaken; "" when gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    state, *rest = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]
