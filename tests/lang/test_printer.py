from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.lang import ast
from shoal.lang.parser import parse
from shoal.lang.printer import explicit, print_expr, print_program

SHARED = Path(__file__).parents[2].parent / "shared" / "conformance" / "inproc.jsonl"
PROGRAMS = [json.loads(line)["zed"] for line in SHARED.read_text().splitlines()] if SHARED.exists() else []


def without_spans(node: Any) -> Any:
    """The tree with all spans alike."""
    if isinstance(node, tuple):
        return tuple(map(without_spans, node))
    if not isinstance(node, ast.Node):
        return node
    parts = {f.name: without_spans(getattr(node, f.name)) for f in fields(node) if f.name != "span"}
    return replace(node, span=(0, 0), **parts)


def with_keywords(node: Any) -> Any:
    """The tree with each operator as its keyword would have made it."""
    if isinstance(node, tuple):
        return tuple(map(with_keywords, node))
    if not isinstance(node, ast.Node):
        return node
    if isinstance(node, ast.OpExpr | ast.OpAssignment):
        node = explicit(node)
    return replace(node, **{f.name: with_keywords(getattr(node, f.name)) for f in fields(node)})


def check_round_trip(seq: ast.Seq) -> None:
    """What is printed is read as the same tree, and printed the same again."""
    text = print_program(seq)
    back = parse(text)
    assert without_spans(back) == without_spans(with_keywords(seq)), text
    assert print_program(back) == text


# ---- programs: what is printed, line by line

IMPLIED = [
    ("flow | avg(size) by host", ["search flow", "| summarize", "    avg(size) by host"]),
    ("size > 3 and host in hosts", ["where size>3 and host in hosts"]),
    ("has(x) | missing(y) | !is_error(z)", ["where has(x)", "| where missing(y)", "| where !is_error(z)"]),
    ("grep(/a b/) | grep(x*y, z) | grep(x * y)", ["where grep(/a b/)", "| where grep(x*y,z)", "| where grep(x * y)"]),
    ("x ~ /^a/ | true ? false : true", ["where x~/^a/", "| where (true) ? false : true"]),
    ("<bool>(x) | <int64>(x)", ["where <bool>(x)", "| yield <int64>(x)"]),
    ("has(x) or word", ["search has(x) or word"]),
    ("*", ["where true"]),
    ("* word", ["search * and word"]),
    ("{a:1} | x+1 | -f(x)", ["yield {a:1}", "| yield x+1", "| yield -f(x)"]),
    ("f(x) | !f(x)", ["f(x)", "| !f(x)"]),
    ("a == 1 ? f(x) : true", ["(a==1) ? f(x) : true"]),
    ("sum(x) | count() where x>1", ["summarize", "    sum(x)", "| summarize", "    count() where x>1"]),
    ("min(a, b)", ["min(a, b)"]),
    ("n:=sum(x),m:=max(x)", ["summarize", "    n:=sum(x),m:=max(x)"]),
    ("n:=sum(x),m:=max(x,y)", ["put n:=sum(x),m:=max(x, y)"]),
]

OPERATORS = [
    ("by a,b:=c with -limit 9", ["summarize", "    by a,b:=c with -limit 9"]),
    ("summarize union(x) where (a ? b : c)", ["summarize", "    union(x) where ((a) ? b : c)"]),
    ("cut a,b.c , d:=e+1", ["cut a,b.c,d:=e+1"]),
    ("put a:=1,b[0]:=2 | rename c:=d", ["put a:=1,b[0]:=2", "| rename c:=d"]),
    ("drop a,b.c | fuse | shape | pass", ["drop a, b.c", "| fuse", "| shape", "| pass"]),
    ("head | head 3 | tail n*2", ["head", "| head 3", "| tail n*2"]),
    ("uniq | uniq -c", ["uniq", "| uniq -c"]),
    ("sort | sort -r", ["sort", "| sort -r"]),
    ("sort -nulls first -r a desc,b asc,c", ["sort -r -nulls first a desc, b asc, c"]),
    ("sort (-r) | sort -x, -r", ["sort (-r)", "| sort -x, -r"]),
    ("top | top a,b | top 3 a | top -flush a", ["top", "| top a, b", "| top 3 a", "| top -flush a"]),
    ("top (n) (a+b)", ["top (n) (a+b)"]),
    ("sample | sample a.b | merge ts", ["sample", "| sample a.b", "| merge ts"]),
    ("explode a,b by {x:ip} as c", ["explode a, b by {x:ip} as c"]),
    ("assert  a  ==  1", ["assert a  ==  1"]),
    ("debug | debug f'at {ts}' | output late", ["debug", '| debug f"at {ts}"', "| output late"]),
    ("over a | over a,b with c,d=e", ["over a", "| over a, b with c=c, d=e"]),
    ("join on a | inner join on a=b", ["join on a", "| join on a=b"]),
    ("anti join on (a+1)=(b) c,d:=e", ["anti join on (a+1)=b c,d:=e"]),
    ("join on (a) (b ? c : d)+1", ["join on (a) ((b) ? c : d)+1"]),
]

