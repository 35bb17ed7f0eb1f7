from __future__ import annotations

import pytest

from shoal.errors import InvalidInput
from shoal.lang import plan
from shoal.lang.source import ProgramError
from shoal.testing.queries import answer, compile_program

MEANINGS = [
    ("const a=1 const b=a+1 yield b", "2"),
    ("const this_is=[1,2] yield this_is[1]", "2"),
    ("func f(x): (x*2) yield f(f(this))", "4"),
    ("func lower(s): ('mine') yield lower(this)", '"mine"'),
    ("func even(n): (n==0 ? true : odd(n-1)) func odd(n): (n==0 ? false : even(n-1)) yield even(this)", "false"),
    ("op double(f): (f:=f*2) yield {a:this} | double(a)", "{a:2}"),
    ("op twice(f): (once(f) | once(f)) op once(f): (f:=f+1) yield {a:this} | twice(a)", "{a:3}"),
    ("op say(x): (yield x) say('hi')", '"hi"'),
    ("type port=uint16 yield cast(this, <port>)", "1(port=uint16)"),
    ("type port=uint16 yield typeof(cast(this, port))==<port>", "true"),
    ("(const x=5 yield x) | yield this+1", "6"),
    ("over [1,2] with outer=this => (yield {outer, inner:this})", "{outer:1,inner:1}\n{outer:1,inner:2}"),
    ("over [1] => (const k=7 func g(x): (x+k) yield g(this))", "8"),
    ("over [[1,2]] with a=1 => (over this with b=2 => (yield this+a+b))", "4\n5"),
    ("yield {ts:1970-01-01T00:00:01.5Z} | yield every(1s)", "1970-01-01T00:00:01Z"),
    ("assert this > 5", 'error({message:"assertion failed",expr:"this > 5",on:1})'),
    ("yield {a:1,...{b:2,a:3}}", "{a:3,b:2}"),
    ("count:=count()", "{count:1(uint64)}"),
    ("count()", "1(uint64)"),
    ("n:=count() by k:=this", "{k:1,n:1(uint64)}"),
    ("has(this)", "1"),
    ("!has(x)", "1"),
    ("this > 0 ? true : false", "1"),
    ("this+1", "2"),
    ("min(this, 0)", "0"),
    ("max(this)", "1"),
    ("bool(this)", "true"),
    ("over [1] with x=10, y=x+1 => (yield {x,y})", "{x:10,y:11}"),
    ("yield (over [1] with x=10, y=x+1 | yield {x,y})", "{x:10,y:11}"),
    ("op inner(): (over [1] with y=10 => (yield y)) over [1] with x=1 => (inner())", "10"),
    ("func f(x): (f(x)) head 1", "1"),
]


@pytest.mark.parametrize("program, expected", MEANINGS)
def test_names_and_implied_operators(program: str, expected: str) -> None:
    assert answer(program, "1") == expected


