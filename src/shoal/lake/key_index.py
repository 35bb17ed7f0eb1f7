"""An index of primary keys in memory: those of the records that a change brings, to find those that are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.lake.keys import Bound, KeyRange, Path
from shoal.lake.masks import Rows
from shoal.lake.objects import DataObject
from shoal.lake.primary_keys import INTEGER, OTHER, TEXT, KeyGroup
from shoal.lake.zones import FieldRange, may_match
from shoal.lazy import lazy
from shoal.model.text import format_value
from shoal.model.values import int64, string

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

_SEARCHED = 16
"""With this many times as many keys as the index has, an object is searched for those of the index."""
MOST_NAMED = 10
"""Keys that an error names."""


class Matches(NamedTuple):
    """Rows of an object, and the positions in an index of the keys that they have."""

    rows: Rows
    positions: Rows


class KeyIndex:
    """Keys by their positions: each is that of a row of one of several objects."""

    def __init__(self, sources: Iterable[tuple[int, KeyGroup]]) -> None:
        """Groups of keys, each with the number of the object that its rows are in."""
        by_kinds: dict[tuple[str, ...], list[tuple[int, KeyGroup]]] = {}
        for number, group in sources:
            by_kinds.setdefault(group.kinds, []).append((number, group))
        objects, rows, self._lookups, start = [], [], {}, 0
        for kinds, groups in by_kinds.items():
            objects += [np.full(len(group.rows), number, np.int64) for number, group in groups]
            rows += [group.rows for _, group in groups]
            columns = [_joined([group.columns[i] for _, group in groups]) for i in range(len(kinds))]
            self._lookups[kinds] = _lookup_of(kinds, columns, start)
            start += sum(len(group.rows) for _, group in groups)
        none = np.zeros(0, np.int64)
        self.objects: Rows = np.concatenate([none, *objects])
        """The number of the object that each key is in."""
        self.rows: Rows = np.concatenate([none, *rows])

    def __len__(self) -> int:
        return len(self.rows)

    def duplicates(self) -> Rows:
        """The positions of keys that come again."""
        return np.concatenate([np.zeros(0, np.int64), *(lookup.duplicates() for lookup in self._lookups.values())])

    def find(self, groups: Iterable[KeyGroup]) -> Matches:
        """The rows of an object that have one of these keys."""
        hits = [
            (group.rows[places], positions)
            for group in groups
            if (lookup := self._lookups.get(group.kinds)) is not None
            for places, positions in (lookup.find(group.columns),)
        ]
        none = np.zeros(0, np.int64)
        return Matches(*(np.concatenate([none, *(each[i] for each in hits)]) for i in range(2)))

    def texts(self, positions: Iterable[int]) -> str:
        """Some keys, for an error."""
        chosen = list(positions)
        shown = ", ".join(self._text(position) for position in chosen[:MOST_NAMED])
        return shown if len(chosen) <= MOST_NAMED else f"{shown} and {len(chosen) - MOST_NAMED} more"

    def _text(self, position: int) -> str:
        lookup = next(each for each in self._lookups.values() if each.start <= position < each.start + len(each))
        parts = [_text_of(kind, data) for kind, data in zip(lookup.kinds, lookup.key(position), strict=True)]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    # ---- which objects may have one of them

    def ranges(self) -> tuple[KeyRange, ...]:
        """Ranges that hold the first fields of all keys: one for each kind, none if some keys are not ordered."""
        ends = []
        for lookup in self._lookups.values():
            if lookup.kinds[0] == OTHER:
                return ()
            low, high = lookup.ends()
            make = int64 if lookup.kinds[0] == INTEGER else string
            ends.append(KeyRange(Bound(make(low)), Bound(make(high))))
        return tuple(ends)

    def may_touch(self, o: DataObject, path: Path) -> bool:
        """Whether an object may have one of the keys, by its zones of their first field."""
        ranges = self.ranges()
        if not ranges:
            return len(self) > 0
        return any(may_match(o, FieldRange(path, each)) for each in ranges)


def _text_of(kind: str, data: Any) -> str:
    if kind == OTHER:
        return bytes(data).partition(b":")[2].decode(errors="replace")
    return format_value(int64(data) if kind == INTEGER else string(data))


def _joined(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    if isinstance(columns[0], pa.Array):
        return pa.concat_arrays(columns) if len(columns) > 1 else columns[0]
    return [item for column in columns for item in column]


# ---- lookups by the kinds of keys


class _Lookup:
    """Keys of the same kinds, by position; as a dictionary if they have several fields, or are of any type."""

    def __init__(self, kinds: tuple[str, ...], columns: Sequence[Any], start: int) -> None:
        self.kinds, self.columns, self.start = kinds, columns, start
        self._dictionary: dict[tuple[Any, ...], int] | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    def key(self, position: int) -> tuple[Any, ...]:
        """The key at a position."""
        items = (column[position - self.start] for column in self.columns)
        return tuple(item.as_py() if isinstance(item, pa.Scalar) else item for item in items)

    def ends(self) -> tuple[Any, Any]:
        """The least and the greatest first field."""
        column = self.columns[0]
        if isinstance(column, np.ndarray):
            return int(column.min()), int(column.max())
        ends = pc.min_max(column).as_py()
        return ends["min"], ends["max"]

    def duplicates(self) -> Rows:
        """The positions of keys that come again."""
        seen: set[tuple[Any, ...]] = set()
        again = [i for i, key in enumerate(_tuples(self.columns)) if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
        return np.array(again, np.int64) + self.start

    def find(self, columns: Sequence[Any]) -> tuple[Rows, Rows]:
        """The places in columns that have one of the keys, and the positions of these."""
        if self._dictionary is None:
            self._dictionary = {key: i for i, key in enumerate(_tuples(self.columns), self.start)}
        get = self._dictionary.get
        pairs = [(i, position) for i, key in enumerate(_tuples(columns)) if (position := get(key)) is not None]
        places = np.array([i for i, _ in pairs], np.int64)
        return places, np.array([position for _, position in pairs], np.int64)


def _tuples(columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    lists = (column.to_pylist() if isinstance(column, pa.Array) else list(column) for column in columns)
    return zip(*lists, strict=True)


class _Integers(_Lookup):
    def __init__(self, kinds: tuple[str, ...], columns: Sequence[Any], start: int) -> None:
        super().__init__(kinds, columns, start)
        self._order = np.argsort(columns[0], kind="stable")
        self._sorted = columns[0][self._order]

    def duplicates(self) -> Rows:
        again: Rows = self._order[1:][self._sorted[1:] == self._sorted[:-1]] + self.start
        return again

    def find(self, columns: Sequence[Any]) -> tuple[Rows, Rows]:
        wanted = columns[0]
        if not len(wanted) or not len(self):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        if len(wanted) > _SEARCHED * len(self) and bool((wanted[1:] > wanted[:-1]).all()):
            # Objects are often sorted by this key: each key of the index is searched for among them.
            places = np.searchsorted(wanted, self._sorted)
            places[places == len(wanted)] = 0
            hits = np.flatnonzero(wanted[places] == self._sorted)
            return places[hits], self._order[hits] + self.start
        places = np.searchsorted(self._sorted, wanted)
        places[places == len(self._sorted)] = 0
        hits = np.flatnonzero(self._sorted[places] == wanted)
        return hits, self._order[places[hits]] + self.start


class _Texts(_Lookup):
    def duplicates(self) -> Rows:
        codes = self.columns[0].dictionary_encode()
        if len(codes.dictionary) == len(codes):
            return np.zeros(0, np.int64)
        return super().duplicates()

    def find(self, columns: Sequence[Any]) -> tuple[Rows, Rows]:
        if len(columns[0]) < 1000:
            return super().find(columns)
        indices = pc.index_in(columns[0], value_set=self.columns[0])
        places = np.flatnonzero(indices.is_valid().to_numpy(zero_copy_only=False))
        positions = indices.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        return places, positions + self.start


def _lookup_of(kinds: tuple[str, ...], columns: Sequence[Any], start: int) -> _Lookup:
    makers: dict[tuple[str, ...], type[_Lookup]] = {(INTEGER,): _Integers, (TEXT,): _Texts}
    return makers.get(kinds, _Lookup)(kinds, columns, start)
