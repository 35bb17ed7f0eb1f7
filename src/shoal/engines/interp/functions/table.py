"""All built-in functions by name, but for `map`, which takes a function and not a value."""

from __future__ import annotations

from collections.abc import Callable

from shoal.engines.interp.functions import (
    binary,
    errors,
    network,
    numbers,
    parsing,
    records,
    regexps,
    searching,
    shaping,
    strings,
    times,
    types,
    uris,
    values,
)
from shoal.engines.interp.functions.grok import grok
from shoal.engines.interp.functions.strftime import strftime
from shoal.model.values import Value

FUNCTIONS: dict[str, Callable[..., Value]] = {
    "abs": numbers.absolute,
    "base64": binary.base64,
    "bucket": times.bucket,
    "cast": shaping.cast,
    "ceil": numbers.ceil,
    "cidr_match": network.cidr_match,
    "coalesce": values.coalesce,
    "compare": values.compare,
    "crop": shaping.crop,
    "error": errors.error,
    "every": times.every,
    "fields": records.fields,
    "fill": shaping.fill,
    "fit": shaping.fit,
    "flatten": records.flatten,
    "floor": numbers.floor,
    "grep": searching.grep,
    "grok": grok,
    "has": errors.has,
    "has_error": errors.has_error,
    "hex": binary.hexadecimal,
    "is": types.is_type,
    "is_error": errors.is_error,
    "join": strings.join,
    "kind": types.kind,
    "ksuid": binary.ksuid,
    "len": values.length,
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
    "order": shaping.order,
    "parse_uri": uris.parse_uri,
    "parse_zson": parsing.parse_zson,
    "pow": numbers.power,
    "quiet": errors.quiet,
    "regexp": regexps.regexp,
    "regexp_replace": regexps.regexp_replace,
    "replace": strings.replace,
    "round": numbers.round_half_away,
    "rune_len": strings.rune_len,
    "shape": shaping.shape,
    "split": strings.split,
    "sqrt": numbers.sqrt,
    "strftime": strftime,
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
"""Functions that may take minutes for one value, and are given what stops them as the keyword `stop`."""
