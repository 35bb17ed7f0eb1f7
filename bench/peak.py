"""Peak memory of this process, and current memory of a process tree.

getrusage may report the peak of the parent, because it survives exec.
"""

from __future__ import annotations

import resource
from pathlib import Path

_PROCESSES = Path("/proc")
_STATUS = _PROCESSES / "self" / "status"


def mebibytes() -> int:
    """The peak memory of this process so far."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def tree_mebibytes(root: int) -> int:
    """Resident memory of a process and its descendants; shared pages count for each of them."""
    parents, pages = {}, {}
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
        pid = int(stat.parent.name)
        parents[pid], pages[pid] = int(fields[1]), int(fields[21])
    return sum(pages[pid] for pid in pages if _descends(pid, root, parents)) * resource.getpagesize() // 2**20


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid != root and pid in parents:
        pid = parents[pid]
    return pid == root
