"""The state of one analysis: the source for messages, the errors so far, scopes of names, functions and types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never

from shoal.errors import InvalidInput
from shoal.lang import ast, plan
from shoal.lang.catalog import Evaluate
from shoal.lang.source import ProgramError, Source
from shoal.lang.walk import nodes
from shoal.model import types as t
from shoal.model import values
from shoal.model.node import frozen
from shoal.model.values import Value


@frozen
class FuncRef:
    """A function of the program by its index in `Program.funcs`."""

    index: int
    params: tuple[str, ...]


@frozen
class OpRef:
    """An operator of the program, and the scope that its body sees."""

    decl: ast.OpDecl
    scope: Scope


Binding = plan.Expr | FuncRef | OpRef


@dataclass(slots=True)
class Scope:
    """One level of names. A function's scope starts a frame: it sees no variables from outside.

    The body of an operator sees the names of where it was written, but its variables come after those
    of where it is used: `first_slot` says where.
    """

    parent: Scope | None = None
    is_frame: bool = False
    first_slot: int | None = None
    names: dict[str, Binding] = field(default_factory=dict)
    variables: int = 0

    def define(self, name: str, binding: Binding) -> None:
        """Bind a name that this level does not have yet."""
        if name in self.names:
            raise InvalidInput(f'symbol "{name}" redefined')
        self.names[name] = binding

    def define_variable(self, name: str) -> None:
        """Bind a name to the next free slot of the frame."""
        self.define(name, plan.Var(name, self.slots()))
        self.variables += 1

    def slots(self) -> int:
        """How many variables the frame has."""
        count = 0
        scope: Scope | None = self
        while scope is not None:
            count += scope.variables
            if scope.first_slot is not None:
                return count + scope.first_slot
            scope = None if scope.is_frame else scope.parent
        return count

    def lookup(self, name: str) -> Binding | None:
        """What a name stands for; None if it is not bound, and so the name of a field."""
        scope: Scope | None = self
        crossed = False
        while scope is not None:
            bound = scope.names.get(name)
            if bound is not None:
                if crossed and isinstance(bound, plan.Var):
                    raise InvalidInput(f'"{name}" belongs to the query around the function: pass it as an argument')
                return bound
            crossed = crossed or scope.is_frame
            scope = scope.parent
        return None

    def lookup_expr(self, name: str) -> plan.Expr | FuncRef | None:
        """The expression or function of this name."""
        bound = self.lookup(name)
        if isinstance(bound, OpRef):
            raise InvalidInput(f'symbol "{name}" is not bound to an expression')
        return bound

    def lookup_op(self, name: str) -> OpRef | None:
        """The operator of this name."""
        bound = self.lookup(name)
        return bound if isinstance(bound, OpRef) else None


class Types:
    """Resolves types; a name that the program gives to a type is valid from there on."""

    def __init__(self) -> None:
        self.names: dict[str, t.Type] = {}

    def resolve_type(self, typ: ast.Type) -> t.Type:
        """The type that is meant; raises InvalidInput for an undefined name."""
        match typ:
            case ast.TypePrimitive(name):
                return t.primitive(name)
            case ast.TypeName(name):
                if name not in self.names and name == t.DATE.name:
                    return t.DATE
                if name not in self.names:
                    raise InvalidInput(f'no such type name: "{name}"')
                return self.names[name]
            case ast.TypeDef(name, inner):
                return self.define_type(name, inner)
            case ast.TypeRecord(fields):
                return t.record((f.name, self.resolve_type(f.type)) for f in fields)
            case ast.TypeArray(elem):
                return t.array(self.resolve_type(elem))
            case ast.TypeSet(elem):
                return t.set_of(self.resolve_type(elem))
            case ast.TypeMap(key, value):
                return t.map_of(self.resolve_type(key), self.resolve_type(value))
            case ast.TypeUnion(types):
                return t.union(self.resolve_type(member) for member in types)
            case ast.TypeEnum(symbols):
                return t.enum(symbols)
            case ast.TypeOfError(inner):
                return t.error(self.resolve_type(inner))
            case _:
                assert_never(typ)

    def define_type(self, name: str, inner: ast.Type) -> t.Type:
        """Give a type a name."""
        typ = t.named(name, self.resolve_type(inner))
        self.names[name] = typ
        return typ


class Context:
    """The state of one analysis."""

    def __init__(self, source: Source, evaluate: Evaluate) -> None:
        self._source = source
        self._evaluate = evaluate
        self.errors: list[ProgramError] = []
        self.scope = Scope()
        self.funcs: list[plan.Func] = []

    def error(self, message: str, span: tuple[int, int]) -> ProgramError:
        """An error to raise, with the part of the source that it is about."""
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
