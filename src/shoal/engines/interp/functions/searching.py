"""`grep`: a text anywhere in a value, in its strings or in the names of its fields, in either case."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shoal.engines.interp.functions.arguments import failure, first_non_string
from shoal.engines.interp.functions.strings import STRINGS
from shoal.engines.interp.reshape import parts
from shoal.engines.stopping import NEVER, Stop
from shoal.errors import InvalidInput
from shoal.lang.regexps import Regexp, cached_if_short, compile_regexp
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.extent import MAX_BYTES, TooLarge
from shoal.model.values import FALSE, NULL, TRUE, Value, string, text_error

if TYPE_CHECKING:
    import re2
else:
    re2 = lazy("re2")

_MAX_TERMS = 4096
_VERDICTS: t.MemoKey[dict[str, bool]] = t.MemoKey("whether names contain a term")


def grep(pattern: Value, value: Value) -> Value:
    """Whether the text is found: `grep("FOO", {s:"xfooy"})` is true."""
    if pattern.type.under is not t.STRING:
        return failure("grep(): pattern argument must be a string", pattern)
    term = unicodedata.normalize("NFC", pattern.data or "")
    return TRUE if contains_text(value, term) else FALSE


def contains_text(value: Value, term: str) -> bool:
    """Whether a string in the value, or the dotted name of a field, contains the term in either case."""
    for typ, data in parts(value.type, value.data):
        if isinstance(typ, t.Record):
            if _names_contain(typ, term):
                return True
        elif typ is t.STRING and is_within(term, data or ""):
            return True
    return False


def is_within(term: str, text: str) -> bool:
    """Whether the text contains the term, letters being the same in either case."""
    if term.isascii() and text.isascii():
        return term.lower() in text.lower()
    match = _folded(term).search(text)
    return match is not None and len((match[0] or "").encode()) == len(term.encode())


@cached_if_short(256)
def _folded(term: str) -> Regexp:
    return compile_regexp(f"(?i){re2.escape(term)}")


def _names_contain(typ: t.Record, term: str) -> bool:
    verdicts = typ.memo.setdefault(_VERDICTS, {})
    if term not in verdicts:
        if len(verdicts) >= _MAX_TERMS:
            verdicts.clear()
        verdicts[term] = any(is_within(term, name) for name in dotted_names(typ))
    return verdicts[term]


def dotted_names(typ: t.Record) -> Iterator[str]:
    """The names of all fields, those of nested records with the names above them."""
    for field in typ.fields:
        under = field.type.under
        if isinstance(under, t.Record) and under.fields:
            yield from (f"{field.name}.{name}" for name in dotted_names(under))
        else:
            yield field.name


def regexp(pattern: Value, text: Value, *, limit: int = MAX_BYTES) -> Value:
    """The leftmost match and its groups: `regexp("(a)(b)?", "xa")` is `["a","a",null(string)]`; null without one."""
    if pattern.type.under is not t.STRING:
        return failure("regexp: string required for first arg", pattern)
    try:
        compiled = compile_regexp(pattern.data or "")
    except InvalidInput as e:
        return text_error(f"regexp: {e}")
    if text.type.under is not t.STRING:
        return failure("regexp: string required for second arg", text)
    return Value(STRINGS, compiled.search(text.data or "", limit))


def regexp_replace(text: Value, pattern: Value, new: Value, *, stop: Stop = NEVER, limit: int = MAX_BYTES) -> Value:
    """Every match replaced: `regexp_replace("a: b", "(\\w): (\\w)", "$1=$2")` is `"a=b"`."""
    wrong = first_non_string(text, pattern, new)
    if wrong is not None:
        return failure("regexp_replace: string arg required", wrong)
    if text.data is None:
        return NULL
    if pattern.data is None or new.data is None:
        return text_error("regexp_replace: 2nd and 3rd args cannot be null")
    try:
        return string(compile_regexp(pattern.data).replace_all(text.data, new.data, stop.checked, limit))
    except TooLarge:
        raise
    except InvalidInput as e:
        return text_error(f"regexp_replace: {e}")
