"""All built-in functions by name, but for `map`, which takes a function and not a value."""

from __future__ import annotations

from collections.abc import Callable

from shoal.engines.interp.functions import errors, network, numbers, records, searching, strings, times, types
from shoal.engines.interp.functions.grok import grok
from shoal.model.values import Value

FUNCTIONS: dict[str, Callable[..., Value]] = {
    "abs": numbers.absolute,
    "base64": strings.base64,
    "bucket": times.bucket,
    "cast": types.cast,
    "ceil": numbers.ceil,
    "cidr_match": network.cidr_match,
    "coalesce": types.coalesce,
    "compare": types.compare,
    "crop": types.crop,
    "error": errors.error,
    "every": times.every,
    "fields": records.fields,
    "fill": types.fill,
    "fit": types.fit,
    "flatten": records.flatten,
    "floor": numbers.floor,
    "grep": searching.grep,
    "grok": grok,
    "has": errors.has,
    "has_error": errors.has_error,
    "hex": strings.hexadecimal,
    "is": types.is_type,
    "is_error": errors.is_error,
    "join": strings.join,
    "kind": types.kind,
    "ksuid": strings.ksuid,
    "len": types.length,
    "levenshtein": strings.levenshtein,
    "log": numbers.log,
    "lower": strings.lower,
    "max": numbers.maximum,
    "min": numbers.minimum,
    "missing": errors.missing,
    "nameof": types.nameof,
    "nest_dotted": records.nest_dotted,
    "network_of": network.network_of,
    "now": times.now,
    "order": types.order,
    "parse_uri": network.parse_uri,
    "parse_zson": types.parse_zson,
    "pow": numbers.power,
    "quiet": errors.quiet,
    "regexp": searching.regexp,
    "regexp_replace": searching.regexp_replace,
    "replace": strings.replace,
    "round": numbers.round_half_away,
    "rune_len": strings.rune_len,
    "shape": types.shape,
    "split": strings.split,
    "sqrt": numbers.sqrt,
    "strftime": times.strftime,
    "trim": strings.trim,
    "typename": types.typename,
    "typeof": types.typeof,
    "typeunder": types.typeunder,
    "under": types.under,
    "unflatten": records.unflatten,
    "upper": strings.upper,
}

NEED_NAMES = frozenset({"is", "typename"})
"""Functions that take the names of types in the data as well, as the keyword `names`."""
NEED_STOP = frozenset({"levenshtein", "regexp_replace"})
"""Functions that may take minutes for one value, and are given what stops them as the keyword `stop`, and a limit."""
NEED_LIMIT = frozenset(
    {"cast", "fill", "fit", "grok", "join", "parse_zson", "regexp", "replace", "shape", "split", "strftime"}
)
"""Functions whose results may be many times as large as their arguments. They are given the largest size of a result
as the keyword `limit`, and raise TooLarge before they make more of it. Others are measured afterwards."""
