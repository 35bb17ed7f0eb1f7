"""Attaching files: what a commit says of a Parquet file that stays where it is, by its footer alone.

The statistics of a footer say between which values a column is, not always exactly. A bound that is too wide costs a
read, one that is too narrow would lose records: what is not sure is taken as unknown.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa

from shoal.errors import AlreadyExists, InvalidInput, NotFound
from shoal.formats.arrow.footers import TAIL, Extent, Footer, footer_size, parse_footer
from shoal.formats.arrow.reader import shape_of
from shoal.formats.columns.batches import MANY_FIELDS
from shoal.formats.columns.layouts import Form, Leaf, RecordForm, layout_of
from shoal.formats.streams import read_exactly
from shoal.ids import Id, new, parse
from shoal.lake import zones
from shoal.lake.actions import Patch, patch_of
from shoal.lake.changes import find_objects, with_message
from shoal.lake.commits import Note
from shoal.lake.committer import Change
from shoal.lake.fitting import fit, planned_at
from shoal.lake.key_columns import SOMEWHERE, find_place
from shoal.lake.keys import SortKey
from shoal.lake.objects import DataObject, External
from shoal.lake.objects import Form as StoredForm
from shoal.lake.pools import Pool
from shoal.model import types as t
from shoal.model.literals import parse_date
from shoal.model.node import frozen
from shoal.model.values import NULL, Value
from shoal.model.zcode import encode
from shoal.sources.in_place import FileVersion, OpenedFile, absolute, folder_values, is_bucket

_GUESS = 64 << 10
"""Bytes at the end of a file that are read first: most footers are shorter."""
_REQUESTS = 16
"""How many files in buckets are asked for at a time."""
_LEAST = Value(t.FLOAT64, float("nan"))
"""Not greater than any other value: a NaN is the least of the numbers, which come before all else."""

Path = tuple[str, ...]


@frozen
class Candidate:
    """A file to attach, with its footer."""

    version: FileVersion
    footer_size: int
    checksum: int
    footer: Footer


def read_candidates(versions: Sequence[FileVersion]) -> list[Candidate]:
    """The footers of files. Nothing else of them is read."""
    named: set[str] = set()
    for version in versions:
        if version.uri in named:
            raise InvalidInput(f"{version.uri}: this file is named twice")
        named.add(version.uri)
    if not any(is_bucket(version.uri) for version in versions):
        return [_candidate(version) for version in versions]
    with ThreadPoolExecutor(_REQUESTS) as threads:
        return list(threads.map(_candidate, versions))


def _candidate(version: FileVersion) -> Candidate:
    try:
        with OpenedFile(version) as file:
            tail = _end_of(file, version.size, _GUESS)
            size = footer_size(tail)
            if size > version.size:
                raise InvalidInput("not a Parquet file, or cut off")
            data = tail[-size:] if size <= len(tail) else _end_of(file, version.size, size)
            file.require_unchanged()
        return Candidate(version, size, zlib.crc32(data), parse_footer(data))
    except InvalidInput as e:
        raise InvalidInput(f"{version.uri}: {e}") from None


def _end_of(file: OpenedFile, whole: int, size: int) -> bytes:
    start = max(0, whole - size)
    file.seek(start)
    return read_exactly(file, whole - start) if whole >= TAIL else b""


# ---- the fields that folders give


def folder_types(candidates: Iterable[Candidate]) -> dict[str, t.Type]:
    """The types of the fields that folders give: all values of a field have one.

    A number or a date is one only if its text is the one that it is written with, so that no text is lost.
    """
    texts: dict[str, list[str]] = {}
    for candidate in candidates:
        for name, text in folder_values(candidate.version.uri):
            texts.setdefault(name, []).extend([] if text is None else [text])
    return {name: _type_of(values) for name, values in texts.items()}


def _type_of(texts: Sequence[str]) -> t.Type:
    if texts and all(_is_integer(text) for text in texts):
        return t.INT64
    return t.DATE if texts and all(_is_date(text) for text in texts) else t.STRING


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit():
        return False
    return str(int(text)) == text and -(1 << 63) <= int(text) < 1 << 63


def _is_date(text: str) -> bool:
    try:
        parse_date(text)
    except InvalidInput:
        return False
    return len(text) == len("2024-03-01")


def _constant(typ: t.Type, text: str | None) -> Value:
    if text is None:
        return Value(typ, None)
    if typ is t.INT64:
        return Value(typ, int(text))
    return Value(typ, parse_date(text) if typ is t.DATE else text)


# ---- descriptions


def describe(candidate: Candidate, types: dict[str, t.Type], key: SortKey) -> DataObject:
    """The data object that a file stands for."""
    version, footer = candidate.version, candidate.footer
    try:
        own = shape_of(footer.schema)
        assert isinstance(own, t.Record)
        constants = [
            (name, _constant(types[name], text)) for name, text in folder_values(version.uri) if name not in own.index
        ]
        _check_names(footer.schema, [name for name, _ in constants])
        shape = t.record((*((f.name, f.type) for f in own.fields), *((n, v.type) for n, v in constants)))
        if shape.size > MANY_FIELDS:
            raise InvalidInput(f"it has {len(shape.fields)} columns, too many to attach (load it instead)")
        extents = _extents(footer, shape, dict(constants))
        low, high = _bounds(extents, shape, key)
    except InvalidInput as e:
        raise InvalidInput(f"{version.uri}: {e}") from None
    place = find_place(shape, key.paths[0])
    is_ranged = place is not SOMEWHERE and (place is None or isinstance(place[1].under, t.Primitive))
    bodies = tuple(encode(value.type, value.data) for _, value in constants)
    return DataObject(
        new(), low, high, footer.rows, version.size - candidate.footer_size, 0,
        max(1, footer.uncompressed_size), candidate.footer_size, place is not None, is_ranged,
        ((shape, footer.rows),), StoredForm.COLUMNS, candidate.checksum, _zones(extents, shape),
        external=External(version.uri, version.modified, version.etag, bodies),
    )  # fmt: skip


def _check_names(schema: pa.Schema, others: Sequence[str]) -> None:
    """Refuse names that engines would take for one another."""
    if not len(schema):
        raise InvalidInput("it has no columns")
    _check_siblings([*schema.names, *others])
    for field in schema:
        _check_inside(field.type)


def _check_inside(typ: Any) -> None:
    fields = [typ.field(i) for i in range(typ.num_fields)]
    if pa.types.is_struct(typ):
        _check_siblings([field.name for field in fields])
    for field in fields:
        _check_inside(field.type)


def _check_siblings(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        seen[name.lower()] = name
        if other is not None:
            how = "is there twice" if other == name else f"and {other!r} differ in case only"
            raise InvalidInput(f"column {name!r} {how} (load the file instead)")


# ---- statistics


def _extents(footer: Footer, shape: t.Record, constants: dict[str, Value]) -> dict[Path, Extent]:
    """What is known of each column that has zones, by its path."""
    (form,) = layout_of((shape,)).forms
    extents: dict[Path, Extent] = {}
    for path, leaf in _leaves(form, ()):
        constant = constants.get(path[0]) if len(path) == 1 else None
        if leaf.type not in zones.ORDERED:
            continue
        if constant is None:
            extents[path] = footer.extent(path, leaf.type)
        else:
            nulls = footer.rows if constant.data is None else 0
            extents[path] = Extent(constant.data, constant.data, nulls, footer.rows)
    return extents


def _leaves(form: Form, path: Path) -> Iterator[tuple[Path, Leaf]]:
    """The leaves of a shape, with the fields that lead to them."""
    if isinstance(form, RecordForm):
        under = form.type.under
        assert isinstance(under, t.Record)
        for field, inner in zip(under.fields, form.fields, strict=True):
            yield from _leaves(inner, (*path, field.name))
    elif form is not None:
        yield path, form


def _zones(extents: dict[Path, Extent], shape: t.Record) -> bytes:
    layout = layout_of((shape,))
    bounds: list[zones.Extent | None] = [None] * len(layout.leaves)
    for path, leaf in _leaves(layout.forms[0], ()):
        extent = extents.get(path)
        if extent is not None and (extent.is_known or extent.is_empty):
            bounds[leaf.index] = zones.Extent(extent.least, extent.greatest)
    return zones.pack(layout, bounds)


def _bounds(extents: dict[Path, Extent], shape: t.Record, key: SortKey) -> tuple[Value, Value]:
    """Between which keys all rows are. A null is the greatest key."""
    path = key.paths[0]
    place = find_place(shape, path)
    if place is None or (place is not SOMEWHERE and place[1].under is t.NULL):
        return NULL, NULL
    extent = extents.get(path)
    if place is SOMEWHERE or extent is None:
        return _LEAST, NULL
    if extent.is_empty:
        return NULL, NULL
    typ = place[1]
    has_nan = typ.under in t.FLOATS  # of which statistics say nothing
    low = _LEAST if has_nan or not extent.is_known else Value(typ, extent.least)
    return low, Value(typ, extent.greatest) if extent.is_known and extent.nulls == 0 else NULL


# ---- commits


def attach(pool: Pool, branch: str, objects: Sequence[DataObject], note: Note, op: Id | None = None) -> Id:
    """Add files to a branch, as one commit; AlreadyExists if one is there already."""
    if not objects:
        raise InvalidInput("nothing to attach: the files have no records")

    def build(tip: Id | None) -> Patch:
        require_new(pool, tip, branch, objects)
        return patch_of(objects)

    note = with_message(note, _list_files("attached", objects))
    return pool.committer.commit(Change(branch, build, note, op, is_fresh=True))


def require_new(pool: Pool, tip: Id | None, branch: str, objects: Iterable[DataObject]) -> None:
    """AlreadyExists if a file is attached at a commit."""
    attached = {o.external.uri for o in pool.snapshot(tip).objects() if o.external is not None}
    for o in objects:
        if o.external is not None and o.external.uri in attached:
            raise AlreadyExists(
                f'{o.external.uri}: this file is attached to "{branch}" already (shoal detach {o.external.uri})'
            )


def detach(pool: Pool, branch: str, names: Sequence[str], note: Note, op: Id | None = None) -> Id:
    """Take attached files out of a branch, by their paths or URLs, those of their folders, or the ids of objects."""
    if not names:
        raise InvalidInput("no attached files named")
    base = pool.refs().branch(branch).commit
    objects = list({o.id: o for name in names for o in _attached(pool, base, branch, name)}.values())
    patch = patch_of(deletes=objects)
    note = with_message(note, _list_files("detached", objects))
    build = partial(fit, pool, patch, planned_at(base), what="detach")
    return pool.committer.commit(Change(branch, build, note, op))


def _attached(pool: Pool, tip: Id | None, branch: str, name: str) -> list[DataObject]:
    """The attached files that a name stands for."""
    try:
        ident = parse(name)
    except InvalidInput:
        uri = absolute(name).rstrip("/")
        held = [o for o in pool.snapshot(tip).objects() if o.external is not None]
        named = [o for o in held if o.external and (o.external.uri == uri or o.external.uri.startswith(f"{uri}/"))]
    else:
        named = [o for o in find_objects(pool, tip, [ident]) if o.external is not None]
    if not named:
        raise NotFound(f"{name}: not attached to \"{branch}\" (see: shoal query 'from POOL@BRANCH:attached')")
    return named


_MOST_LISTED = 10


def _list_files(verb: str, objects: Sequence[DataObject]) -> str:
    """A message about attached files: how many, and the first few of them."""
    lines = [f"{verb} {len(objects)} file{'' if len(objects) == 1 else 's'}", ""]
    lines += [
        f"  {o.external.uri} {o.count} record{'' if o.count == 1 else 's'}"
        for o in objects[:_MOST_LISTED]
        if o.external is not None
    ]
    return "\n".join([*lines, *(["  ..."] if len(objects) > _MOST_LISTED else [])]) + "\n"
