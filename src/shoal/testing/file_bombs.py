"""Bombs of formats whose files hold columns, of Avro, and of every compression."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import lz4.frame
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from pyarrow import feather, orc

from shoal.api.options import MIB
from shoal.model.zcode import uvarint
from shoal.testing.bomb import KINDS, SHAPES, WIDE, Bomb

# ---- Arrow and Parquet


def _deep_type(levels: int) -> pa.DataType:
    typ = pa.int64()
    for _ in range(levels):
        typ = pa.struct([("a", typ)])
    return typ


def _tables(deepest: int) -> dict[str, Callable[[], pa.Table]]:
    return {
        "deep": lambda: pa.table({"a": pa.nulls(3, _deep_type(deepest))}),
        "wide": lambda: pa.table({f"c{i}": [1] for i in range(5000)}),
        "long": lambda: pa.table({"a": ["x" * (100 * MIB)]}),
        "repeated": lambda: pa.table({f"c{i}": pa.array(np.zeros(2 * MIB, np.int64)) for i in range(8)}),
        "repeated strings": lambda: pa.table(
            {"a": pa.DictionaryArray.from_arrays(pa.array(np.zeros(MIB, np.int32)), ["x" * MIB])}
        ),
        "repeated late": lambda: pa.table(
            {
                "a": pa.DictionaryArray.from_arrays(
                    pa.array(np.minimum(np.arange(200_000), 1000).astype(np.int32)),
                    [*(str(i) for i in range(1000)), "x" * MIB],
                )
            }
        ),
        "shapes": lambda: pa.table({"a": [{"x": i} if i % 2 else None for i in range(SHAPES)]}),
    }


def _parquet(table: Callable[[], pa.Table]) -> Bomb:
    def parts() -> Iterator[bytes]:
        out = io.BytesIO()
        pq.write_table(
            table(), out, compression="zstd", store_schema=False, row_group_size=1 << 30, data_page_size=1 << 30
        )
        yield out.getvalue()

    return Bomb(parts, is_seekable=True)


def _arrows(table: Callable[[], pa.Table]) -> Bomb:
    def parts() -> Iterator[bytes]:
        out, whole = io.BytesIO(), table()
        with pa.ipc.new_stream(out, whole.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(whole)
        yield out.getvalue()

    return Bomb(parts, is_seekable=True)


def _arrow(table: Callable[[], pa.Table]) -> Bomb:
    def parts() -> Iterator[bytes]:
        out, whole = io.BytesIO(), table()
        with pa.ipc.new_file(out, whole.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(whole)
        yield out.getvalue()

    return Bomb(parts, is_seekable=True)


def _feather(table: Callable[[], pa.Table]) -> Bomb:
    """A file of version 1, which knows neither compression nor types with parts."""

    def parts() -> Iterator[bytes]:
        out = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            feather.write_feather(table(), out, version=1)
        yield out.getvalue()

    return Bomb(parts, is_seekable=True)


def _orc(table: Callable[[], pa.Table]) -> Bomb:
    def parts() -> Iterator[bytes]:
        out = io.BytesIO()
        orc.write_table(table(), out, compression="zstd", stripe_size=1 << 30, dictionary_key_size_threshold=1)
        yield out.getvalue()

    return Bomb(parts, is_seekable=True)


_FEATHER = {
    "deep": _arrow(_tables(60)["deep"]),  # of version 2
    "wide": _feather(lambda: pa.table({f"c{i}": [1] for i in range(5000)})),
    "long": _feather(lambda: pa.table({"a": ["x" * (100 * MIB)]})),
    "repeated": _feather(lambda: pa.table({f"c{i}": pa.array(np.zeros(2 * MIB, np.int64)) for i in range(8)})),
    "shapes": _feather(lambda: pa.table({"a": [i if i % 2 else None for i in range(SHAPES)]})),
}
_ORC = {
    **{kind: _orc(table) for kind, table in _tables(60).items() if kind in KINDS},
    "repeated strings": _orc(lambda: pa.table({"a": ["x" * MIB] * 100})),
    "repeated nulls": _orc(lambda: pa.table({"a": pa.nulls(100 * MIB, pa.int64())})),
}


# ---- Avro


def _long(number: int) -> bytes:
    return uvarint(number << 1)


def _avro(schema: Any, count: int, block: Callable[[], bytes], codec: str = "deflate") -> Bomb:
    def parts() -> Iterator[bytes]:
        text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
        entries = {b"avro.schema": text, b"avro.codec": codec.encode()}
        yield b"Obj\x01" + _long(len(entries))
        yield b"".join(_long(len(each)) + each for entry in entries.items() for each in entry)
        yield b"\0" + bytes(16)
        packed = _PACK_BLOCK[codec](block())
        yield _long(count) + _long(len(packed)) + packed + bytes(16)

    return Bomb(parts)


def _deflated(data: bytes) -> bytes:
    return gzip.compress(data)[10:-8]


_PACK_BLOCK: dict[str, Callable[[bytes], bytes]] = {"deflate": _deflated, "bzip2": bz2.compress, "xz": lzma.compress}


def _avro_record(number: int, typ: Any) -> Any:
    return {"type": "record", "name": f"r{number}", "fields": [{"name": f"f{number}", "type": typ}]}


_INTS = {"type": "array", "items": "int"}
_AVRO = {
    "deep": _avro(b'{"type":"array","items":' * 100_000, 1, lambda: b"\0"),
    "deep records": _avro(_avro_record(0, ["null", "r0"]), 1, lambda: b"\2" * MIB + b"\0"),
    "wide": _avro(
        {"type": "record", "name": "r", "fields": [{"name": f"f{i}", "type": "int"} for i in range(WIDE)]},
        1,
        lambda: bytes(WIDE),
    ),
    "long": _avro("string", 1, lambda: _long(60 * MIB) + bytes(60 * MIB)),
    "repeated": _avro(_INTS, 1, lambda: _long(6 * MIB) + bytes(6 * MIB + 1)),
    "repeated by deflate": _avro(_INTS, 1, lambda: _long(60 * MIB) + bytes(60 * MIB + 1)),
    "repeated by bzip2": _avro(_INTS, 1, lambda: _long(60 * MIB) + bytes(60 * MIB + 1), "bzip2"),
    "repeated by xz": _avro(_INTS, 1, lambda: _long(60 * MIB) + bytes(60 * MIB + 1), "xz"),
    "repeated records": _avro(
        {"type": "array", "items": _avro_record(0, "int")}, 1, lambda: _long(MIB) + bytes(MIB + 1)
    ),
    "repeated keys": _avro({"type": "map", "values": "null"}, 1, lambda: _long(MIB) + bytes(MIB + 1)),
    "repeated nulls": _avro("null", 1 << 62, lambda: b""),
    "repeated nothing": _avro({"type": "array", "items": "null"}, 1, lambda: _long(1 << 61) + b"\0"),
    "shapes": _avro(
        [_avro_record(i, "int") for i in range(SHAPES)],
        SHAPES,
        lambda: b"".join(_long(i) + b"\2" for i in range(SHAPES)),
    ),
}


# ---- compressed


def _zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", data)
    return out.getvalue()


_FAR_BACK = 27
"""How far back zstd and xz may look, as a power of two: all of that is in memory while they unpack."""


def _long_zstd(data: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=_FAR_BACK)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


def _long_xz(data: bytes) -> bytes:
    return lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << _FAR_BACK}])


_PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": _long_zstd,
    "bzip2": bz2.compress,
    "xz": _long_xz,
    "lz4": lz4.frame.compress,
    "zip": _zipped,
}


def _packed(pack: Callable[[bytes], bytes]) -> Bomb:
    return Bomb(lambda: iter((pack(bytes(256 * MIB)),)), is_seekable=True)


PACKED = {name: _packed(pack) for name, pack in _PACK.items()}
"""A very long line in each compression."""


FILE_BOMBS: dict[str, dict[str, Bomb]] = {
    "parquet": {kind: _parquet(table) for kind, table in _tables(200).items()},
    "arrows": {kind: _arrows(table) for kind, table in _tables(60).items()},
    "arrow": {kind: _arrow(table) for kind, table in _tables(60).items()},
    "feather": _FEATHER,
    "orc": _ORC,
    "avro": _AVRO,
}
"""The bombs of each of these formats. Names begin with the kind."""
