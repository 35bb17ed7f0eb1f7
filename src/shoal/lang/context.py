"""What the parts of the analysis share: the source for messages, the errors so far, names and functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shoal.errors import InvalidInput
from shoal.lang import ast, plan
from shoal.lang.catalog import Evaluate
from shoal.lang.scope import Scope
from shoal.lang.source import ProgramError, Source
from shoal.lang.walk import nodes
from shoal.model import values
from shoal.model.values import Value


class Context:
    """The state of one analysis."""

    def __init__(self, source: Source, evaluate: Evaluate) -> None:
        self._source = source
        self._evaluate = evaluate
        self.errors: list[ProgramError] = []
        self.scope = Scope()
        self.funcs: list[plan.Func] = []

    def error(self, message: str, span: tuple[int, int]) -> ProgramError:
        """An error to raise, with the place in the source that it is about."""
        return self._source.error(message, span)

    @contextmanager
    def at(self, node: ast.Node) -> Iterator[None]:
        """Point errors that are raised in here at a node."""
        try:
            yield
        except ProgramError:
            raise
        except InvalidInput as e:
            raise self.error(str(e), node.span) from e

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note an error that is raised in here, and go on to find more."""
        try:
            yield
        except ProgramError as e:
            self.errors.append(e)

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Resolve names in another scope."""
        outer, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = outer

    def constant(self, expr: plan.Expr) -> Value:
        """The value of an expression; an error value if it depends on data, or on variables around it."""
        if self.scope.slots() and any(isinstance(node, plan.Var) for node in nodes(expr)):
            return values.MISSING
        return self._evaluate(expr, self.funcs)
