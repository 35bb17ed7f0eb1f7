"""Options of CSV: nulls, headers, quotes, comments, encodings, ragged rows; and delimiters that are detected."""

from __future__ import annotations

import io
from typing import Any

import pytest

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.bad_records import BadRecords
from shoal.formats.columns.batches import values_of
from shoal.formats.csv.delimiters import CANDIDATES
from shoal.formats.csv.tables import TableText
from shoal.formats.detect import detect, read_pieces, read_source
from shoal.model.text import format_value
from shoal.testing.csv_tables import texts

# ---- nulls


def test_texts_can_stand_for_null() -> None:
    assert texts("a,b\n1,NA\n-,x\n", csv_null="NA,-") == ["{a:1,b:null(string)}", '{a:null(int64),b:"x"}']


def test_a_quoted_text_is_null_unless_the_column_is_text() -> None:
    assert texts('a,b\n1,NA\n"NA","NA"\n,x\n', csv_null="NA") == [
        "{a:1,b:null(string)}",
        '{a:null(int64),b:"NA"}',
        '{a:null(int64),b:"x"}',
    ]
    assert texts('a\n"NA"\n', csv_null="NA") == ['{a:"NA"}']


def test_nulls_are_a_list_whose_items_may_be_quoted() -> None:
    assert texts('a,b\n"x,y",1\nx y,-\n', csv_null='"x y", -,') == ['{a:"x,y",b:1}', "{a:null(string),b:null(int64)}"]


def test_cells_that_decide_for_themselves_know_nulls_too() -> None:
    assert texts('a,b\nNA,1\n"NA", NA\n', csv_null="NA", csv_infer="cells") == ["{a:null,b:1.}", "{a:null,b:null}"]


# ---- headers


def test_columns_without_a_header_are_numbered() -> None:
    assert texts("1,x\n2,y\n", csv_header="none") == ['{c0:1,c1:"x"}', '{c0:2,c1:"y"}']


def test_names_can_be_given_to_a_table_without_a_header() -> None:
    assert texts("1,x\n2,y\n", csv_header='id,"full, name"') == ['{id:1,"full, name":"x"}', '{id:2,"full, name":"y"}']
    assert texts("a,b\n1,x\n", csv_header="id,name", csv_skip=1) == ['{id:1,name:"x"}']
    assert texts("a,b\n1,x\n", csv_header="first") == ['{a:1,b:"x"}']
    assert texts("1\n2\n", csv_header='"none"') == ["{none:1}", "{none:2}"]


def test_names_have_to_fit_the_columns() -> None:
    with pytest.raises(InvalidInput, match="line 1: expected 3 fields, found 2"):
        texts("1,x\n2,y\n", csv_header="a,b,c")
    with pytest.raises(InvalidInput, match=r"csv\.header: 'a,a' names a column twice"):
        texts("1,x\n", csv_header="a,a")


@pytest.mark.parametrize("infer", ["columns", "cells"])
def test_names_of_columns_do_not_depend_on_how_types_are_found(infer: str) -> None:
    (row,) = texts('\ufeff a,"b ""c""", "d" ,d,d\n1,2,3,4,5\n', csv_infer=infer)
    assert row.replace(".", "") == '{a:1,"b \\"c\\"":2,"d ":3,d:4,d1:5}'


def test_a_table_without_records_has_no_values() -> None:
    for table in ("", "\n\n", "a,b", "a,b\n", "a,b\n\n\r\n"):
        assert texts(table) == []
    assert texts("", csv_header="none") == []


# ---- quotes, as RFC 4180 has them


def test_a_quote_opens_a_field_only_where_it_begins() -> None:
    assert texts('a,b\n5" pipe,x\n6" pipe,y\n') == ['{a:"5\\" pipe",b:"x"}', '{a:"6\\" pipe",b:"y"}']
    assert texts('a,b\n"x" y "z",1\n""x,2\n') == ['{a:"x y \\"z\\"",b:1}', '{a:"x",b:2}']
    assert texts('a,b\n1, "x, y"\n2,z\n') == ['{a:1,b:"x, y"}', '{a:2,b:"z"}']


