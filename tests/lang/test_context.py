"""Scopes of names, names of types, and the errors of an analysis."""

from __future__ import annotations

import pytest

from shoal.errors import InvalidInput
from shoal.lang import ast, plan
from shoal.lang.context import Context, FuncRef, OpRef, Scope, Types
from shoal.lang.parser import parse
from shoal.lang.source import Part, ProgramError, Source
from shoal.model import types as t
from shoal.model.values import MISSING, Value, int64

ONE = plan.Literal(int64(1))
TWO = plan.Literal(int64(2))


def context(text: str = "yield x") -> Context:
    def evaluate(expr: plan.Expr, funcs: object) -> Value:
        assert isinstance(expr, plan.Literal)
        return expr.value

    return Context(Source([Part("", text)]), evaluate)


def operator_of(text: str) -> ast.OpDecl:
    (declaration,) = (node for node in parse(text) if isinstance(node, ast.Scope))
    (operator,) = (decl for decl in declaration.decls if isinstance(decl, ast.OpDecl))
    return operator


def test_an_inner_name_hides_an_outer_one() -> None:
    outer = Scope()
    outer.define("x", ONE)
    inner = Scope(outer)
    assert inner.lookup("x") == ONE
    inner.define("x", TWO)
    assert (inner.lookup("x"), outer.lookup("x")) == (TWO, ONE)
    assert inner.lookup("y") is None


def test_a_name_is_defined_once_in_a_scope() -> None:
    scope = Scope()
    scope.define("x", ONE)
    with pytest.raises(InvalidInput, match='symbol "x" redefined'):
        scope.define("x", TWO)


def test_variables_of_nested_scopes_share_the_slots_of_a_frame() -> None:
    outer = Scope()
    outer.define_variable("a")
    inner = Scope(outer)
    inner.define_variable("b")
    assert inner.lookup("a") == plan.Var("a", 0)
    assert inner.lookup("b") == plan.Var("b", 1)
    assert (outer.slots(), inner.slots()) == (1, 2)


def test_a_function_does_not_see_the_variables_around_it() -> None:
    outer = Scope()
    outer.define_variable("a")
    outer.define("one", ONE)
    frame = Scope(outer, is_frame=True)
    frame.define_variable("p")
    assert frame.lookup("p") == plan.Var("p", 0)
    assert frame.lookup("one") == ONE
    with pytest.raises(InvalidInput, match='"a" belongs to the query around the function: pass it as an argument'):
        frame.lookup("a")


def test_the_variables_of_an_operator_follow_those_of_its_caller() -> None:
    body = Scope(Scope(), first_slot=3)
    body.define_variable("x")
    assert body.lookup("x") == plan.Var("x", 3)
    assert body.slots() == 4


def test_an_operator_is_not_an_expression() -> None:
    scope = Scope()
    operator = OpRef(operator_of("op f(): (pass) f()"), scope)
    scope.define("f", operator)
    scope.define("g", FuncRef(0, ("v",)))
    assert scope.lookup_op("f") is operator
    assert scope.lookup_op("g") is None
    assert scope.lookup_expr("g") == FuncRef(0, ("v",))
    with pytest.raises(InvalidInput, match='symbol "f" is not bound to an expression'):
        scope.lookup_expr("f")


def test_a_type_name_is_defined_from_its_definition_on() -> None:
    types = Types()
    with pytest.raises(InvalidInput, match='no such type name: "port"'):
        types.resolve_type(ast.TypeName("port"))
    port = types.define_type("port", ast.TypePrimitive("uint16"))
    assert port is t.named("port", t.UINT16)
    assert types.resolve_type(ast.TypeArray(ast.TypeName("port"))) is t.array(port)
    inner = types.resolve_type(ast.TypeSet(ast.TypeDef("id", ast.TypePrimitive("string"))))
    assert inner is t.set_of(t.named("id", t.STRING))
    assert types.names["id"] is t.named("id", t.STRING)


def test_errors_without_a_position_get_that_of_the_node() -> None:
    text = "yield x | cut y"
    (_, node) = parse(text)
    where = context(text)
    with pytest.raises(ProgramError, match="bad at line 1, column 11") as e, where.at(node):
        raise InvalidInput("bad")
    assert e.value.message == "bad"
    with pytest.raises(ProgramError) as again, where.at(node):
        raise e.value
    assert again.value is e.value


def test_noted_errors_let_the_analysis_go_on() -> None:
    where = context()
    for position in (0, 6):
        with where.noted():
            raise where.error("bad", (position, position + 1))
    assert [error.begin for error in where.errors] == [0, 6]
    with pytest.raises(KeyError), where.noted():
        raise KeyError("not an error of the program")


def test_the_scope_comes_back_after_an_inner_one_even_on_errors() -> None:
    where = context()
    outer = where.scope
    inner = Scope(outer)
    with pytest.raises(KeyError), where.inside(inner):
        assert where.scope is inner
        raise KeyError
    assert where.scope is outer


def test_a_constant_may_not_depend_on_variables() -> None:
    where = context()
    assert where.constant(ONE) == int64(1)
    where.scope.define_variable("x")
    assert where.constant(ONE) == int64(1)
    assert where.constant(plan.Var("x", 0)) is MISSING
