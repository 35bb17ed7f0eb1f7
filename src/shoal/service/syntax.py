"""The tree of a program as JSON: each node with its kind and its fields."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from shoal.lang.ast import Seq
from shoal.model import types as t
from shoal.model.text import format_type, format_value
from shoal.model.values import Value


def tree_as_json(program: Seq) -> str:
    """A program as JSON."""
    return json.dumps(_plain(program), ensure_ascii=False, separators=(",", ":")) + "\n"


def _plain(node: Any) -> Any:
    if isinstance(node, Value):
        return {"kind": "Value", "text": format_value(node)}
    if isinstance(node, t.Type):
        return {"kind": "Type", "text": format_type(node)}
    if is_dataclass(node) and not isinstance(node, type):
        return {"kind": type(node).__name__, **{f.name: _plain(getattr(node, f.name)) for f in fields(node)}}
    if isinstance(node, dict):
        return {str(key): _plain(each) for key, each in node.items()}
    if isinstance(node, (list, tuple)):
        return [_plain(each) for each in node]
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    return str(node)
