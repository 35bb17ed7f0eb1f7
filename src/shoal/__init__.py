"""Shoal: a Git-like data lake for data of any shape."""

from typing import TYPE_CHECKING, Any

from shoal import version
from shoal.lazy import exported

if TYPE_CHECKING:
    from shoal.api.options import Memory
    from shoal.client.opening import create, open  # noqa: A004 - it is `shoal.open`
    from shoal.errors import ShoalError
    from shoal.frames.python_values import Error, from_python, to_python
    from shoal.frames.results import Results
    from shoal.model.values import Value
    from shoal.planner.file_query import query

__version__ = version.VERSION
__all__ = ["Error", "Memory", "Results", "ShoalError", "Value", "create", "from_python", "open", "query", "to_python"]

_HOMES = {
    "Error": "shoal.frames.python_values",
    "Memory": "shoal.api.options",
    "Results": "shoal.frames.results",
    "ShoalError": "shoal.errors",
    "Value": "shoal.model.values",
    "create": "shoal.client.opening",
    "from_python": "shoal.frames.python_values",
    "open": "shoal.client.opening",
    "query": "shoal.planner.file_query",
    "to_python": "shoal.frames.python_values",
}
"""The modules of public names, loaded on first use so that `import shoal` and commands start fast."""


def __getattr__(name: str) -> Any:
    value = globals()[name] = exported(_HOMES, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
