"""Bombs: small inputs of every format that would take very much memory or time, if readers did not look at them first.

`python -m shoal.testing.bombs` reads each of them in a process of its own and prints what became of it: a line of JSON
with the outcome, the peak of memory above that of a process that has read nothing, and the seconds of CPU.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path

import lz4.block
import lz4.frame

from shoal.api.options import MIB, ReadOptions, for_load
from shoal.errors import InvalidInput
from shoal.formats import compression
from shoal.formats.detect import read_pieces, read_source
from shoal.formats.json import column_reader, shapes
from shoal.formats.streams import Source, WriteOptions
from shoal.formats.vng import files as vng
from shoal.formats.vng import metadata as meta
from shoal.formats.vng.segments import SegmentWriter
from shoal.formats.zng import stream as zng
from shoal.ids import new
from shoal.lake.column_registry import ColumnRegistry
from shoal.lake.keys import parse_sort_key
from shoal.lake.object_writer import ObjectWriter
from shoal.lake.pool_config import PoolConfig
from shoal.model import types as t
from shoal.model import values as v
from shoal.model.node import frozen
from shoal.model.zcode import uvarint
from shoal.storage.memory import MemoryStore
from shoal.testing.bomb import KINDS, MANY, SHAPES, WIDE, Bomb
from shoal.testing.file_bombs import FILE_BOMBS, PACKED

OPTIONS = ReadOptions(max_memory=128 * MIB, threads=2)
_SECONDS = 60
_LOADED = (column_reader, shapes)
"""What a load would import; it does not count for the memory that a bomb takes."""


def _text(*parts: bytes | tuple[bytes, int]) -> Bomb:
    """Text. A pair stands for bytes and the size up to which they are repeated."""
    return Bomb(lambda: chain.from_iterable(_blocks(part) for part in parts))


def _blocks(part: bytes | tuple[bytes, int]) -> Iterator[bytes]:
    if isinstance(part, bytes):
        return iter((part,))
    block = part[0] * (MIB // len(part[0]))
    return repeat(block, part[1] // len(block))


def _joined(form: str, count: int, between: str = ",") -> bytes:
    return between.join(form.format(i=i) for i in range(count)).encode()


def _lines(form: str, count: int = SHAPES) -> bytes:
    return _joined(form, count, "\n") + b"\n"


# ---- text

_DEEP = ((b"[", MANY), (b"]", MANY))
_DEEP_LINE = b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n"
_JSON = {
    "deep": _text(*_DEEP),
    "deep in lines": _text(b'{"a":1}\n' * 100, (_DEEP_LINE, 5 * MIB)),
    "wide": _text(b"{" + _joined('"f{i}":1', WIDE) + b"}\n"),
    "long": _text((b"9", 3 * MANY)),
    "long string": _text(b'"', (b"x", 3 * MANY), b'"'),
    "repeated": _text(b"[", (b"1,", MANY), b"1]\n"),
    "repeated in lines": _text((b"[" + b"1," * 200_000 + b"1]\n", MANY)),
    "repeated over lines": _text(b"[", (b"{},\n", MANY), b"1]\n"),
    "shapes": _text(_lines('{{"k":{i},"f{i}":{i}}}')),
    "shapes inside": _text(_lines('{{"k":{i},"o":{{"f{i}":{i}}}}}')),
}
_ZSON = {
    "deep": _text(*_DEEP),
    "wide": _text(b"{" + _joined("f{i}:1", WIDE) + b"}\n"),
    "long": _text((b"9", 3 * MANY)),
    "long time": _text((b"1.", 3 * MANY)),
    "long string": _text(b'"', (b"x", 3 * MANY), b'"'),
    "repeated": _text(b"[", (b"1,", MANY), b"1]\n"),
    "repeated in a set": _text(b"|[", (b"1,", MANY), b"1]|\n"),
    "shapes": _text(_lines("{{k:{i},f{i}:{i}}}")),
    "names": _text(_lines("{i}(=n{i})", 100_000)),
}
_INT = '{"kind":"primitive","name":"int64"}'
_ZJSON = {
    "deep": _text(b'{"type":', (b'{"kind":"array","id":30,"type":', MANY)),
    "wide": _text(
        b'{"type":{"kind":"record","id":30,"fields":['
        + _joined('{{"name":"f{i}","type":' + _INT.replace("{", "{{").replace("}", "}}") + "}}", WIDE)
        + b']},"value":null}\n'
    ),
    "long": _text(f'{{"type":{_INT},"value":"'.encode(), (b"9", 3 * MANY), b'"}\n'),
    "repeated": _text(
        f'{{"type":{{"kind":"array","id":30,"type":{_INT}}},"value":['.encode(), (b'"1",', MANY), b'"1"]}\n'
    ),
    "shapes": _text(
        "".join(
            f'{{"type":{{"kind":"record","id":{30 + i},"fields":[{{"name":"f{i}","type":{_INT}}}]}},"value":["1"]}}\n'
            for i in range(SHAPES)
        ).encode()
    ),
}


def _table(delimiter: bytes) -> dict[str, Bomb]:
    header = b"k" + delimiter + b"a\n"
    sparse = b"\n".join(
        delimiter.join(b"1" if i >> j & 1 else b"" for j in range(12)) + delimiter + b"x" for i in range(SHAPES)
    )
    return {
        "deep": _text(header, *_DEEP),
        "wide": _text((b"a" + delimiter, MANY), b"a\n"),
        "wide row": _text(header, (b"1" + delimiter, MANY), b"1\n"),
        "long": _text(header, b"1" + delimiter, (b"9", 3 * MANY), b"\n"),
        "long quoted": _text(header, b"1" + delimiter + b'"', (b"9\n", 3 * MANY), b'"\n'),
        "repeated": _text(header, (b"1" + delimiter + b"x" * 250_000 + b"\n", MANY)),
        "shapes": _text(delimiter.join(b"c%d" % i for i in range(13)) + b"\n" + sparse),
    }


_TABS = b"#separator \\x09\n"
_ZEEK = {
    "deep": _text(_TABS + b"#fields\ta", (b".a", MIB), b"\n#types\tint\n1\n"),
    "wide": _text(_TABS + b"#fields", (b"\ta", MANY), b"\n#types", (b"\tint", MANY), b"\n1\n"),
    "wide row": _text(_TABS + b"#fields\ta\n#types\tint\n", (b"1\t", MANY), b"1\n"),
    "long": _text(_TABS + b"#fields\ta\n#types\tint\n", (b"9", 3 * MANY), b"\n"),
    "long number": _text(_TABS + b"#fields\ta\n#types\tint\n", (b"9", 8 * MIB), b"\n"),
    "repeated": _text(_TABS + b"#fields\ta\n#types\tset[string]\n", (b"ab,", MANY), b"ab\n"),
    "shapes": _text(_TABS + "".join(f"#fields\tf{i}\n#types\tint\n{i}\n" for i in range(SHAPES)).encode()),
}
_LINE = {
    "deep": _text(*_DEEP),
    "wide": _text((b",", MANY)),
    "long": _text((b"9", 3 * MANY)),
    "repeated": _text((b"x" * 100_000 + b"\n", 3 * MANY)),
    "shapes": _text((b"\n", MIB // 2)),
}


# ---- ZNG and VNG


def _frame(kind: int, payload: bytes, pack: bool = True) -> bytes:
    if pack:
        packed = lz4.block.compress(payload, store_size=False)
        payload = b"\0" + uvarint(len(payload)) + packed
    return bytes((kind << 4 | pack << 6 | len(payload) & 15,)) + uvarint(len(payload) >> 4) + payload


def _stream(types: bytes, *values: bytes) -> Bomb:
    def parts() -> Iterator[bytes]:
        yield _frame(zng.TYPES, types) if types else b""
        yield from (_frame(zng.VALUES, value) for value in values)
        yield bytes((zng.END_OF_STREAM,))

    return Bomb(parts)


def _name(text: str) -> bytes:
    return uvarint(len(text)) + text.encode()


_ARRAY_OF_NULLS = b"\1" + uvarint(t.NULL.id)
_ZNG = {
    "deep": _stream(b"\1\11" + b"".join(b"\1" + uvarint(30 + i) for i in range(100_000))),
    "wide": _stream(b"\0" + uvarint(WIDE) + b"".join(_name(f"f{i}") + b"\11" for i in range(WIDE))),
    "long": _stream(b"", b"\x19" + uvarint(60 * MIB) + bytes(60 * MIB - 1)),
    "repeated": _stream(_ARRAY_OF_NULLS, b"\x1e" + uvarint(60 * MIB) + bytes(60 * MIB - 1)),
    "repeated values": Bomb(
        lambda: chain(
            (_frame(zng.TYPES, b"\1\x1d"),),
            repeat(_frame(zng.VALUES, (b"\x19" + uvarint(MIB + 1) + bytes(MIB)) * 16), 20),
            (b"\xff",),
        )
    ),
    "repeated elements": Bomb(
        lambda: chain(
            (_frame(zng.TYPES, b"\1\11"),),
            repeat(_frame(zng.VALUES, (b"\x1e" + uvarint(MIB // 64 + 1) + bytes(MIB // 64)) * 256), 4),
            (b"\xff",),
        )
    ),
    "repeated nulls": Bomb(lambda: chain(repeat(_frame(zng.VALUES, b"\x1d\0" * (2 * MIB)), 400), (b"\xff",))),
    "shapes": _stream(
        b"".join(b"\0\1" + _name(f"f{i}") + b"\11" for i in range(SHAPES)),
        b"".join(uvarint(30 + i) + b"\3\2\2" for i in range(SHAPES)),
    ),
    "types": _stream(b"".join(b"\0\1" + _name(f"f{i}") + b"\11" for i in range(WIDE))),
}


def _vng_object(metadata: v.Value, data: bytes) -> Bomb:
    def parts() -> Iterator[bytes]:
        out = io.BytesIO()
        writer = zng.Writer(out)
        writer.write(metadata)
        writer.close()
        yield b"VNG\0" + b"".join(n.to_bytes(4, "little") for n in (4, len(out.getvalue()), len(data))) + out.getvalue()
        yield data

    return Bomb(parts, is_seekable=True)


def _const(value: v.Value, count: int) -> v.Value:
    return meta.make("Const", {"Value": value, "Count": meta.count(count)})


def _lists(counts: list[int], elements: int) -> Bomb:
    """Lists of these lengths, whose elements are one constant."""
    segments = SegmentWriter()
    lengths = segments.add_ints(counts)
    array = meta.make(
        "Array",
        {"Length": meta.count(len(counts)), "Lengths": lengths, "Values": _const(v.int64(1), elements)},
    )
    return _vng_object(array, b"".join(segments.parts))


def _written(values: Callable[[], list[v.Value]]) -> Bomb:
    def parts() -> Iterator[bytes]:
        out = io.BytesIO()
        writer = vng.Writer(out, WriteOptions())
        for value in values():
            writer.write(value)
        writer.close()
        yield out.getvalue()

    return Bomb(parts, is_seekable=True)


def _nested(levels: int) -> v.Value:
    value = v.int64(1)
    for _ in range(levels):
        value = v.record([("a", value)])
    return value


_VNG = {
    "deep": _written(lambda: [_nested(13)]),
    "wide": _written(lambda: [v.record((f"f{i}", v.int64(i)) for i in range(20_000))]),
    "long": _written(lambda: [v.string("x" * (25 * MIB)), v.string("y" * (25 * MIB))]),
    "repeated": _lists([MANY], MANY),
    "repeated lists": _lists([400_000] * 4000, 400_000 * 4000),
    "repeated values": _vng_object(_const(v.int64(1), 2**31 - 1), b""),
    "shapes": _written(lambda: [v.record([(f"f{i}", v.int64(i))]) for i in range(SHAPES)]),
}


BOMBS: dict[str, dict[str, Bomb]] = {
    "json": _JSON,
    "ndjson": _JSON,
    "zson": _ZSON,
    "zjson": _ZJSON,
    "csv": _table(b","),
    "tsv": _table(b"\t"),
    "zeek": _ZEEK,
    "line": _LINE,
    "zng": _ZNG,
    "vng": _VNG,
    **FILE_BOMBS,
}
"""The bombs of each format. Names begin with the kind."""


# ---- reading them


def read_rows(source: Source, name: str) -> None:
    """Read value by value, as queries of files do."""
    for _ in read_source(source, name, OPTIONS):
        pass


def load(source: Source, name: str) -> None:
    """Write data objects, as a load does."""
    store = MemoryStore()
    config = PoolConfig(new(), "logs", parse_sort_key("k"))
    writer = ObjectWriter(store, "p", config, ColumnRegistry(store, "p"), memory=OPTIONS.max_memory)
    writer.write_all(read_pieces(source, name, for_load(OPTIONS)))


@frozen
class Outcome:
    """What became of a bomb."""

    refusal: str
    """Empty if it was read."""
    memory: int
    """MiB above those of a process that reads nothing."""
    seconds: float


def _in_child(work: Callable[[], str]) -> tuple[str, int, float]:
    """The answer of some work in a process of its own, the MiB that it took, and the seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(_SECONDS)
        try:
            answer = work()
        except BaseException as e:
            answer = f"{type(e).__name__}: {e}"
        os.write(writing, answer.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    _, status, usage = os.wait4(child, 0)
    ended = f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else answer
    return ended, usage.ru_maxrss >> 10, usage.ru_utime + usage.ru_stime


def explode(bomb: Bomb, name: str, read: Callable[[Source, str], None], baseline: int, path: Path) -> Outcome:
    """Read a bomb in a process of its own. What can seek is made by another one."""

    def make() -> str:
        path.write_bytes(b"".join(bomb.parts()))
        return ""

    def take() -> str:
        try:
            if bomb.is_seekable:
                with path.open("rb") as file:
                    read(file, name)
            else:
                read(bomb.open(), name)
        except InvalidInput as e:
            return f"refused: {e}"
        return ""

    if bomb.is_seekable:
        _in_child(make)
    refusal, memory, seconds = _in_child(take)
    return Outcome(refusal, memory - baseline, seconds)


def main() -> None:
    """Load one bomb of each kind for each format; with `-all`, read all of them, both ways. Prints a line for each."""
    is_all = sys.argv[1:] == ["-all"]
    compression.FREE = 8 * MIB
    baseline = _in_child(lambda: "")[1]
    cases = [(name, kind, bombs[kind]) for name, bombs in BOMBS.items() for kind in (bombs if is_all else KINDS)]
    cases += [("line", f"in {name}", bomb) for name, bomb in PACKED.items()]
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, bomb in cases:
            for how in (load, read_rows) if is_all else (load,):
                outcome = explode(bomb, name, how, baseline, Path(folder) / "bomb")
                case = {"case": f"{name}, {kind}, {how.__name__}", "refusal": outcome.refusal}
                print(json.dumps({**case, "memory": outcome.memory, "seconds": outcome.seconds}), flush=True)


if __name__ == "__main__":
    main()
