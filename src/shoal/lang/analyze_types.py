"""Types as they are written, to types."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, assert_never

from shoal.errors import InvalidInput
from shoal.lang import ast
from shoal.lang.source import ProgramError, Source
from shoal.model import types as t

if TYPE_CHECKING:
    from collections.abc import Iterator


class TypeAnalyzer:
    """Resolves types; the names that a program gives to types are known from there on."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.type_names: dict[str, t.Type] = {}
        self.errors: list[ProgramError] = []

    @contextmanager
    def at(self, node: ast.Node) -> Iterator[None]:
        """Point errors that are raised in here at a node."""
        try:
            yield
        except ProgramError:
            raise
        except InvalidInput as e:
            raise self.source.error(str(e), node.span) from e

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note an error that is raised in here, and go on to find more."""
        try:
            yield
        except ProgramError as e:
            self.errors.append(e)

    def resolve_type(self, typ: ast.Type) -> t.Type:
        """The type that is meant; raises InvalidInput for a name that is not known."""
        match typ:
            case ast.TypePrimitive(name):
                return t.primitive(name)
            case ast.TypeName(name):
                if name not in self.type_names:
                    raise InvalidInput(f'no such type name: "{name}"')
                return self.type_names[name]
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
        made = t.named(name, self.resolve_type(inner))
        self.type_names[name] = made
        return made
