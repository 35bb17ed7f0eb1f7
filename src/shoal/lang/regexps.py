"""Regular expressions and globs, as the language has them: RE2 syntax, linear time, bounded memory.

RE2 is the engine; messages about a bad pattern use the words of Go's `regexp` package, since
programs match on them: "error parsing regexp: missing closing ): `foo(.?`".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import re2

from shoal.errors import InvalidInput
from shoal.model.extent import MAX_TEXT, TOO_LONG

_MAX_MEMORY = 8 << 20
_CACHED = 512

_GO_MESSAGES = {
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid UTF-8": "invalid UTF-8",
    "invalid named capture group": "invalid named capture",
}
_TOO_LARGE = "pattern too large"
_ESCAPE = re.compile(r"\\Q.*?(?:\\E|$)|\\.", re.DOTALL)
_TEMPLATE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})?")


class Regexp:
    """A compiled regular expression. Its methods take text and know nothing of values."""

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY
        self.pattern = pattern
        try:
            self._compiled = re2.compile(pattern.encode(), options)
        except re2.error as e:
            raise InvalidInput(_go_message(pattern, e)) from None

    def matches(self, text: str) -> bool:
        """Whether the pattern is found anywhere in the text."""
        return self._compiled.search(text.encode()) is not None

    def search(self, text: str) -> tuple[str | None, ...] | None:
        """The leftmost match and its groups, None for those that took no part; None without a match."""
        match = self._compiled.search(text.encode())
        if match is None:
            return None
        return tuple(None if g is None else g.decode() for g in (match.group(), *match.groups()))

    @property
    def names(self) -> dict[str, int]:
        """The named groups and their numbers."""
        return {name.decode(): index for name, index in self._compiled.groupindex.items()}

    def replace_all(
        self, text: str, template: str, watch: Callable[[Iterator[Any]], Iterator[Any]] | None = None
    ) -> str:
        """The text with each match replaced; `$1`, `$name` and `${name}` in the template stand for groups.

        An empty match right behind another match is not replaced. InvalidInput if it grows too long. Matches go through
        `watch`, since there may be very many of them.
        """
        names = self.names
        out: list[str] = []
        end = 0
        room = MAX_TEXT - len(text)
        matches = self._compiled.finditer(text)
        for match in matches if watch is None else watch(matches):
            begin, stop = match.span()
            out.append(text[end:begin])
            if stop > end or begin == 0:
                out.append(_expand(template, (match.group(), *match.groups()), names))
                room -= len(out[-1])
                if room < 0:
                    raise InvalidInput(str(TOO_LONG.data))
            end = stop
        return "".join(out) + text[end:]


@lru_cache(_CACHED)
def compile_regexp(pattern: str) -> Regexp:
    """The pattern, compiled; InvalidInput if it is none."""
    if any(token.group() == r"\C" for token in _ESCAPE.finditer(pattern)):  # a byte may be half a character
        raise InvalidInput(r"error parsing regexp: invalid escape sequence: `\C`")
    return Regexp(pattern)


def _go_message(pattern: str, error: re2.error) -> str:
    text = bytes(error.args[0]).decode(errors="replace")
    if text.startswith(_TOO_LARGE):
        return f"error parsing regexp: expression too large: `{pattern}`"
    what, _, where = text.partition(": ")
    return f"error parsing regexp: {_GO_MESSAGES.get(what, what)}: `{where}`"


def _expand(template: str, groups: tuple[str | None, ...], names: dict[str, int]) -> str:
    """A replacement with its references filled in; an unknown group is empty, a lone `$` stands for itself."""

    def fill(m: re.Match[str]) -> str:
        name = m[2] or m[3]
        if name is None:
            return "$"
        is_place = name.isascii() and name.isdigit() and len(name) < 9 and (name == "0" or name[0] != "0")
        index = int(name) if is_place else names.get(name, len(groups))
        return (groups[index] or "") if index < len(groups) else ""

    return _TEMPLATE.sub(fill, template)


_GLOB_DROPPED = frozenset("?[]{}")
_GLOB_QUOTED = frozenset("/$^+.()=!|,")
_GLOB_PART = re.compile(r"\\\*|\*+|.", re.DOTALL)


def glob_to_regexp(glob: str) -> str:
    r"""The regular expression of a glob, anchored at both ends: `S*` is `^S.*$`, `\*` is a star.

    Only stars are wild. The other marks that shells know, `?[]{}`, are left out.
    """
    return f"^{''.join(_glob_part(m.group()) for m in _GLOB_PART.finditer(glob))}$"


def _glob_part(part: str) -> str:
    if part.startswith("*"):
        return ".*"
    if part in _GLOB_DROPPED:
        return ""
    return f"\\{part}" if part in _GLOB_QUOTED else part