SOURCES = [
    ("file a/b.zson format zson order k desc", ["file a/b.zson format zson order k desc"]),
    ('file "a b" order k asc , l', ['file "a b" order k, l']),
    ("get https://a.b/c?d=e", ["get https://a.b/c?d=e"]),
    ("get 'x' method PUT headers {h:['v']} body 'b c'", ['get "x" method PUT headers {h:["v"]} body "b c"']),
    ("from p | from p@main:objects tap", ["from p", "| from p@main:objects tap"]),
    ("from 'p q'@'b c' | from :pools", ['from "p q"@"b c"', "| from :pools"]),
    ("from * | from p* | from /p/", ["from *", "| from p*", "| from /p/"]),
    ("load p@b author 'me' message \"it's\" meta '{}'", ['load p@b author "me" message "it\'s" meta "{}"']),
]

NESTED = [
    ("fork (=> a | head => b)", ["fork (", "  =>", "    search a", "    | head", "  =>", "    search b", ")"]),
    ("switch (case x>1 => pass default => drop y)",
     ["switch (", "  case x>1 =>", "    pass", "  default =>", "    drop y", ")"]),
    ("switch kind(x) ( case 'a' => pass )", ["switch kind(x) (", '  case "a" =>', "    pass", ")"]),
    ("from (file a => sort x pool p get u pass => fuse)",
     ["from (", "  file a =>", "    sort x", "  pool p", "  get u", "  pass =>", "    fuse", ")"]),
    ("pass | left join (file b | sort k) on k v",
     ["pass", "| left join (", "  file b", "  | sort k", ") on k v"]),
    ("over a with b => (sum(this) | yield {b,s:this})",
     ["over a with b=b => (", "  summarize", "      sum(this)", "  | yield {b,s:this}", ")"]),
    ("yield (over a,b with c=d | e), 1", ["yield (", "  over a, b with c=d", "  | search e", "), 1"]),
    ("put x:=f((over a | yield (over b | c)))",
     ["put x:=f((", "  over a", "  | yield (", "    over b", "    | search c", "  )", "))"]),
    ("where has((over a | b))", ["where has((", "    over a", "    | search b", "  ))"]),
    ("fork (=> fork (=> fuse))", ["fork (", "  =>", "    fork (", "      =>", "        fuse", "    )", ")"]),
]  # fmt: skip

DECLARATIONS = [
    ("const a=1 const b = a+1 yield b", ["const a = 1", "const b = a+1", "yield b"]),
    ("func f(a,b): (a+b) f(x, 1)", ["func f(a, b): (", "  a+b", ")", "f(x, 1)"]),
    ("func f():((over a|b)) pass", ["func f(): (", "  (", "    over a", "    | search b", "  )", ")", "pass"]),
    ("op o(p) : (put x:=p | head) o('a')", ["op o(p): (", "  put x:=p", "  | head", ")", 'o("a")']),
    ("op o(): (const c=1 yield c) o()", ["op o(): (", "  const c = 1", "  yield c", ")", "o()"]),
    ("type port=uint16 type 'a b' = {p:port} pass", ["type port = uint16", 'type "a b" = {p:port}', "pass"]),
    ("const t = now() ts > t", ["const t = (now())", "where ts>t"]),
    ("const t = f (const u = 1 pass)", ["const t = (f)", "(", "  const u = 1", "  pass", ")"]),
    ("pass | (const c=1 yield c)", ["pass", "| (", "  const c = 1", "  yield c", ")"]),
    ("over a => (const c=1 yield c)", ["over a => (", "  const c = 1", "  yield c", ")"]),
    ("fork (=> (const c=1 yield c))", ["fork (", "  =>", "    (", "      const c = 1", "      yield c", "    )", ")"]),
]


