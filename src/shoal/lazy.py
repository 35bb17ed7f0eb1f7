"""Modules that are imported when they are first used, so that a command loads only what it needs.

A lazy import is an import: it stands in an `else` beside the import that the type checker and the layer rules read.

    if TYPE_CHECKING:
        from shoal.lake import object_writer
    else:
        object_writer = lazy("shoal.lake.object_writer")

Nothing else in the package may import by name; `tests/test_imports.py` holds that, and that both lines agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from shoal.errors import Unsupported


class _LazyModule(ModuleType):
    """Stands for a module; reading an attribute imports it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)

    def __repr__(self) -> str:
        return f"<lazy module {self.__name__}>"


def lazy(name: str) -> Any:
    """The module of this name, imported when one of its attributes is first read."""
    return _LazyModule(name)


def lazy_modules(package: str) -> dict[str, Any]:
    """The modules of a package by name, each imported when it is first used; `_` in a name is written `-`."""
    paths = import_module(package).__path__
    return {found.name.replace("_", "-"): lazy(f"{package}.{found.name}") for found in iter_modules(paths)}


def load(*modules: ModuleType) -> None:
    """Import lazy modules now, where waiting later would be worse."""
    for module in modules:
        import_module(module.__name__)


def exported(homes: Mapping[str, str], name: str) -> Any:
    """A public name of a package from the module that defines it, for `__getattr__` of the package."""
    if name not in homes:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)


def optional_library(name: str) -> Any:
    """A library that is not a dependency; the extra that brings it has its name."""
    try:
        return import_module(name)
    except ImportError:
        raise Unsupported(f"{name} is not installed (install it with: pip install 'shoal[{name}]')") from None
