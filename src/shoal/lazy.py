"""What is done on first use, so that a command does only what it needs: imports, and patterns that are compiled.

A lazy import is an import: it is in the `else` of the import that the type checker and the layer rules read.

    if TYPE_CHECKING:
        from shoal.lake import object_writer
    else:
        object_writer = lazy("shoal.lake.object_writer")

Nothing else in the package may import by name; `tests/test_imports.py` checks that, and that both lines agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from shoal import extras


class _LazyModule(ModuleType):
    """A proxy for a module; reading an attribute imports it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_imported(self.__name__), name)

    def __repr__(self) -> str:
        return f"<lazy module {self.__name__}>"


def _imported(name: str) -> ModuleType:
    """The module of this name. If a library is missing that an extra installs, the error says which extra."""
    try:
        return import_module(name)
    except ModuleNotFoundError as e:
        error = extras.missing(e.name)
        if error is None:
            raise
        raise error from None


def lazy(name: str) -> Any:
    """The module of this name, imported when one of its attributes is first read."""
    return _LazyModule(name)


def lazy_modules(package: str) -> dict[str, Any]:
    """The modules of a package by name, each imported on first use; `_` in a name becomes `-`."""
    paths = import_module(package).__path__
    return {module.name.replace("_", "-"): lazy(f"{package}.{module.name}") for module in iter_modules(paths)}


def load(*modules: ModuleType) -> None:
    """Import lazy modules now, so that nobody waits for them later."""
    for module in modules:
        _imported(module.__name__)


class _LazyPattern:
    """A regular expression; reading an attribute compiles it. The attribute is bound, so the next one to read it is as
    fast as with a compiled expression."""

    def __init__(self, text: str, flags: re.RegexFlag) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        bound = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, bound)
        return bound


def lazy_pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """The regular expression of this text, compiled when it is first used."""
    pattern: Any = _LazyPattern(text, flags)
    return pattern  # type: ignore[no-any-return]


def exported(homes: Mapping[str, str], name: str) -> Any:
    """A public name of a package from the module that defines it, or that it is, for `__getattr__` of the package."""
    if name not in homes:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    module = import_module(homes[name])
    return module if homes[name] == f"shoal.{name}" else getattr(module, name)


def optional_library(name: str) -> Any:
    """A library that an extra installs; Unsupported if it is not there."""
    return _imported(name)