def test_what_is_quoted_goes_over_lines_as_it_is() -> None:
    assert texts('a,b\r\n"one\r\ntwo\n\nthree",1\r\n') == ['{a:"one\\r\\ntwo\\n\\nthree",b:1}']
    assert texts('a\n"""x"""\n""""\n') == ['{a:"\\"x\\""}', '{a:"\\""}']


def test_another_quote_character_can_be_chosen_or_none() -> None:
    assert texts("a,b\n'x,''y''',2\n", csv_quote="'") == ["{a:\"x,'y'\",b:2}"]
    assert texts('a,b\n"x,2\n', csv_quote="none") == ['{a:"\\"x",b:2}']
    assert texts("a,b\n'x,y',2\n", csv_quote="'", csv_infer="cells") == ['{a:"x,y",b:2.}']
    assert texts('a,b\n"x,2\n', csv_quote="none", csv_infer="cells") == ['{a:"\\"x",b:2.}']
    assert texts("a,b\n«x,y«,2\n", csv_quote="«") == ['{a:"x,y",b:2}']
    for quote in ("", "ab", "\n"):
        with pytest.raises(InvalidInput, match=r"csv\.quote"):
            texts("a\n1\n", csv_quote=quote)
    with pytest.raises(InvalidInput, match="invalid CSV delimiter"):
        texts("a\n1\n", csv_quote=";", csv_delimiter=";")


# ---- lines that do not count


def test_skipped_lines_and_comments_are_left_out_and_counted() -> None:
    table = "Report, 2024\n(draft)\n# units\na,b\n1,2\n#x\n\n3,4\n5\n"
    options: dict[str, Any] = {"csv_skip": 2, "csv_comment": "#"}
    assert texts(table.removesuffix("5\n"), **options) == ["{a:1,b:2}", "{a:3,b:4}"]
    for infer in ("columns", "cells"):
        with pytest.raises(InvalidInput, match="line 9: expected 2 fields, found 1"):
            texts(table, csv_infer=infer, **options)


def test_a_comment_may_have_quotes_and_a_quoted_field_may_look_like_one() -> None:
    table = '// it"s a comment\na,b\n"x\n//y",1\n// "\n5" z,2\n//\n'
    assert texts(table, csv_comment="//") == ['{a:"x\\n//y",b:1}', '{a:"5\\" z",b:2}']
    assert texts('#a\nb\n"x\n#y"\n#', csv_comment="#", csv_infer="cells") == ['{b:"x\\n#y"}']
    with pytest.raises(InvalidInput, match=r"csv\.comment: '' cannot begin a line"):
        texts("a\n", csv_comment="")


def test_to_skip_more_lines_than_there_are_leaves_nothing() -> None:
    assert texts("a,b\n1,2\n", csv_skip=100) == []
    with pytest.raises(InvalidInput, match=r"csv\.skip: -1 is not a number of lines"):
        texts("a\n1\n", csv_skip=-1)


# ---- encodings


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "cp1252", "utf-8", "utf-8-sig", "utf-32"])
@pytest.mark.parametrize("name", ["csv", "auto"])
def test_text_in_an_encoding_of_csv_is_read(encoding: str, name: str) -> None:
    data = 'näme;ort\n"Zoë";x\n'.encode(encoding)
    options = ReadOptions(csv_encoding=encoding, csv_infer="columns")
    for read in (read_source, read_pieces):
        values = values_of(read(io.BytesIO(data), name, options))
        assert [format_value(value) for value in values] == ['{näme:"Zoë",ort:"x"}']


def test_the_encoding_of_csv_is_for_csv_alone() -> None:
    options = ReadOptions(csv_encoding="latin-1")
    (value,) = read_source(io.BytesIO('{"a":"é"}'.encode()), "auto", options)
    assert format_value(value) == '{a:"é"}'


