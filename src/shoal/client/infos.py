"""What a service tells of a lake, from values to what the protocol gives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from shoal.api.protocol import (
    CommitInfo,
    Compaction,
    LakeStatus,
    ObjectInfo,
    PoolInfo,
    RefInfo,
    ScanPlan,
    Vacuumed,
)
from shoal.errors import StorageFailure
from shoal.ids import Id, parse, to_text
from shoal.lake.pool_config import parse_config
from shoal.local.pool_configs import pool_info
from shoal.model import types as t
from shoal.model.fields import NO_ID, get_or
from shoal.model.values import NULL, Value


class Reader:
    """Reads what one service tells, under its name."""

    def __init__(self, url: str) -> None:
        self._url = url

    def pool(self, value: Value) -> PoolInfo:
        """A pool."""
        return pool_info(parse_config(value, self._url))

    def ref(self, value: Value) -> RefInfo:
        """A branch or a tag."""
        return RefInfo(self.data(value, "name"), self.optional_id(value, "commit"))

    def commit(self, value: Value) -> CommitInfo:
        """A commit."""
        return CommitInfo(
            self.id(value, "id"),
            self.optional_id(value, "parent"),
            self.data(value, "author"),
            datetime.fromtimestamp(self.data(value, "date") / 1e9, UTC),
            self.data(value, "message"),
            value.field("meta") or NULL,
            self.optional_id(value, "merged"),
        )

    def object(self, value: Value) -> ObjectInfo:
        """A data object."""
        low, high = (self.field(value, name) for name in ("min", "max"))
        return ObjectInfo(self.id(value, "id"), low, high, self.data(value, "count"), self.data(value, "size"))

    def status(self, value: Value) -> LakeStatus:
        """A lake, at the URL of its service."""
        features = tuple(self.data(value, "features"))
        return LakeStatus(
            self._url, self.id(value, "id"), self.data(value, "version"), features, self.data(value, "pools")
        )

    def vacuumed(self, value: Value) -> Vacuumed:
        """What a vacuum removed."""
        return Vacuumed(self.data(value, "objects"), self.data(value, "size"))

    def compaction(self, value: Value) -> Compaction:
        """What became of some objects."""
        return Compaction(self.data(value, "objects"), self.optional_id(value, "commit"), get_or(value, "error", ""))

    def plan(self, value: Value) -> ScanPlan:
        """How a pool would be read."""
        told = {name: self.data(value, name) for name in ScanPlan.__dataclass_fields__}
        return ScanPlan(**{**told, "queries": tuple(told["queries"]), "interpreted": tuple(told["interpreted"])})

    # ---- fields

    def field(self, value: Value, name: str) -> Value:
        """A field."""
        found = value.field(name)
        if found is None:
            raise StorageFailure(f"{self._url}: the answer of the service lacks {name!r} (another version?)")
        return found

    def data(self, value: Value, name: str) -> Any:
        """A field that is not null."""
        found = self.field(value, name).data
        if found is None:
            raise StorageFailure(f"{self._url}: the answer of the service has no {name!r} (another version?)")
        return found

    def id(self, value: Value, name: str) -> str:
        """A field that is an id, as text or as it is stored."""
        found = self.optional_id(value, name)
        if found is None:
            raise StorageFailure(f"{self._url}: the answer of the service lacks the id {name!r} (another version?)")
        return found

    def optional_id(self, value: Value, name: str) -> str | None:
        """A field that may be an id; None if it is null, not there or all zeros."""
        field = value.field(name)
        if field is None or field.data is None:
            return None
        ident = _id(field)
        return None if ident == NO_ID else to_text(ident)

    def ids(self, value: Value) -> list[str]:
        """The ids in an array."""
        typ = value.type.under
        assert isinstance(typ, t.Array)
        return [to_text(_id(Value(typ.elem, data))) for data in value.data or ()]


def _id(value: Value) -> Id:
    return parse(value.data) if value.type.under is t.STRING else Id(value.data)