@pytest.mark.parametrize("source, lines", IMPLIED + OPERATORS + SOURCES + NESTED + DECLARATIONS)
def test_program_prints_as_these_lines_and_reads_back(source: str, lines: list[str]) -> None:
    seq = parse(source)
    assert print_program(seq).split("\n") == lines
    check_round_trip(seq)


# ---- expressions

EXPRESSIONS = [
    # parentheses, where the tree needs them
    ("(a)+((b))", "a+b"),
    ("(1 + 2) * 3 % 4", "(1+2)*3%4"),
    ("1 + (2 * 3)", "1+2*3"),
    ("a-(b-c)-(d*e)", "a-(b-c)-d*e"),
    ("a/(b/c)", "a/(b/c)"),
    ("(a or b) and c or (d and e)", "(a or b) and c or d and e"),
    ("a and (b and c)", "a and (b and c)"),
    ("not a and NOT (b or c)", "!a and !(b or c)"),
    ("!(a == b) and (!a) == b", "!(a==b) and !a==b"),
    ("(a == b) == (c in d)", "(a==b)==(c in d)"),
    (r"a ~ /x\/y/ and (b+c) ~ /z/", r"a~/x\/y/ and b+c~/z/"),
    ("-(1) + -1 - -x - (-(-x))", "-(1)+-1--x--(-x)"),
    ("-x.y + (-x).y + -(x*y)", "-x.y+(-x).y+-(x*y)"),
    ("(1).a + (1)[0] + 'a'[0]", '(1).a+(1)[0]+"a"[0]'),
    ("a ? b : c ? d : e", "(a) ? b : (c) ? d : e"),
    ("(a ? b : c) ? (d ? e : f) : g", "((a) ? b : c) ? (d) ? e : f : g"),
    ("(a ? b : c) + 1", "((a) ? b : c)+1"),
    ("(sum(x) where y) + 1", "(sum(x) where y)+1"),
    ("sum(x) where y + 1", "sum(x) where y+1"),
    ("a<<int64>", "a<<int64>"),
    ("10.0.0.1 / 8 + ::1 / 2 + 1.5 / 2", "10.0.0.1 / 8+::1 / 2+1.5/2"),
    # long chains are trees of their own form
    ("a or b or c or d or e or f or g or h or i or j", "a or b or c or d or e or f or g or h or i or j"),
    ("a and b and (c and d and e) and f", "a and b and (c and d and e) and f"),
    # names and strings
    (r"\true + this.\null.x", r"\true+this.\null.x"),
    (r"{\false, 'true':1, 'a b':2, ok:3, '':4}", r'{\false,"true":1,"a b":2,ok:3,"":4}'),
    (r"""'it\'s "so"' + '\u0001\n\\ é'""", r'''"it's \"so\""+"\u0001\n\\ é"'''),
    (r"""f'{ x } \{y} "z" {f"{a+"}"}}"}'""", r'''f"{x} \{y} \"z\" {f"{a+"}"}}"}"'''),
    ("f'{{a:1}}' + f''", 'f"{{a:1}}"+f""'),
    # containers
    ("[1, ...a, [ ] ]", "[1,...a,[]]"),
    ("|[1, |[ ]| ]|", "|[1,|[]|]|"),
    ("|{a : b, 'c' : |{ }| }|", '|{a:b,"c":|{}|}|'),
    ("|{a : a::1, ::1 : 2, 'a' : ::1}|", '|{a : a::1,::1 : 2,"a":::1}|'),
    ("|{(a ? b : c) : d, a ~ /b/ : c}|", "|{((a) ? b : c):d,a~/b/ : c}|"),
    ("{a : b, ...c, d}", "{a:b,...c,d}"),
    ("a[1 : ] + a[ : -1] + a[b : c+1]", "a[1:]+a[:-1]+a[b:c+1]"),
    ("a[b ? c : d] + a[(b ? c : d):]", "a[(b) ? c : d]+a[((b) ? c : d):]"),
    ("a[ : ::1]", "a[ : ::1]"),
    # types
    ("<{'a b':[|[int64]|], c:|{string:(ip,net)}|}>", '<{"a b":[|[int64]|],c:|{string:(ip,net)}|}>'),
    ("<error(enum(a, 'b c'))>(x)", '<error(enum(a,"b c"))>(x)'),
    ("f(<port=uint16>, <a.b>, <'a b'>, <'int64'>)", 'f(<port=uint16>, <a.b>, <"a b">, <"int64">)'),
    # literals stay as they are
    ("[1., .5, -1.5e-3, NaN, +Inf, null, false]", "[1.,.5,-1.5e-3,NaN,+Inf,null,false]"),
    ("[0xff, 1h30m, 2020-01-01T00:00:00Z, ::1, 10.0.0.0/8]", "[0xff,1h30m,2020-01-01T00:00:00Z,::1,10.0.0.0/8]"),
    # patterns as arguments
    (r"regexp(/a\d\"/, x)", r'regexp("a\\d\\\"", x)'),
]