def test_what_is_not_in_the_encoding_is_told_with_its_line() -> None:
    with pytest.raises(InvalidInput, match="line 2: invalid cp1252"):
        list(read_source(io.BytesIO(b"a\n\x81\n"), "csv", ReadOptions(csv_encoding="cp1252")))
    with pytest.raises(InvalidInput, match=r"csv\.encoding: 'klingon' is not known"):
        ReadOptions(csv_encoding="klingon")


# ---- rows of another length


def test_rows_of_another_length_can_be_filled_up() -> None:
    table = "a,b\n1\n2,x\n3,y,7,\n4,z,,\n"
    assert texts(table, csv_ragged="fill") == [
        "{a:1,b:null(string),c2:null(int64)}",
        '{a:2,b:"x",c2:null(int64)}',
        '{a:3,b:"y",c2:7}',
        '{a:4,b:"z",c2:null(int64)}',
    ]
    assert texts(table, csv_ragged="fill", csv_infer="text")[2] == '{a:"3",b:"y",c2:"7"}'
    assert texts(table, csv_ragged="fill", csv_infer="cells") == [
        "{a:1.,b:null}",
        '{a:2.,b:"x"}',
        '{a:3.,b:"y",c2:7.}',
        '{a:4.,b:"z"}',
    ]


def test_a_delimiter_at_the_end_of_lines_makes_no_column() -> None:
    assert texts("a,b\n1,2,\n3,4,\n", csv_ragged="fill") == ["{a:1,b:2}", "{a:3,b:4}"]


def test_a_column_that_nothing_names_gets_a_name_of_its_own() -> None:
    assert texts("c2,b\n1,2,3\n", csv_ragged="fill") == ["{c2:1,b:2,c21:3}"]


# ---- delimiters


@pytest.mark.parametrize(
    ("table", "delimiter"),
    [
        ("a;b\n1;2,5\n", ";"),
        ("a\tb\n1\t2,5\n", "\t"),
        ("a|b\nx|y\n", "|"),
        ("a,b\nx;y,1\n", ","),
        ("1,5;2,5\n3,5;4,5\n", ";"),
        ("a,b;c\n1,2;3\n", ","),
        ("id,lat|lon,name\n1,2|3,x\n", ","),
        ('"a,b";c\n"1,2";3\n', ";"),
        ('a,"b;c;d"\n1,2\n', ","),
        ("a\n1\n", ","),
        ("a;b,c;d\n1;2;3\n", ";"),
        ('"a\n;b"|c\n1|2\n', "|"),
        ("", ","),
    ],
)
def test_the_delimiter_is_detected(table: str, delimiter: str) -> None:
    source, options = io.BytesIO(table.encode()), ReadOptions(csv_infer="columns")
    text = TableText(source, options, CANDIDATES, BadRecords(source, options))
    assert text.dialect.delimiter == delimiter


@pytest.mark.parametrize(
    ("data", "name"), [("a;b\n1;2\n", "csv"), ("a|b\n1|2\n", "csv"), ("a\tb\n1\t2\n", "tsv"), ("a,b\n", "csv")]
)
def test_a_table_with_any_of_the_delimiters_is_recognised(data: str, name: str) -> None:
    assert detect(io.BytesIO(data.encode()))[0].name == name


@pytest.mark.parametrize("data", ["plain text; with a semicolon\n", "plain text\n", 'int x = 1;\nchar *s = "a;b";\n'])
def test_text_with_a_semicolon_need_not_be_a_table(data: str) -> None:
    with pytest.raises(InvalidInput, match="format detection error"):
        detect(io.BytesIO(data.encode()))


def test_no_more_is_waited_for_than_the_delimiter_takes() -> None:
    class Slow(io.RawIOBase):
        """Gives one line at a time."""

        def __init__(self) -> None:
            self.lines = [b"a;b\n", b"1;2\n", b"3;4\n"]
            self.given = 0

        def read(self, size: int = -1, /) -> bytes:
            self.given += 1
            return self.lines.pop(0) if self.lines else b""

        def seekable(self) -> bool:
            return False

    source = Slow()
    values = read_source(source, "csv")
    assert format_value(next(values)) == "{a:1.,b:2.}"
    assert source.given <= 2
