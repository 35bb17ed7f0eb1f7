"""Flags in the style of Go: `-f csv`, `-f=csv`, `--f csv`; a boolean flag takes a value after `=`, as in `-q=false`.

Flags and other arguments may be mixed; `--` ends the flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.errors import InvalidInput
from shoal.model.literals import parse_duration
from shoal.model.node import frozen
from shoal.sizes import parse_size
from shoal.suggestions import did_you_mean

_TRUE = {"1", "t", "T", "true", "TRUE", "True"}
_FALSE = {"0", "f", "F", "false", "FALSE", "False"}


class UsageError(InvalidInput):
    """A command that is not written as its help says. It ends with status 2, before anything is done."""


@frozen
class Flag:
    """A flag. `kind` is bool, str, int, a key of `_PARSERS`, or a tuple of the texts that the flag may have.

    A flag whose default is a list may be repeated.
    """

    name: str
    kind: type | str | tuple[str, ...]
    default: Any
    help: str
    placeholder: str = ""


@dataclass(slots=True)
class Parsed:
    """The values of all flags by name, the names of those given, and the other arguments."""

    values: dict[str, Any] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def parse(flags: Sequence[Flag], argv: Sequence[str]) -> Parsed:
    """Parse the arguments of a command."""
    by_name = {f.name: f for f in flags}
    out = Parsed({f.name: list(f.default) if isinstance(f.default, list) else f.default for f in flags})
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            out.words += rest
            break
        if not _is_flag(word):
            out.words.append(word)
            continue
        name, equals, text = _split(word)
        if name not in by_name:
            hint = did_you_mean(f"-{name}", [f"-{each}" for each in by_name]) or " (see -help)"
            raise UsageError(f"flag provided but not defined: -{name}{hint}")
        flag = by_name[name]
        if flag.kind is bool:
            text = text if equals else "true"
        elif not equals:
            if not rest:
                raise UsageError(f"flag needs an argument: -{name}")
            text = rest.pop(0)
        value = convert(flag, text)
        out.given.add(name)
        if isinstance(flag.default, list):
            out.values[name].append(value)
        else:
            out.values[name] = value
    return out


def split_leading(flags: Sequence[Flag], argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off the flags before the first other argument, with their values."""
    by_name = {f.name: f for f in flags}
    at = 0
    while at < len(argv) and _is_flag(argv[at]) and argv[at] != "--":
        name, equals, _ = _split(argv[at])
        takes_next = name in by_name and by_name[name].kind is not bool and not equals
        at += 2 if takes_next else 1
    return list(argv[:at]), list(argv[at:])


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not word[1].isdigit()


def _split(word: str) -> tuple[str, str, str]:
    """The name of a flag, its equal sign if there is one, and the text after it."""
    return word.removeprefix("-").removeprefix("-").partition("=")


def convert(flag: Flag, text: str) -> Any:
    """Parse the value of a flag."""
    try:
        if flag.kind is bool:
            return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}[text]
        if isinstance(flag.kind, tuple):
            return {each: each for each in flag.kind}[text]
        if flag.kind in _PARSERS:
            return _PARSERS[str(flag.kind)](text)
        return flag.kind(text) if callable(flag.kind) else text
    except (ValueError, KeyError, InvalidInput):
        raise UsageError(f"invalid value {text!r} for flag -{flag.name}{_hint(flag, text)}") from None


def _hint(flag: Flag, text: str) -> str:
    """The texts that a flag may have, or an example of a valid value for kinds that need one."""
    if isinstance(flag.kind, tuple):
        return did_you_mean(text, flag.kind) or f" (one of: {', '.join(filter(None, flag.kind))})"
    example = {"size": "500MiB", "duration": "1h30m"}.get(str(flag.kind))
    return f" (such as {example})" if example else ""


def _parse_count(text: str) -> int:
    if int(text) < 0:
        raise ValueError(text)
    return int(text)


def _parse_character(text: str) -> str:
    if len(text) != 1:
        raise ValueError(text)
    return text


def _parse_seconds(text: str) -> float:
    return parse_duration(text) / 1e9


_PARSERS: dict[str, Callable[[str], Any]] = {
    "size": parse_size,
    "count": _parse_count,
    "character": _parse_character,
    "duration": _parse_seconds,
}
"""A duration is written as `1h30m` and parsed to seconds."""


def usage(flags: Sequence[Flag]) -> str:
    """A help line for each flag."""
    rows = [(f"-{f.name} {_placeholder(f)}".rstrip(), f.help, f.default) for f in flags]
    width = max(len(r[0]) for r in rows)
    return "\n".join(f"  {left.ljust(width)}  {text}{_default(default)}" for left, text, default in rows)


def _placeholder(flag: Flag) -> str:
    if flag.placeholder:
        return flag.placeholder
    if isinstance(flag.kind, tuple):
        return "|".join(flag.kind)
    return {bool: "", str: "S", int: "N", "size": "SIZE", "count": "N", "duration": "D"}[flag.kind]


def _default(value: Any) -> str:
    if value is True:
        return " (default true)"
    return f" (default {value})" if value not in (None, False, "", 0, []) else ""
