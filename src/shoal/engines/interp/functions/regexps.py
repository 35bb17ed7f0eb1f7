"""Functions with regular expressions."""

from __future__ import annotations

from shoal.engines.interp.functions.failures import failure, first_non_string
from shoal.engines.interp.functions.strings import STRINGS
from shoal.engines.stopping import NEVER, Stop
from shoal.errors import InvalidInput
from shoal.lang.regexps import compile_regexp
from shoal.model import types as t
from shoal.model.values import NULL, Value, string, text_error


def regexp(pattern: Value, text: Value) -> Value:
    """The leftmost match and its groups: `regexp("(a)(b)?", "xa")` is `["a","a",null(string)]`; null without one."""
    if pattern.type.under is not t.STRING:
        return failure("regexp: string required for first arg", pattern)
    try:
        compiled = compile_regexp(pattern.data or "")
    except InvalidInput as e:
        return text_error(f"regexp: {e}")
    if text.type.under is not t.STRING:
        return failure("regexp: string required for second arg", text)
    return Value(STRINGS, compiled.search(text.data or ""))


def regexp_replace(text: Value, pattern: Value, new: Value, stop: Stop = NEVER) -> Value:
    """Every match replaced: `regexp_replace("a: b", "(\\w): (\\w)", "$1=$2")` is `"a=b"`."""
    wrong = first_non_string(text, pattern, new)
    if wrong is not None:
        return failure("regexp_replace: string arg required", wrong)
    if text.data is None:
        return NULL
    if pattern.data is None or new.data is None:
        return text_error("regexp_replace: 2nd and 3rd args cannot be null")
    try:
        return string(compile_regexp(pattern.data).replace_all(text.data, new.data, stop.checked))
    except InvalidInput as e:
        return text_error(f"regexp_replace: {e}")
