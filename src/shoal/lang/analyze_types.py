"""Types as they are written, to types."""

from __future__ import annotations

from typing import assert_never

from shoal.errors import InvalidInput
from shoal.lang import ast
from shoal.model import types as t


class Types:
    """Resolves types; a name that the program gives to a type is valid from there on."""

    def __init__(self) -> None:
        self.names: dict[str, t.Type] = {}

    def resolve_type(self, typ: ast.Type) -> t.Type:
        """The type that is meant; raises InvalidInput for a name that is not known."""
        match typ:
            case ast.TypePrimitive(name):
                return t.primitive(name)
            case ast.TypeName(name):
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
