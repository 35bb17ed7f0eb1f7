"""How much memory a database of DuckDB takes, and where it puts what does not fit.

Measured with DuckDB 2.0, by sorting, grouping and joining three million rows: `memory_limit` and
`max_temp_directory_size` are kept, and are of a database, not of a connection. `operator_memory_limit`, which is of a
connection, bounds nothing: the same memory is held. So a query that is limited has a database of its own. What does not
go to disk, such as the state of `list`, fails beyond the limit.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from tempfile import gettempdir

from shoal.engines.stopping import Stop
from shoal.errors import ShoalError, StorageFailure

DISK_PER_MEMORY = 16
"""How much more may go to disk than is held in memory."""
_OUT_OF_MEMORY = "Out of Memory Error"
_numbers = count()


def memory_settings(memory: int | None) -> dict[str, str]:
    """The configuration of a new database; None is all the memory that DuckDB takes by itself."""
    # Two databases in one directory would write the same files, and without one they go where the user stands.
    made = {"temp_directory": str(Path(gettempdir()) / f"shoal-{os.getpid()}-{next(_numbers)}")}
    if memory is not None:
        made |= {"memory_limit": f"{memory}B", "max_temp_directory_size": f"{DISK_PER_MEMORY * memory}B"}
    return made


def out_of_memory(stop: Stop, error: Exception) -> ShoalError | None:
    """The error of a query that needs more memory than there is; None for another error."""
    if not str(error).startswith(_OUT_OF_MEMORY):
        return None
    if stop.memory is not None:
        return stop.out_of_memory()
    return StorageFailure(f"DuckDB: {str(error).splitlines()[0]}")
