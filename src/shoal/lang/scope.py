"""Names and what they stand for, from the inside out."""

from __future__ import annotations

from dataclasses import dataclass, field

from shoal.errors import InvalidInput
from shoal.lang import ast, plan


@dataclass(frozen=True, slots=True)
class FuncRef:
    """A function of the program by its place among all of them."""

    index: int
    params: tuple[str, ...]


@dataclass(frozen=True, slots=True)
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
        """Bind a name to the next free place of the frame."""
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
