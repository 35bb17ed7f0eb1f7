"""Grok: strings taken apart by patterns made of named patterns.

A reference becomes a group of the regular expression, named after its number, so that any groups the
patterns have of their own do not disturb the count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from shoal.engines.interp.functions.arguments import failure
from shoal.engines.interp.functions.grok_patterns import PATTERNS
from shoal.errors import InvalidInput
from shoal.lang.regexps import Regexp, cached_if_short, compile_regexp
from shoal.model import types as t
from shoal.model.extent import MAX_BYTES
from shoal.model.values import Value, record, string

_REFERENCE = re.compile(r"%\{(\w+)(?::([\w\[\].]+)(?::\w+)?)?\}", re.ASCII)
_DEFINITION = re.compile(r"(\w+)[\t\n\f\r ]+(.+)", re.ASCII)
_MAX_LENGTH = 200_000
"""How long a pattern may get: each level of references may double it."""


class _Pattern(NamedTuple):
    """A compiled pattern, and its fields by the numbers of their groups, in order."""

    regexp: Regexp
    fields: tuple[tuple[int, str], ...]


def grok(pattern: Value, text: Value, definitions: Value | None = None, *, limit: int = MAX_BYTES) -> Value:
    """The named parts of a text: `grok("%{INT:n} %{WORD:w}", "1 a")` is `{n:"1",w:"a"}`.

    A part that the pattern can do without is left out where the text has none.
    """
    if definitions is not None and definitions.type.under is not t.STRING:
        return failure("grok(): definitions argument must be a string", definitions)
    for name, value in (("pattern", pattern), ("input", text)):
        if value.type.under is not t.STRING:
            return failure(f"grok(): {name} argument must be a string", value)
    given = "" if definitions is None else definitions.data or ""
    try:
        _define(given)
    except InvalidInput as e:
        return failure(f"grok(): {e}", pattern if definitions is None else definitions)
    try:
        compiled = _compile(pattern.data or "", given)
    except InvalidInput as e:
        return failure(f"grok(): {e}", pattern)
    groups = compiled.regexp.search(text.data or "", limit)
    if groups is None:
        return failure("grok(): value does not match pattern", text)
    return record((field, string(part)) for index, field in compiled.fields if (part := groups[index]) is not None)


@cached_if_short(64)
def _define(definitions: str) -> Mapping[str, str]:
    """The patterns to begin with and those of the text, a line each: `NAME pattern`. Other lines do not count."""
    patterns = dict(PATTERNS)
    for line in definitions.split("\n"):
        m = _DEFINITION.fullmatch(line.removesuffix("\r"))
        if m is None:
            continue
        if m[1] in patterns:
            raise InvalidInput("the pattern already exist")
        compile_regexp(_expand(m[2], patterns, count())[0])
        patterns[m[1]] = m[2]
    return patterns


@cached_if_short(256)
def _compile(pattern: str, definitions: str) -> _Pattern:
    if not pattern:
        raise InvalidInput("an empty expression")
    text, groups = _expand(pattern, _define(definitions), count())
    regexp = compile_regexp(text)
    numbers = regexp.names
    return _Pattern(regexp, tuple(sorted((numbers[group], field) for field, group in groups.items())))


def _expand(pattern: str, patterns: Mapping[str, str], numbers: count[int]) -> tuple[str, dict[str, str]]:
    """The regular expression of a pattern, and the group of each field.

    A field named twice is its last group; a pattern's own fields hide those of the patterns it uses.
    """
    own = {m[2] for m in _REFERENCE.finditer(pattern)}
    groups: dict[str, str] = {}

    def expand(m: re.Match[str]) -> str:
        name, field = m[1], m[2]
        if name not in patterns:
            raise InvalidInput(f"the '{name}' pattern doesn't exist")
        group = f"grok_{next(numbers)}"
        text, inner = _expand(patterns[name], patterns, numbers)
        if field:
            groups[field] = group
        groups.update({k: v for k, v in inner.items() if k not in own})
        return f"(?P<{group}>{text})"

    text = _REFERENCE.sub(expand, pattern)
    if len(text) > _MAX_LENGTH:
        raise InvalidInput(f"error parsing regexp: expression too large: `{pattern}`")
    return text, groups
