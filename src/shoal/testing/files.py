"""Small files of the formats that Shoal reads and does not write, made by the libraries that do."""

from __future__ import annotations

import io
import warnings

import fastavro
import pyarrow as pa
from pyarrow import feather, orc

_SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "a", "type": ["null", "long"]},
        {"name": "b", "type": "string"},
        {"name": "c", "type": "boolean"},
        {"name": "d", "type": ["null", "double", "string"]},
        {"name": "e", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
        {"name": "f", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
    ],
}
_ROWS = [
    {"a": 1, "b": "x", "c": True, "d": 1.5, "e": [{"k": 1}, {}], "f": "RED"},
    {"a": None, "b": "é", "c": False, "d": "text", "e": [], "f": "BLUE"},
]


def _avro() -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, _SCHEMA, _ROWS, codec="deflate")
    return out.getvalue()


def _table() -> pa.Table:
    return pa.table({"a": [1, None], "b": ["x", "é"], "c": [True, False], "d": [1.5, -1.0]})


def _feather() -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 1 is deprecated
        feather.write_feather(_table(), out, version=1)
    return out.getvalue()


def _orc() -> bytes:
    out = io.BytesIO()
    orc.write_table(_table(), out)
    return out.getvalue()


FILES = {"avro": _avro(), "feather": _feather(), "orc": _orc()}
"""The bytes of a file of each format."""
