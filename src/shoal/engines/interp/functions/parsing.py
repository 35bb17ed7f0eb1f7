"""Values out of text."""

from __future__ import annotations

from shoal.engines.interp.functions.failures import failure
from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.parse import ParseError, Parser
from shoal.model.values import NULL, Value


def parse_zson(text: Value) -> Value:
    """The value a text spells: `parse_zson("{a:1}")` is `{a:1}`. What follows the first value does not count."""
    if text.type.under is not t.STRING:
        return failure("parse_zson: string arg required", text)
    if text.data is None:
        return NULL
    parser = Parser(text.data)
    try:
        parser.skip()
        start = parser.pos
        return parser.value() or NULL
    except ParseError as e:
        message = "ZSON syntax error" if e.position == start else str(e)
        return failure(f"parse_zson: {message}", text)
    except (InvalidInput, ValueError) as e:
        return failure(f"parse_zson: {e}", text)
