"""The files of a lake, read by `docs/format.md` and by nothing of Shoal: journals, commits, checkpoints, data objects.

Everything that does not fit the format raises Broken, which names the object.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from tools.storm.rows import Row
from tools.storm.zng import Broken, Item, read_items

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SEAL = b"shoal crc32 "
_SEAL_SIZE = 2 + 3 + len(_SEAL) + 8 + 1
"""A frame of types: two bytes before it, three beside the name; then the end of the stream."""
_SLOT_SIZE = len("00000000000000000001.zng")
Description = dict[str, Any]


@lru_cache(maxsize=65536)
def id_text(ident: bytes) -> str:
    """An id as 27 characters."""
    number, out = int.from_bytes(ident, "big"), ""
    for _ in range(27):
        number, digit = divmod(number, 62)
        out = _DIGITS[digit] + out
    return out


def optional_id(ident: bytes | None) -> str | None:
    """An id as text; None for none, in either way of writing it."""
    return id_text(ident) if ident and any(ident) else None


@dataclass(frozen=True)
class Entry:
    """An entry of a journal."""

    position: int
    op: str
    at: int
    changes: dict[str, Any]
    """New values by key; None removes a key."""
    group: dict[str, str]
    """The operations that share the entry, each with its commit."""

    @property
    def ops(self) -> tuple[str, ...]:
        """All operations of the entry."""
        return (self.op, *self.group)


@dataclass(frozen=True)
class Commit:
    """A commit."""

    id: str
    parent: str | None
    merged: str | None
    generation: int
    op: str
    position: int
    message: str
    adds: dict[str, Description]
    deletes: dict[str, Description]
    masks: dict[str, tuple[Description, Description]]
    """Descriptions before and after, of objects of which rows are hidden or shown."""
    checkpoint: str | None
    since: tuple[str, ...]


@dataclass(frozen=True)
class PoolFiles:
    """A pool by its configuration."""

    id: str
    """Also the prefix of its objects."""
    name: str
    order: str
    key: tuple[str, ...] = field(default=())


class RawLake:
    """A directory with the objects of a lake."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, key: str) -> bytes:
        """An object; FileNotFoundError if there is none."""
        return (self._root / key).read_bytes()

    def exists(self, key: str) -> bool:
        """Whether there is an object."""
        return (self._root / key).is_file()

    def names(self, folder: str) -> list[str]:
        """The names in a folder that are those of objects."""
        path = self._root / folder
        return sorted(each.name for each in path.iterdir() if not each.name.startswith(".")) if path.is_dir() else []

    def unseal(self, key: str) -> list[Item]:
        """The values of a sealed object."""
        data = self.read(key)
        body, seal = data[:-_SEAL_SIZE], data[-_SEAL_SIZE:]
        name = _SEAL + b"%08x" % zlib.crc32(body, zlib.crc32(key.encode()))
        # A types frame of 23 bytes: typedef 7 (named), the name, the primitive type 29 (null); then the end.
        if seal != b"\x07\x01\x07" + bytes((len(name),)) + name + b"\x1d\xff":
            raise Broken(f"{key}: the seal does not match")
        try:
            return read_items(body)
        except Broken as e:
            raise Broken(f"{key}: {e}") from e

    # ---- journals

    def slots(self, folder: str) -> list[int]:
        """The positions of the entries that there are."""
        names = (name for name in self.names(folder) if len(name) == _SLOT_SIZE and name.endswith(".zng"))
        return sorted(int(name[:20]) for name in names if name[:20].isdigit())

    def entry(self, folder: str, position: int) -> Entry:
        """One entry."""
        key = f"{folder}/{position:020d}.zng"
        items = self.unseal(key)
        if not items or items[0].name != "Entry":
            raise Broken(f"{key}: an entry without a head")
        head = items[0].value
        group = {id_text(each["op"]): id_text(each["commit"]) for each in head.get("group") or ()}
        changes = {item.value["key"]: item.value["value"] for item in items[1:]}
        return Entry(position, id_text(head["op"]), head["at"], changes, group)

    def snapshots(self, folder: str) -> Iterator[tuple[str, int]]:
        """The keys and positions of the snapshots of a journal."""
        for name in self.names(folder):
            if name.endswith(".snap.zng"):
                yield f"{folder}/{name}", int(name[:20])

    # ---- pools and commits

    def pool(self, value: Any) -> PoolFiles:
        """A pool by its configuration in the journal."""
        layout = value["layout"]
        return PoolFiles(id_text(value["id"]), value["name"], layout["order"], tuple(layout["keys"][0]))

    def commit(self, pool: str, ident: str) -> Commit:
        """One commit; FileNotFoundError if there is none."""
        key = f"{pool}/commits/{ident}.zng"
        items = self.unseal(key)
        if not items or items[0].name != "Commit" or id_text(items[0].value["id"]) != ident:
            raise Broken(f"{key}: not this commit")
        head = items[0].value
        actions: dict[str, dict[str, Any]] = {"Add": {}, "Delete": {}, "Mask": {}}
        for item in items[1:]:
            description = item.value["object"]
            objects = actions.get(item.name)
            if objects is None or id_text(item.value["commit"]) != ident or id_text(description["id"]) in objects:
                raise Broken(f"{key}: an action of another commit, of an unknown kind, or there twice")
            is_mask = item.name == "Mask"
            objects[id_text(description["id"])] = (item.value["before"], description) if is_mask else description
        return Commit(
            ident,
            optional_id(head["parent"]),
            optional_id(head["merged"]),
            head["generation"],
            id_text(head["op"]),
            head["position"],
            head["message"],
            actions["Add"],
            actions["Delete"],
            actions["Mask"],
            optional_id(head["checkpoint"]),
            tuple(map(id_text, head["since"])),
        )

    def checkpoint(self, pool: str, commit: str) -> dict[str, Description]:
        """The objects of a checkpoint, through its pages."""
        return dict(self._objects(pool, f"{pool}/checkpoints/{commit}.zng"))

    def _objects(self, pool: str, key: str) -> Iterator[tuple[str, Description]]:
        for item in self.unseal(key):
            ident = id_text(item.value["id"])
            if item.name == "Page":
                below = list(self._objects(pool, f"{pool}/pages/{ident}.zng"))
                if len(below) != item.value["count"]:
                    raise Broken(f"{key}: page {ident} has {len(below)} objects below it")
                yield from below
            else:
                yield ident, item.value

    # ---- data objects

    def data_key(self, pool: str, description: Description) -> str:
        """The key of a data object."""
        return f"{pool}/data/{id_text(description['id'])}.{_suffix(description)}"

    def rows(self, pool: str, description: Description) -> list[Row]:
        """All records of a data object, also those that are hidden, after all its checksums."""
        key = self.data_key(pool, description)
        inline = description.get("inline")
        data = self.read(key) if inline is None else inline
        size = description["size"]
        if len(data) != size + description["index_size"]:
            raise Broken(f"{key}: {len(data)} bytes")
        if zlib.crc32(data[:size]) != description["checksum"]:
            raise Broken(f"{key}: the checksum does not match")
        if key.endswith(".zng"):
            rows = [item.value for item in read_items(data[:size])]
        else:
            if zlib.crc32(data[size:]) != description["index_checksum"]:
                raise Broken(f"{key}: the checksum of the footer does not match")
            rows = _column_rows(data, key)
        count = description["count"] + (description.get("mask") or {"count": 0})["count"]
        if len(rows) != count:
            raise Broken(f"{key}: {len(rows)} records instead of {count}")
        return rows

    def hidden(self, pool: str, description: Description) -> frozenset[int]:
        """The numbers of the rows of a data object that its mask hides."""
        mask = description.get("mask")
        if mask is None:
            return frozenset()
        ident = optional_id(mask["id"])
        key = f"{pool}/masks/{ident}.roaring" if ident else f"the mask of {id_text(description['id'])}"
        data = self.read(key) if ident else mask["data"]
        if len(data) != mask["size"] or zlib.crc32(data) != mask["checksum"]:
            raise Broken(f"{key}: the checksum does not match")
        rows = frozenset(BitMap.deserialize(data))
        if len(rows) != mask["count"]:
            raise Broken(f"{key}: {len(rows)} rows instead of {mask['count']}")
        return rows


def _suffix(description: Description) -> str:
    """How the name of an object ends, by its form; what a reader has to know beside the form follows a comma."""
    form, *needs = (description.get("form") or "zng").split(", ")
    if not set(needs) <= {"mask", "inline"}:
        raise Broken(f"{id_text(description['id'])}: a form that no worker makes: {description['form']}")
    return "zng" if form == "zng" else "parquet"


def _column_rows(data: bytes, key: str) -> list[Row]:
    """The records of a Parquet file. A field of several types has a column for each: `x`, `x$string`, ..."""
    try:
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as e:
        raise Broken(f"{key}: {e}") from e
    rows: list[Row] = []
    for cells in table.to_pylist():
        row: Row = {}
        for name, cell in cells.items():
            field_name = name.partition("$")[0]
            if cell is None or not field_name:
                continue
            if field_name in row:
                raise Broken(f"{key}: a record has two values of {field_name}")
            row[field_name] = cell
        rows.append(row)
    return rows
