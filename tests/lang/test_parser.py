from __future__ import annotations

import time

import pytest

from shoal.errors import InvalidInput
from shoal.lang import ast
from shoal.lang.parser import parse, parse_source
from shoal.lang.printer import print_program
from shoal.lang.scanner import MAX_NESTING
from shoal.lang.source import Part, ProgramError, Source

KINDS = [
    ("widget", ast.OpExpr),
    ("widget price > 10", ast.OpExpr),
    ("x == 1", ast.OpExpr),
    ("x := 1", ast.OpAssignment),
    ("n := count()", ast.OpAssignment),
    ("count()", ast.OpExpr),
    ("count() by x", ast.Summarize),
    ("by x", ast.Summarize),
    ("count(), sum(x)", ast.Summarize),
    ("summarize count()", ast.Summarize),
    ("fuse", ast.Fuse),
    ("fuse(this)", ast.OpExpr),
    ("shape", ast.Shape),
    ("shape(<int64>)", ast.OpExpr),
    ("sort", ast.Sort),
    ("sort:=1", ast.OpAssignment),
    ("sorted", ast.OpExpr),
    ("head", ast.Head),
    ("header", ast.OpExpr),
    ("top == 1", ast.OpExpr),
    ("top 1 a", ast.Top),
    ("head == 1", ast.OpExpr),
    ("sort := 1", ast.OpAssignment),
    ("cut a, b", ast.Cut),
    ("from p", ast.Pool),
    ("from (pool p)", ast.From),
    ("from:='x'", ast.OpAssignment),
    ("type x=int64 pass", ast.Scope),
    ("x ? 1 : 2", ast.OpExpr),
    ("{a:1}", ast.OpExpr),
    ("/a.b/", ast.OpExpr),
    ("*", ast.OpExpr),
]


@pytest.mark.parametrize("text, kind", KINDS)
def test_an_operator_is_known_by_its_beginning(text: str, kind: type) -> None:
    (op,) = parse(text)
    assert isinstance(op, kind)


CANONICAL = [
    ("a*b", "search a*b"),
    ("yield a*b", "yield a*b"),
    ("yield a -1", "yield a-1"),
    ("yield -a", "yield -a"),
    ("yield -1", "yield -1"),
    ("yield not a in b", "yield !a in b"),
    ("yield a+b*c-d", "yield a+b*c-d"),
    ("yield (a+b)*c", "yield (a+b)*c"),
    ("yield a.b[0].c[1:2]", "yield a.b[0].c[1:2]"),
    ("yield a['b c']", 'yield a["b c"]'),
    ("yield 1d2h == d and ts < 2020-01-01T00:00:00Z", "yield 1d2h==d and ts<2020-01-01T00:00:00Z"),
    ("yield fe80::1 in a, ::, 10.0.0.0/8", "yield fe80::1 in a, ::, 10.0.0.0/8"),
    (r"yield \true, \NaN", r"yield \true, \NaN"),
    ("yield f'a{x+1}b'", 'yield f"a{x+1}b"'),
    ("yield <{a:[int64],b:|{string:(ip,net)}|}>", "yield <{a:[int64],b:|{string:(ip,net)}|}>"),
    ("over a with x=1, y => (sum(this))", "over a with x=1, y=y => (\n  summarize\n      sum(this)\n)"),
]


@pytest.mark.parametrize("text, canonical", CANONICAL)
def test_precedence_literals_and_postfixes(text: str, canonical: str) -> None:
    assert print_program(parse(text)) == canonical


ERRORS = [
    ("count(", 7),
    ("x == ", 6),
    ("sort a |", 9),
    ("fork ( => )", 11),
    ("yield {a:1", 11),
    ('yield "abc', 11),
    ("yield /(a/ ~", 12),
    ("", 1),
    ("cut path class", 10),
    ("sort a b", 8),
]


@pytest.mark.parametrize("text, column", ERRORS)
def test_a_syntax_error_shows_where_parsing_got_stuck(text: str, column: int) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(text)
    first, line, caret = str(caught.value).split("\n")
    assert first == f"error parsing Zed at line 1, column {column}:"
    assert line == text
    assert caret.index("^") == column - 1


def test_an_error_in_one_of_several_files_names_the_file_and_its_line() -> None:
    source = Source([Part("a.zed", "const x=1\n"), Part("b.zed", "\nyield )\n"), Part("", "head")])
    with pytest.raises(ProgramError) as caught:
        parse_source(source)
    assert str(caught.value).startswith("error parsing Zed in b.zed at line 2, column 7:\nyield )\n")


@pytest.mark.parametrize("bracket", ["()", "[]", "{}"])
def test_deep_nesting_is_refused_before_it_is_parsed(bracket: str) -> None:
    opening, closing = bracket[0], bracket[1]
    with pytest.raises(InvalidInput, match="nests deeper"):
        parse("yield " + opening * 5000 + closing * 5000)


def test_what_is_within_the_limits_takes_no_time() -> None:
    deep = MAX_NESTING
    programs = [
        "(" * deep + "x" + ")" * deep,
        "yield " + "[" * deep + "]" * deep,
        "(" * deep + "x",
        "yield " + "-" * 2000 + "x",
        "not " * 3000 + "x",
        " or ".join(["x==1"] * 5000),
        " ".join(["word"] * 5000),
        "yield " + "+".join(["1"] * 900),
        "yield " + "a?b:" * 90 + "c",
        "yield a" + ".b" * 900,
        "sort " * 500,
        "from ( " * 90,
    ]
    for text in programs:
        start = time.process_time()
        try:
            parse(text)
        except InvalidInput:
            pass
        assert time.process_time() - start < 2, text[:40]
