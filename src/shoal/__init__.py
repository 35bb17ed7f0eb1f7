"""Shoal: a Git-like data lake for data of any shape.

    import shoal

    shoal.query("count() by host", "log.ndjson").to_pandas()

    lake = shoal.create("my-lake")
    logs = lake.create("logs", key="ts")
    logs.load("log.ndjson")
    logs.query("status >= 500").to_list()
    lake.sql("select host, count(*) from logs group by host").to_arrow()

`shoal.errors` has the exceptions, `shoal.spark` what Spark code needs.
"""

from typing import TYPE_CHECKING, Any

from shoal import version
from shoal.lazy import exported

if TYPE_CHECKING:
    from shoal import errors, ids, spark
    from shoal.api.branch import Branch
    from shoal.api.infos import CommitInfo
    from shoal.api.lake import Lake
    from shoal.api.options import Memory, ReadOptions
    from shoal.api.pool import Pool
    from shoal.api.transaction import Transaction
    from shoal.client.opening import create, open  # noqa: A004 - it is `shoal.open`
    from shoal.errors import ShoalError
    from shoal.frames.python_values import Error, from_python, to_python
    from shoal.frames.results import Results
    from shoal.model.values import Value
    from shoal.planner.file_query import query

__version__ = version.VERSION
__all__ = [
    "Branch",
    "CommitInfo",
    "Error",
    "Lake",
    "Memory",
    "Pool",
    "ReadOptions",
    "Results",
    "ShoalError",
    "Transaction",
    "Value",
    "__version__",
    "create",
    "errors",
    "from_python",
    "ids",
    "open",
    "query",
    "spark",
    "to_python",
]

_HOMES = {
    "Branch": "shoal.api.branch",
    "CommitInfo": "shoal.api.infos",
    "Error": "shoal.frames.python_values",
    "Lake": "shoal.api.lake",
    "Memory": "shoal.api.options",
    "Pool": "shoal.api.pool",
    "ReadOptions": "shoal.api.options",
    "Results": "shoal.frames.results",
    "ShoalError": "shoal.errors",
    "Transaction": "shoal.api.transaction",
    "Value": "shoal.model.values",
    "create": "shoal.client.opening",
    "errors": "shoal.errors",
    "from_python": "shoal.frames.python_values",
    "ids": "shoal.ids",
    "open": "shoal.client.opening",
    "query": "shoal.planner.file_query",
    "spark": "shoal.spark",
    "to_python": "shoal.frames.python_values",
}
"""The modules of public names, loaded on first use so that `import shoal` and commands start fast."""


def __getattr__(name: str) -> Any:
    value = globals()[name] = exported(_HOMES, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
