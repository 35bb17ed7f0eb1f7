"""Peak memory of this process, and what a tree of processes has now.

What getrusage tells may be the parent's: it survives the exec.
"""

from __future__ import annotations

import resource
from pathlib import Path

_PROCESSES = Path("/proc")
_STATUS = _PROCESSES / "self" / "status"


def mebibytes() -> int:
    """The most memory that this process has had so far."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def tree_mebibytes(root: int) -> int:
    """What a process and all that descend from it have resident now; pages that they share count for each of them."""
    parents, pages = {}, {}
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        pid = int(stat.parent.name)
        parents[pid], pages[pid] = int(fields[1]), int(fields[21])
    return sum(pages[pid] for pid in pages if _descends(pid, root, parents)) * resource.getpagesize() // 2**20


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid != root and pid in parents:
        pid = parents[pid]
    return pid == root
