"""Writes the objects of a pool with partitions: a writer for each partition that values come of.

Memory and the number of open writers are bounded. Beyond, a writer is closed, and the partition gets another object
when more of it comes: a compaction joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from shoal.api.options import MAX_MEMORY
from shoal.errors import InvalidInput, ShoalError
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import Batch, Part, Piece, Rows
from shoal.formats.columns.parts import rows_by_code
from shoal.lake.actions import stored
from shoal.lake.column_registry import ColumnRegistry
from shoal.lake.identities import Origins
from shoal.lake.object_writer import ObjectWriter
from shoal.lake.objects import DataObject
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pool_partitions import Divider, Indivisible
from shoal.model.values import Value
from shoal.storage.store import ObjectStore

MOST_OPEN = 512
"""Partitions that are written at a time."""
_HELD_VALUES = 20_000
"""Values that came one by one, and are held before they are made into columns."""
_HOLDING = 4
"""The share of memory that values of all partitions together may take, as in `object_writer`."""


class PartitionWriter:
    """Takes values of any partition and writes objects, each of one partition."""

    def __init__(
        self,
        store: ObjectStore,
        pool: str,
        config: PoolConfig,
        columns: ColumnRegistry,
        divider: Divider | None,
        as_one_run: bool = False,
        memory: int = MAX_MEMORY,
        has_lineage: bool = True,
    ) -> None:
        """The arguments are those of `ObjectWriter`, and what knows the partition of a value."""
        if divider is None:
            raise AssertionError(f"pool {config.name} was opened without what knows its partitions")
        self._parts = store, pool, config, columns, as_one_run, memory
        self._has_lineage = has_lineage
        self._inline_size, self._memory = config.settings.inline, memory
        self._divider = divider
        self._open: dict[Value, ObjectWriter] = {}
        """The writers by partition; the one that was used last is the last."""
        self._sizes: dict[Value, int] = {}
        """What each of them holds."""
        self._done: list[DataObject] = []
        self._taken = self._held_values = self._skipped = 0

    def write_all(self, pieces: Iterable[Piece]) -> list[DataObject]:
        """Write everything and close; if that fails, no object stays."""
        try:
            for piece in pieces:
                self.write_piece(piece)
            return self.close()
        except BaseException:
            self.discard()
            raise

    def write_piece(self, piece: Piece) -> None:
        """Take a value, or a run of them."""
        if isinstance(piece, Value):
            self.write(piece)
        else:
            self.write_batch(piece)

    def write(self, value: Value) -> None:
        """Take a value."""
        try:
            partition = self._divider.partition_of(value)
        except Indivisible as e:
            raise InvalidInput(f"record {self._taken + 1}: {e}") from None
        self._writer(partition).write(value)
        self._taken += 1
        self._held_values += 1
        if self._held_values >= _HELD_VALUES:
            self._settle()

    def write_batch(self, batch: Batch, origins: Origins | None = None) -> None:
        """Take a run of values, and what each of them was before."""
        self._settle()
        self._skipped += batch.skipped
        for partition, parts in self._divided(batch).items():
            writer = self._writer(partition)
            if origins is None:
                writer.write_batch(Batch(tuple(parts), batch.length))
            else:
                rows = np.sort(np.concatenate([part.rows for part in parts]))
                writer.write_batch(_closed_up(parts, rows), origins.taken(rows))
            if not writer.held:
                writer.settle()  # what many writers have on its way to the store would take memory beside the rest
            self._sizes[partition] = writer.held
        self._taken += batch.length
        self._make_room()

    def _divided(self, batch: Batch) -> dict[Value, list[Part]]:
        """The rows of each partition, at their places in the batch."""
        divided: dict[Value, list[Part]] = {}
        errors: list[tuple[int, str]] = []
        for part in batch.parts:
            try:
                values, indexes = self._divider.divide(part)
            except Indivisible as e:
                errors.append((int(part.rows[e.row]), str(e)))
                continue
            if len(values) == 1:
                divided.setdefault(values[0], []).append(part)
                continue
            for index, rows in rows_by_code(indexes):
                column = kernels.take(part.column, rows)
                divided.setdefault(values[index], []).append(Part(part.shape, column, part.rows[rows]))
        if errors:
            row, why = min(errors)
            raise InvalidInput(f"record {self._taken + row + 1}: {why}")
        return divided

    def _writer(self, partition: Value) -> ObjectWriter:
        writer = self._open.pop(partition, None)
        if writer is None:
            if len(self._open) >= MOST_OPEN:
                self._finish(next(iter(self._open)))
            store, pool, config, columns, as_one_run, memory = self._parts
            writer = ObjectWriter(store, pool, config, columns, as_one_run, memory, partition, self._has_lineage)
        self._open[partition] = writer
        return writer

    def _settle(self) -> None:
        """Put values that came one by one into columns."""
        if self._held_values:
            self._held_values = 0
            for partition, writer in self._open.items():
                writer.settle()
                self._sizes[partition] = writer.held
            self._make_room()

    def _make_room(self) -> None:
        """Close the largest writers as long as all together hold too much."""
        limit = self._memory // _HOLDING
        held = sum(self._sizes.values())
        if held < limit or len(self._open) < 2:
            return
        for partition in sorted(self._sizes, key=lambda each: -self._sizes[each]):
            held -= self._sizes[partition]
            self._finish(partition)
            if held < limit // 2:
                return

    def _finish(self, partition: Value, inline: int = 0) -> None:
        """Write all of a partition that has come so far."""
        writer = self._open[partition]
        self._done.extend(writer.close(inline))
        del self._open[partition]
        self._sizes.pop(partition, None)

    def close(self, inline: int | None = None) -> list[DataObject]:
        """Write what is left; all objects written. What is little of few partitions becomes part of the descriptions.

        `inline` is a smaller limit than that of the pool.
        """
        limit = self._inline_size if inline is None else min(self._inline_size, inline)
        share = 0 if self._done else limit // max(1, len(self._open))
        for partition in list(self._open):
            self._finish(partition, share)
        if self._skipped and self._done:
            self._done[0] = replace(self._done[0], skipped=self._skipped)
        return self._done

    @property
    def skipped(self) -> int:
        """How many records of the input were left out; the first object tells as well."""
        return self._skipped

    def discard(self) -> None:
        """Remove what was written, as far as that can be done: no commit has named it."""
        for writer in self._open.values():
            writer.discard()
        store, pool, *_ = self._parts
        for o in self._done:
            with suppress(ShoalError):
                for each in stored(o):
                    store.delete(each.key(pool))


def _closed_up(parts: Sequence[Part], rows: Rows) -> Batch:
    """Some rows of a batch as a batch of their own."""
    return Batch(tuple(Part(p.shape, p.column, np.searchsorted(rows, p.rows)) for p in parts), len(rows))