@pytest.mark.parametrize("source, text", EXPRESSIONS)
def test_expression_prints_as_this_text_and_reads_back(source: str, text: str) -> None:
    seq = parse(f"yield {source}")
    assert isinstance(seq[0], ast.Yield)
    assert print_expr(seq[0].exprs[0]) == text
    check_round_trip(seq)


SEARCHES = [
    ("a b or not c", "a and b or !c"),
    ("a AND (b or c) not (d or e)", "a and (b or c) and !(d or e)"),
    ("<int64> \"a b\" 'c' 80 10.0.0.1", "<int64> and \"a b\" and 'c' and 80 and 10.0.0.1"),
    ("* or !*", "* or !*"),
    ("a * b == 1 c", "a * b==1 and c"),
    ("(a+b) * c < d e", "(a+b) * c<d and e"),
    ("x == true y", "x==true and y"),
    ("a / {} == b c", "(a/{})==b and c"),
    ("('a'.b) == 1 c", '("a".b)==1 and c'),
    ("(f'a') == b c", '(f"a")==b and c'),
    (r"a*b\*c\=d\+e\u0020f\\", r"a*b\*c\=d\+e\u0020f\\"),
    (r"\u0031a* \u002fa/* /a*", r"\u0031a* and \u002fa/* and \u002fa*"),
    (r"/a b\/c/ http://d.e/f#g", r"/a b\/c/ and http://d.e/f#g"),
    (r"a\=b\-c", r"a\=b\-c"),
    ("grep(a*b, c*d) e", "grep(a*b,c * d) and e"),
]


@pytest.mark.parametrize("source, text", SEARCHES)
def test_search_prints_as_this_text_and_reads_back(source: str, text: str) -> None:
    seq = parse(f"search {source}")
    assert print_program(seq) == f"search {text}"
    check_round_trip(seq)


# ---- all programs of the conformance cases


@pytest.mark.skipif(not PROGRAMS, reason="the conformance cases lie beside the project, in ../shared, and are not here")
def test_every_program_of_the_conformance_cases_reads_back() -> None:
    for program in PROGRAMS:
        check_round_trip(parse(program))


# ---- any tree

names = st.sampled_from(["a", "b1", "cafe", "f", "this", "été", "$", "_x", "true", "null", "NaN", "Inf", "over", "by"])
texts = st.text(max_size=5)
primitives = st.sampled_from([
    ("int64", "1"), ("int64", "-1"), ("float64", "1."), ("float64", ".5"), ("float64", "-Inf"), ("duration", "1d"),
    ("ip", "::1"), ("ip", "a::"), ("ip", "1.2.3.4"), ("net", "::/128"), ("bytes", "0xff"), ("bool", "true"),
    ("null", "null"), ("time", "2020-01-01T00:00:00Z"),
]).map(lambda pair: ast.Primitive(*pair)) | texts.map(lambda text: ast.Primitive("string", text))  # fmt: skip
field_names = names | texts
regexps = st.from_regex(r"([^/\\]|\\.)+", fullmatch=True).map(ast.Regexp)
glob_parts = st.lists(st.sampled_from(["a", "1", "é", "*", r"\*", "/", "=", "-", " ", "'", '"', "\\", "\n", "(", "\t"]))
globs = glob_parts.map(lambda parts: ast.Glob("".join([*parts, "a*"])))


def types_of(inner: st.SearchStrategy[ast.Type]) -> st.SearchStrategy[ast.Type]:
    record_fields = st.lists(st.builds(ast.TypeField, field_names, inner), max_size=3).map(tuple)
    return st.one_of(
        st.builds(ast.TypeDef, st.sampled_from(["port", "a.b"]), inner),
        record_fields.map(ast.TypeRecord),
        inner.map(ast.TypeArray),
        inner.map(ast.TypeSet),
        st.builds(ast.TypeMap, inner, inner),
        st.lists(inner, min_size=2, max_size=3).map(tuple).map(ast.TypeUnion),
        st.lists(field_names, min_size=1, max_size=3).map(tuple).map(ast.TypeEnum),
        inner.map(ast.TypeOfError),
    )