DOUBLING = "op a0(): (pass) " + "".join(f"op a{i}(): (a{i - 1}()|a{i - 1}()) " for i in range(1, 12)) + "a11()"
ERRORS = [
    ("yield nosuch(1)", "no such function at line 1, column 7:\nyield nosuch(1)\n      ~~~~~~~~~"),
    ("yield lower()", "too few arguments at line 1, column 7:"),
    ("yield lower(a, b)", "too many arguments at line 1, column 7:"),
    ("yield lower(a) where b", "'where' clause on non-aggregation function at line 1, column 7:"),
    ("count(1,2)", "too many arguments at line 1, column 1:"),
    ("sum()", "sum: argument required"),
    ("sum() by x", "aggregator 'sum' requires argument at line 1, column 1:"),
    ("foo(x) by y", "unknown aggregation function: foo at line 1, column 1:"),
    ("x:=1, n:=count()", "mix of aggregations and non-aggregations in assignment list at line 1, column 1:"),
    ("cut 1", "cannot infer field from expression at line 1, column 5:"),
    ("cut this:=1", "cannot assign to 'this' at line 1, column 5:"),
    ("cut a, a", 'duplicate field: "a" at line 1, column 5:'),
    ("cut a, a.b", 'duplicate field: "a" at line 1, column 5:'),
    ("put a:=1, a:=2", "multiple assignments to a at line 1, column 1:"),
    ("put a.b:=1, a:=2", "conflicting nested assignments to a and a.b at line 1, column 1:"),
    ("put 1:=2", "illegal left-hand side of assignment at line 1, column 5:"),
    ("rename a:=b+1", "illegal right-hand side of assignment at line 1, column 11:"),
    ("rename a.b:=c.d", "cannot rename a.b to c.d (differ in a vs c) at line 1, column 8:"),
    ("drop this", "cannot use 'this' as a field reference at line 1, column 6:"),
    ("drop a+b", "error parsing Zed"),
    ("drop a[x]", "invalid expression used as a field at line 1, column 6:"),
    ("head x", 'expression value must be an integer value: error("missing") at line 1, column 6:'),
    ("tail 0", "expression value must be a positive integer at line 1, column 6:"),
    ("top 0 a", "limit argument value must be greater than 0 at line 1, column 5:"),
    ("top 'a' a", "limit argument must be an integer at line 1, column 5:"),
    ("const x=y yield x", 'const "x": cannot have variable dependency at line 1, column 1:'),
    ("const x=1/0 yield x", 'const "x": error("divide by zero") at line 1, column 1:'),
    ("const x=1 const x=2 yield x", 'symbol "x" redefined at line 1, column 11:'),
    ("op o(): (pass) yield o", 'symbol "o" is not bound to an expression at line 1, column 22:'),
    ("func f(a): (a) yield f()", "call expects 1 argument(s) at line 1, column 22:"),
    ("func f(a): (a) yield f", '"f" is a function (call it with parentheses) at line 1, column 22:'),
    ("op o(a,a): (pass) o(1,2)", 'duplicate parameter "a" at line 1, column 1:'),
    ("op o(a): (pass) o()", "0 args provided when operator expects 1 arg at line 1, column 17:"),
    ("op o(a): (yield a) o(x+1)", "non-path arguments cannot have variable dependency at line 1, column 22:"),
    ("op a(): (b()) op b(): (a()) a()", "operator cycle found: a -> b -> a at line 1, column 24:"),
    ("over a with x=1", "cannot have a with clause without a lateral query at line 1, column 1:"),
    ("over a with x => (func f(): (x) yield f())", '"x" belongs to the query around the function'),
    ("yield {a:1,a:2}", 'record expression: duplicate field: "a" at line 1, column 12:'),
    ("yield cast(a, <{b:nope}>)", 'no such type name: "nope" at line 1, column 15:'),
    ("yield map(a, 1)", "second argument must be the identifier of a function at line 1, column 14:"),
    (
        "yield 99999999999999999999",
        "99999999999999999999 (out of range of int64) at line 1, column 7:",
    ),
    ("yield 300.1.1.1", "at line 1, column 7:"),
    ("yield a ~ /(/", "missing closing ): `(` at line 1, column 11:"),
    ("from p", '"from pool" cannot be used without a lake at line 1, column 1:'),
    ("get ftp://x", "invalid URL ftp://x at line 1, column 5:"),
    ("yield foo(), bar()", "column 7:\nyield foo(), bar()\n      ~~~~~\nno such function at line 1, column 14:"),
    ("yield 1 | output main | yield 2", "output operator must be at flowgraph leaf at line 1, column 11:"),
    ("over this => (output x)", "output operator must be at flowgraph leaf at line 1, column 15:"),
    ("count() by this[a]:=b", "output field must be static at line 1, column 12:"),
    ("const f=1 yield f(2)", "not a function at line 1, column 17:"),
    ("yield cast(this, 1)", "shaper type argument is not a type: 1 at line 1, column 7:"),
    ("yield cast(this, 'int64')", 'bad type name "int64": primitive type name at line 1, column 7:'),
    (
        "op a(): (pass|pass) "
        + "".join(f"op a{i}(): (a{i - 1 if i else ''}()|a{i - 1 if i else ''}()) " for i in range(12))
        + "a11()",
        "program has more than 1000 operators",
    ),
    ("explode a by int64 as b.c", "field must be a top-level field at line 1, column 23:"),
    ("switch x ( case y => pass )", "switch case is not a constant expression at line 1, column 17:"),
]


@pytest.mark.parametrize("program, text", ERRORS)
def test_what_makes_no_sense_is_refused_with_its_place(program: str, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_program(program)
    assert text in str(caught.value)


def test_an_error_tells_its_message_and_its_place_to_programs() -> None:
    with pytest.raises(ProgramError) as caught:
        compile_program("yield nosuch(1)")
    assert (caught.value.message, caught.value.begin, caught.value.end) == ("no such function", 6, 15)


def test_a_program_that_brings_its_own_source_scans_no_input() -> None:
    assert compile_program("file a | count()").body[0] == plan.FileScan("a", fields=())
    assert isinstance(compile_program("count()").body[0], plan.DefaultScan)
    assert isinstance(compile_program("fork (=> file a => file b)").body[0], plan.Fork)
