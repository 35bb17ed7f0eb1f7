"""What the compiler asks of others: the pools of a lake, and the values of constant expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from shoal.errors import Unsupported
from shoal.lang import plan
from shoal.model.values import Value

Evaluate: TypeAlias = Callable[[plan.Expr, Sequence[plan.Func]], Value]
"""Computes an expression that needs no data; an engine provides it."""


class PoolInfo(NamedTuple):
    """A pool as the analysis sees it."""

    name: str
    id: str
    order: tuple[plan.SortKey, ...] = ()


class Catalog(Protocol):
    """The pools of a lake and their commits. Each method raises NotFound for what is not there."""

    @property
    def head(self) -> tuple[str, str] | None:
        """The pool and branch that `HEAD` stands for."""

    def pools(self) -> Sequence[PoolInfo]:
        """All pools."""

    def pool(self, name: str) -> PoolInfo:
        """The pool of this name or id."""

    def commit(self, pool: PoolInfo, commitish: str) -> str:
        """The id of the commit that a branch, tag, id or time stands for; "" is the main branch."""

    def lake_metas(self) -> frozenset[str]:
        """Names that may follow `from :`."""

    def pool_metas(self) -> frozenset[str]:
        """Names that may follow `from pool:` and ask about the pool."""

    def commit_metas(self) -> frozenset[str]:
        """Names that may follow `from pool@commit:` and ask about a commit."""


class NoLake:
    """The catalog of a query over files."""

    head = None

    def pools(self) -> Sequence[PoolInfo]:
        raise Unsupported('"from pool" cannot be used without a lake')

    def pool(self, name: str) -> PoolInfo:
        raise Unsupported('"from pool" cannot be used without a lake')

    def commit(self, pool: PoolInfo, commitish: str) -> str:
        raise Unsupported('"from pool" cannot be used without a lake')

    def lake_metas(self) -> frozenset[str]:
        raise Unsupported('"from pool" cannot be used without a lake')

    def pool_metas(self) -> frozenset[str]:
        return frozenset()

    def commit_metas(self) -> frozenset[str]:
        return frozenset()