type_names = (st.sampled_from(["a", "a.b", "int64", "error", "true", "a b", ""]) | texts).map(ast.TypeName)
types = st.recursive(st.sampled_from(["int64", "null"]).map(ast.TypePrimitive) | type_names, types_of, max_leaves=5)
type_values = types.map(ast.TypeValue)


def exprs_of(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    optional = st.none() | inner
    several = st.lists(inner, max_size=3).map(tuple)
    elems = st.lists(inner | inner.map(ast.Spread), max_size=3).map(tuple)
    record_elems = st.builds(ast.Field, field_names, inner) | names.map(ast.Id) | inner.map(ast.Spread)
    ops = st.sampled_from(["or", "and", "==", "<", ">", "in", "+", "-", "*", "/", "%"])
    bodies = st.lists(inner.map(ast.Where) | inner.map(lambda e: ast.Yield((e,))), min_size=1, max_size=2).map(tuple)
    locals_ = st.lists(st.builds(ast.Local, names, inner), max_size=2).map(tuple)
    parts = st.tuples(st.text(min_size=1, max_size=4), inner, st.text(min_size=1, max_size=4))
    return st.one_of(
        parts.map(ast.FString),
        st.builds(ast.Unary, st.sampled_from("!-"), inner),
        st.builds(ast.Binary, ops, inner, inner),
        st.builds(ast.Binary, st.sampled_from(["and", "or"]), inner, inner),
        st.builds(ast.Binary, st.just("~"), inner, regexps),
        st.builds(ast.Conditional, inner, inner, inner),
        st.builds(ast.Call, names, several, optional),
        st.builds(ast.Cast, inner, type_values),
        st.builds(ast.Dot, inner, names),
        st.builds(ast.Index, inner, inner),
        st.builds(ast.Slice, inner, inner, optional),
        st.builds(ast.Slice, inner, st.none(), inner),
        st.lists(record_elems, max_size=3).map(tuple).map(ast.RecordExpr),
        elems.map(ast.ArrayExpr),
        elems.map(ast.SetExpr),
        st.lists(st.builds(ast.Entry, inner, inner), max_size=2).map(tuple).map(ast.MapExpr),
        st.builds(ast.OverExpr, several.filter(bool), locals_, bodies),
        st.builds(ast.Grep, regexps | globs | inner, optional),
    )


exprs = st.recursive(primitives | names.map(ast.Id) | type_values, exprs_of, max_leaves=8)


def term(text: str) -> ast.Expr:
    [op] = parse(text)
    assert isinstance(op, ast.OpExpr)
    assert isinstance(op.expr, ast.Term)
    return op.expr


def searches_of(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    pairs = st.builds(ast.Binary, st.sampled_from(["and", "or"]), inner, inner)
    return pairs | st.builds(ast.Unary, st.just("!"), inner)


# Made here and not in a test: the first parse raises Python's recursion limit, which Hypothesis warns of.
terms = st.sampled_from([term(text) for text in ("word", "a.b", "true", '"a b"', "'c'", "80", "<int64>", r"a\=b")])
products = st.builds(ast.Binary, st.sampled_from("*-/%"), names.map(ast.Id), exprs)
comparisons = st.builds(ast.Binary, st.sampled_from(["==", "<", "in"]), products, exprs)
everything = st.just(ast.Primitive("bool", "true"))
searches = st.recursive(terms | regexps | globs | everything | comparisons, searches_of, max_leaves=20)


@given(exprs)
def test_any_expression_reads_back(expr: ast.Expr) -> None:
    check_round_trip((ast.Yield((expr,)),))


@given(exprs, exprs, exprs)
def test_expressions_do_not_run_into_what_follows_them(a: ast.Expr, b: ast.Expr, c: ast.Expr) -> None:
    check_round_trip((ast.Scope((ast.ConstDecl("a", a),), (ast.Where(b), ast.Sort((ast.SortExpr(c, "desc"),)))),))
    check_round_trip((ast.Join("inner", None, a, b, (ast.Assignment(None, c),)), ast.Put((ast.Assignment(a, b),))))


@given(searches)
def test_any_search_reads_back(expr: ast.Expr) -> None:
    check_round_trip((ast.Search(expr),))
