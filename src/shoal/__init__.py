"""Shoal: a Git-like data lake for data of any shape."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal import version

if TYPE_CHECKING:
    from shoal.api.python_values import Error, from_python, to_python
    from shoal.api.query import query
    from shoal.api.results import Results
    from shoal.client.opening import create, open  # noqa: A004 - it is `shoal.open`
    from shoal.engines.interp.environment import Memory
    from shoal.errors import ShoalError
    from shoal.model.values import Value

__version__ = version.VERSION
__all__ = ["Error", "Memory", "Results", "ShoalError", "Value", "create", "from_python", "open", "query", "to_python"]

_PLACES = {
    "Error": "shoal.api.python_values",
    "Memory": "shoal.engines.interp.environment",
    "Results": "shoal.api.results",
    "ShoalError": "shoal.errors",
    "Value": "shoal.model.values",
    "create": "shoal.client.opening",
    "from_python": "shoal.api.python_values",
    "open": "shoal.client.opening",
    "query": "shoal.api.query",
    "to_python": "shoal.api.python_values",
}
"""Loaded when first asked for, so that `import shoal` and the command start at once."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
