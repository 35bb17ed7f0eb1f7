"""Checkpoints: the objects of a pool at a commit, as a tree of pages that checkpoints share.

A page lists objects, or pages, by the first key of each in the order of the pool. A new checkpoint writes the pages
that changed and its root, so its cost does not grow with the pool, and a scan of a key range reads the pages
that it needs. A checkpoint can always be rebuilt from the commits: one that is damaged is passed over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from shoal.errors import CorruptData, NotFound
from shoal.ids import Id, new, to_text
from shoal.lake.actions import Patch
from shoal.lake.keys import EVERYTHING, KeyRange, SortKey, comparer
from shoal.lake.objects import DataObject, format_object, in_order, parse_object, without_bytes
from shoal.lake.sealed import seal, unseal
from shoal.model import types as t
from shoal.model.fields import get, get_data, get_id, get_or, id_value, named, uint64
from shoal.model.node import frozen
from shoal.model.order import compare_values
from shoal.model.values import Value
from shoal.storage.store import ObjectStore, dropping_damage

PAGE = 32
"""How many items a page has on average; it is split at twice as many."""


@frozen
class PageRef:
    """A page: where it is, how high above the objects, and what it covers."""

    id: Id
    level: int
    min: Value
    max: Value
    count: int
    """Objects below it."""
    is_ranged: bool = True
    """Whether the range of keys says something about all of them."""

    def may_hold(self, key_range: KeyRange) -> bool:
        """Whether something below it can be in a range."""
        return not self.is_ranged or key_range.may_hold(self.min, self.max)

    def first(self, key: SortKey) -> Value:
        """The key that a scan in the order of the pool meets first."""
        return self.min if key.order == "asc" else self.max


Item = DataObject | PageRef


class Checkpoints:
    """The checkpoints of a pool."""

    def __init__(
        self, store: ObjectStore, pool: str, key: SortKey, is_purged: Callable[[Id], bool] = lambda ident: False
    ) -> None:
        self._store = store
        self._is_purged = is_purged
        self._pool = pool
        self._key = key
        self._sortable = comparer(key.order)

    def _root_key(self, commit: Id) -> str:
        return f"{self._pool}/checkpoints/{to_text(commit)}.zng"

    def _page_key(self, page: Id) -> str:
        return f"{self._pool}/pages/{to_text(page)}.zng"

    def open(self, commit: Id) -> tuple[Item, ...]:
        """The top items of a commit's checkpoint; CorruptData if there is no good one."""
        return self._read(self._root_key(commit))

    def exists(self, commit: Id) -> bool:
        """Whether there is a checkpoint of a commit."""
        try:
            self._store.size(self._root_key(commit))
        except NotFound:
            return False
        return True

    def write(self, commit: Id, items: Sequence[Item]) -> None:
        """Store a checkpoint by its top items."""
        self._put(self._root_key(commit), items)

    def _put(self, key: str, items: Iterable[Item]) -> None:
        # Who has read an object before it was purged does not bring its bytes back.
        kept = (without_bytes(item, self._is_purged) if isinstance(item, DataObject) else item for item in items)
        self._store.put(key, seal(map(format_item, kept), key))

    def objects(self, items: Iterable[Item], key_range: KeyRange = EVERYTHING) -> Iterator[DataObject]:
        """The objects below some items that may hold something in the range, by the first key of each."""
        for item in items:
            if not item.may_hold(key_range):
                continue
            if isinstance(item, DataObject):
                yield item
            else:
                yield from self.objects(self._read(self._page_key(item.id)), key_range)

    def pages(self, items: Iterable[Item]) -> Iterator[Id]:
        """All pages below some items."""
        for item in items:
            if isinstance(item, PageRef):
                yield item.id
                if item.level > 0:
                    yield from self.pages(self._read(self._page_key(item.id)))

    def _read(self, key: str) -> tuple[Item, ...]:
        try:
            data = self._store.get(key)
        except NotFound:
            raise CorruptData(f"{key}: this part of a checkpoint is gone (restore it from a backup)") from None
        with dropping_damage(self._store, key):
            return tuple(parse_item(value, key) for value in unseal(data, key))

    # ---- changing

    def changed(self, items: Sequence[Item], patch: Patch) -> list[Item]:
        """The top items after changes; writes the pages that are new."""
        gone = {before.id: before for before, _ in patch.effects() if before is not None}
        come = [after for _, after in patch.effects() if after is not None]
        top = self._change(list(items), in_order(self._key, come), gone)
        while len(top) > 2 * PAGE:
            top = [self._write_page(part) for part in _split(top)]
        while len(top) == 1 and isinstance(top[0], PageRef):
            top = list(self._read(self._page_key(top[0].id)))
        return top

    def _change(self, items: list[Item], adds: list[DataObject], deletes: dict[Id, DataObject]) -> list[Item]:
        """A page's items after changes; below, pages are replaced by one or several, or go when they are empty."""
        if not items or isinstance(items[0], DataObject):
            kept = [item for item in items if item.id not in deletes]
            return self._merged(kept, adds)
        pages = [item for item in items if isinstance(item, PageRef)]
        portions = self._portions(pages, adds, deletes)
        out: list[Item] = []
        for page, (its_adds, its_deletes) in zip(pages, portions, strict=True):
            if not its_adds and not its_deletes:
                out.append(page)
                continue
            below = self._change(list(self._read(self._page_key(page.id))), its_adds, its_deletes)
            out.extend(self._write_page(part) for part in _split(below))
        return out

    def _merged(self, kept: list[Item], adds: list[DataObject]) -> list[Item]:
        if not adds:
            return kept
        return list(in_order(self._key, [*kept, *adds]))  # type: ignore[list-item]

    def _portions(
        self, pages: list[PageRef], adds: list[DataObject], deletes: dict[Id, DataObject]
    ) -> list[tuple[list[DataObject], dict[Id, DataObject]]]:
        """Which changes concern which page: by the first key. Objects of equal first keys may be on several pages."""
        firsts = [self._sortable((page.first(self._key),)) for page in pages]
        portions: list[tuple[list[DataObject], dict[Id, DataObject]]] = [([], {}) for _ in pages]
        for o in adds:
            index = bisect_right(firsts, self._sortable((o.first(self._key),))) - 1
            portions[max(index, 0)][0].append(o)
        for o in deletes.values():
            first = self._sortable((o.first(self._key),))
            index = max(bisect_right(firsts, first) - 1, 0)
            portions[index][1][o.id] = o
            while index > 0 and not firsts[index] < first:
                index -= 1
                portions[index][1][o.id] = o
        return portions

    def _write_page(self, items: list[Item]) -> PageRef:
        ident = new()
        self._put(self._page_key(ident), items)
        level = 0 if isinstance(items[0], DataObject) else items[0].level + 1
        count = sum(1 if isinstance(item, DataObject) else item.count for item in items)
        low, high = items[0].min, items[0].max
        for item in items[1:]:
            low = item.min if compare_values(item.min, low) < 0 else low
            high = item.max if compare_values(item.max, high) > 0 else high
        return PageRef(ident, level, low, high, count, all(item.is_ranged for item in items))


def _split(items: list[Any]) -> list[list[Any]]:
    """Parts of a page that has become too large; none of an empty one."""
    if not items:
        return []
    if len(items) <= 2 * PAGE:
        return [items]
    count = -(-len(items) // PAGE)
    size = -(-len(items) // count)
    return [items[i : i + size] for i in range(0, len(items), size)]


def format_item(item: Item) -> Value:
    """An item of a page as it is stored."""
    if isinstance(item, DataObject):
        return format_object(item)
    fields = [
        ("id", id_value(item.id)),
        ("level", uint64(item.level)),
        ("min", item.min),
        ("max", item.max),
        ("count", uint64(item.count)),
        ("is_ranged", Value(t.BOOL, item.is_ranged)),
    ]
    return named("Page", *fields)


def parse_item(value: Value, where: str) -> Item:
    """The item in a stored record."""
    if value.field("level") is None:
        return parse_object(value, where)
    return PageRef(
        id=get_id(value, "id", where),
        level=get_data(value, "level", where),
        min=get(value, "min", where),
        max=get(value, "max", where),
        count=get_data(value, "count", where),
        is_ranged=get_or(value, "is_ranged", True),
    )
