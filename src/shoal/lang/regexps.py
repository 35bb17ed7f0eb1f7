"""Regular expressions and globs, as the language has them: RE2 syntax, linear time, bounded memory.

RE2 is the engine; messages about a bad pattern use the words of Go's `regexp` package, since
programs match on them: "error parsing regexp: missing closing ): `foo(.?`".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from shoal.errors import InvalidInput
from shoal.lazy import lazy
from shoal.model.extent import MAX_BYTES, MAX_TEXT, TOO_LONG, check_size

if TYPE_CHECKING:
    import re2
else:
    re2 = lazy("re2")

_MAX_MEMORY = 8 << 20
_CACHED = 512
_SHORT = 1000
"""How long texts may be that are kept, in all."""
_R = TypeVar("_R")

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


def cached_if_short(size: int) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Keeps what a function makes of the latest texts. Texts come from users: large ones are not kept."""

    def decorate(function: Callable[..., _R]) -> Callable[..., _R]:
        cached = lru_cache(size)(function)

        @wraps(function)
        def call(*texts: str) -> _R:
            return cached(*texts) if sum(map(len, texts)) <= _SHORT else function(*texts)

        return call

    return decorate


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

    def search(self, text: str, limit: int = MAX_BYTES) -> tuple[str | None, ...] | None:
        """The leftmost match and its groups, None for those that took no part; None without a match."""
        match = self._compiled.search(text.encode())
        if match is None:
            return None
        spans = (match.span(i) for i in range(self._compiled.groups + 1))
        check_size(sum(end - begin for begin, end in spans), limit)
        return tuple(None if g is None else g.decode() for g in (match.group(), *match.groups()))

    @property
    def names(self) -> dict[str, int]:
        """The named groups and their numbers."""
        return {name.decode(): index for name, index in self._compiled.groupindex.items()}

    def replace_all(
        self,
        text: str,
        template: str,
        watch: Callable[[Iterator[Any]], Iterator[Any]] | None = None,
        limit: int = MAX_BYTES,
    ) -> str:
        """The text with each match replaced; `$1`, `$name` and `${name}` in the template stand for groups.

        An empty match right behind another match is not replaced. InvalidInput if it grows too long. Matches go through
        `watch`, since there may be very many of them. TooLarge if it grows beyond the limit.
        """
        parts = _parse_template(template, self.names)
        out: list[str] = []
        end = 0
        room = MAX_TEXT - len(text)
        matches = self._compiled.finditer(text)
        for match in matches if watch is None else watch(matches):
            begin, stop = match.span()
            out.append(text[end:begin])
            if stop > end or begin == 0:
                groups = (match.group(), *match.groups())
                pieces = [part if isinstance(part, str) else _group(groups, part) for part in parts]
                room -= sum(map(len, pieces))
                if room < 0:
                    raise InvalidInput(str(TOO_LONG.data))
                check_size(MAX_TEXT - room, limit)
                out.append("".join(pieces))
            end = stop
        return "".join(out) + text[end:]


@cached_if_short(_CACHED)
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


def _parse_template(template: str, names: dict[str, int]) -> list[str | int]:
    """The parts of a replacement: texts, and the numbers of groups. A lone `$` stands for itself."""
    parts: list[str | int] = []
    end = 0
    for m in _TEMPLATE.finditer(template):
        name = m[2] or m[3]
        parts += [template[end : m.start()], "$" if name is None else _group_number(name, names)]
        end = m.end()
    return [part for part in (*parts, template[end:]) if part != ""]


def _group_number(name: str, names: dict[str, int]) -> int:
    is_number = name.isascii() and name.isdigit() and len(name) < 9 and (name == "0" or name[0] != "0")
    return int(name) if is_number else names.get(name, _NO_GROUP)


_NO_GROUP = 1 << 30


def _group(groups: tuple[str | None, ...], number: int) -> str:
    """The text of a group; that of an unknown group is empty."""
    return (groups[number] or "") if number < len(groups) else ""


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
