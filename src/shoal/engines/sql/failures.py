"""Errors around values, as functions return them: what went wrong, and with what."""

from __future__ import annotations

from shoal.engines.sql import build
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar
from shoal.engines.sql.types import sql_type
from shoal.model import types as t
from shoal.model.values import structured_error


def failed(typ: t.Type) -> t.Type:
    """The type of an error around a value of a type."""
    if typ.depth > t.MAX_DEPTH - 2:
        raise NotColumnar("a value that nests deep")
    return t.error(t.record((("message", t.STRING), ("on", typ))))


def failure(message: str, node: Node) -> Node:
    """An error around a value."""
    if isinstance(node, Const):
        return Const(structured_error(message, node.value))
    if not isinstance(node, Leaf):
        raise NotColumnar("an error around a record")
    typ = failed(node.type)
    return Leaf(typ, build.cast(build.call("row", build.text(message), node.sql), sql_type(typ)))
