"""Settings in YAML files. A name that nobody asks for is an error, with a hint at what was most likely meant.

A text may name variables of the environment, as in `${KAFKA_PASSWORD}`: that is how secrets stay out of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import yaml

from shoal.errors import InvalidInput, NotFound, StorageFailure
from shoal.model.literals import parse_duration
from shoal.sizes import parse_size
from shoal.suggestions import did_you_mean

T = TypeVar("T")
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_SECOND = 1e9


class Section:
    """Some settings by name; `where` says in errors which ones."""

    def __init__(self, where: str, items: Any) -> None:
        if not isinstance(items, dict) or not all(isinstance(name, str) for name in items):
            raise InvalidInput(f"{where}: expecting names with values, as in `name: value`")
        self.where = where
        self._items: dict[str, Any] = items
        self._known: set[str] = set()

    def __contains__(self, name: str) -> bool:
        self._known.add(name)
        return name in self._items

    def mention(self, name: str) -> None:
        """Let there be a setting that somebody else reads."""
        self._known.add(name)

    def require_known(self) -> None:
        """InvalidInput if there is a name that was not asked for."""
        for name in self._items:
            if name not in self._known:
                hint = did_you_mean(name, self._known) or f" (there are: {', '.join(sorted(self._known))})"
                raise InvalidInput(f"{self.where}: no setting named {name!r}{hint}")

    def text(self, name: str, default: str | None = None) -> str | None:
        """A text, in which variables of the environment have been replaced."""
        value = self._get(name)
        if value is None:
            return default
        if isinstance(value, (dict, list)):
            raise self._wrong(name, "a text")
        return expand("true" if value is True else "false" if value is False else str(value), f"{self.where}.{name}")

    def required(self, name: str) -> str:
        """A text that has to be there."""
        value = self.text(name)
        if not value:
            raise InvalidInput(f"{self.where}: {name} is missing")
        return value

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of some texts."""
        value = self.text(name, default) or default
        if value not in choices:
            hint = did_you_mean(value, choices) or f" (one of: {', '.join(choices)})"
            raise InvalidInput(f"{self.where}.{name}: {value!r}{hint}")
        return value

    def count(self, name: str, default: int | None = None, least: int = 0) -> int | None:
        """A whole number."""
        value = self._get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._wrong(name, f"a whole number of at least {least}")
        return value

    def seconds(self, name: str, default: float) -> float:
        """A duration such as `1m30s`, in seconds."""
        value = self.text(name)
        return default if value is None else self._parsed(name, parse_duration, value, "30s") / _SECOND

    def size(self, name: str, default: int) -> int:
        """A number of bytes such as `64MiB`."""
        value = self.text(name)
        return default if value is None else self._parsed(name, parse_size, value, "64MiB")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; one text stands for a list of one."""
        value = self._get(name)
        if value is None:
            return ()
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, (dict, list)) or item is None for item in items):
            raise self._wrong(name, "a list of texts")
        return tuple(expand(str(item), f"{self.where}.{name}") for item in items)

    def section(self, name: str) -> Section:
        """Settings within these; none, if there are none."""
        value = self._get(name)
        return Section(f"{self.where}.{name}", {} if value is None else value)

    def sections(self, name: str) -> Iterator[Section]:
        """A list of settings."""
        value = self._get(name)
        if value is not None and not isinstance(value, list):
            raise self._wrong(name, "a list")
        for number, item in enumerate(value or ()):
            yield Section(f"{self.where}.{name}[{number}]", item)

    def pairs(self) -> dict[str, str]:
        """All names with their texts, whatever they are."""
        return {name: self.text(name) or "" for name in self._items}

    def _get(self, name: str) -> Any:
        self._known.add(name)
        return self._items.get(name)

    def _parsed(self, name: str, parse: Callable[[str], int], text: str, example: str) -> int:
        try:
            return parse(text)
        except (InvalidInput, ValueError):
            raise InvalidInput(f"{self.where}.{name}: {text!r} (such as {example})") from None

    def _wrong(self, name: str, expected: str) -> InvalidInput:
        return InvalidInput(f"{self.where}.{name}: expecting {expected}")


def expand(text: str, where: str, environment: Mapping[str, str] = os.environ) -> str:
    """A text with the values of the variables that it names."""

    def value_of(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in environment:
            raise InvalidInput(f"{where}: the environment has no variable {name!r}")
        return environment[name]

    return _VARIABLE.sub(value_of, text)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML whose names are texts: `on` and `no` would be booleans."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        for name, _ in node.value:
            if name.tag == "tag:yaml.org,2002:bool":
                name.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


def read_settings(path: str) -> Section:
    """The settings in a file."""
    try:
        with open(path, "rb") as file:
            items = _Loader(file).get_single_data()
    except FileNotFoundError:
        raise NotFound(f"{path}: file does not exist") from None
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        at = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise InvalidInput(f"{path}: {at}{e.problem or 'not YAML'}") from None
    except yaml.YAMLError as e:
        raise InvalidInput(f"{path}: not YAML: {' '.join(str(e).split())}") from None
    return Section(path, items if items is not None else {})
