"""Data that is part of the descriptions of its objects: finding it in the metadata of a pool, and removing it for good.

Descriptions are in commits and in checkpoints. What is purged stays in them with no bytes: `inline` is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from itertools import chain

from shoal.errors import CorruptData, NotFound
from shoal.ids import Id
from shoal.lake.actions import Entry, mapped, touched
from shoal.lake.checkpoints import format_item, parse_item
from shoal.lake.commits import format_commit, parse_commit
from shoal.lake.objects import DataObject, without_bytes
from shoal.lake.pools import Pool
from shoal.lake.sealed import seal, unseal
from shoal.model.values import Value

_FOLDERS = ("commits", "checkpoints", "pages")
"""What has descriptions of objects in it."""


def is_inline(pool: Pool, ident: Id) -> bool:
    """Whether some metadata describes an object of this id whose data is part of its description."""
    for key, values in _metadata(pool, []):
        if any(o.id == ident and o.inline is not None for o in _described(key, values)):
            return True
    return False


def remove_bytes(pool: Pool, idents: Set[Id]) -> None:
    """Write all metadata that has the bytes of these objects again, without them. It can be done again after a crash.

    What is damaged is passed over, and raised at the end: nobody can tell what bytes are in it.
    """
    damage: list[CorruptData] = []
    for key, values in _metadata(pool, damage):
        if any(o.id in idents and o.inline for o in _described(key, values)):
            pool.store.put(key, seal(_emptied(key, values, idents), key))
    pool.commits.forget(idents)
    if damage:
        raise damage[0]


def _metadata(pool: Pool, damage: list[CorruptData]) -> Iterator[tuple[str, list[Value]]]:
    keys = chain.from_iterable(pool.store.list(f"{pool.prefix}/{folder}/") for folder in _FOLDERS)
    for key in [listed.key for listed in keys if listed.key.endswith(".zng")]:
        try:
            yield key, unseal(pool.store.get(key), key)
        except NotFound:
            continue  # a vacuum has taken it
        except CorruptData as e:
            damage.append(e)


def _is_commit(key: str) -> bool:
    return "/commits/" in key


def _described(key: str, values: list[Value]) -> Iterable[Entry]:
    if _is_commit(key):
        return touched(parse_commit(values, key).actions)
    return (item for value in values if isinstance(item := parse_item(value, key), DataObject))


def _emptied(key: str, values: list[Value], idents: Set[Id]) -> Iterable[Value]:
    def emptied(o: DataObject) -> DataObject:
        return without_bytes(o, idents.__contains__)

    if not _is_commit(key):
        items = (parse_item(value, key) for value in values)
        return (format_item(emptied(item) if isinstance(item, DataObject) else item) for item in items)
    commit = parse_commit(values, key)
    return format_commit(replace(commit, actions=tuple(mapped(action, emptied) for action in commit.actions)))
