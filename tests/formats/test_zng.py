from __future__ import annotations

import io

import pytest

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.streams import WriteOptions
from shoal.formats.zng import stream as zng
from shoal.formats.zng.stream import Control
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value


def frame(kind: int, payload: bytes) -> bytes:
    return bytes((kind << 4 | len(payload) & 15, len(payload) >> 4)) + payload


def texts(data: bytes) -> list[str]:
    return [format_value(value) for value in zng.read(io.BytesIO(data))]


TYPES, VALUES, END = 0, 1, b"\xff"


def test_a_stream_written_by_hand_is_read() -> None:
    record = b"\x00\x02\x01a\x09\x01b\x19"  # {a:int64,b:string} is type 30
    values = b"\x1e\x05\x02\x02\x02x"  # a is 1, b is "x"
    assert texts(frame(TYPES, record) + frame(VALUES, values) + END) == ['{a:1,b:"x"}']


def test_streams_follow_each_other_and_each_has_its_own_types() -> None:
    first = frame(TYPES, b"\x01\x09") + frame(VALUES, b"\x1e\x03\x02\x02") + END
    second = frame(TYPES, b"\x01\x19") + frame(VALUES, b"\x1e\x03\x02x") + END
    assert texts(first + second) == ["[1]", '["x"]']
    with pytest.raises(InvalidInput, match="type 30 is used before its definition"):
        texts(first + frame(VALUES, b"\x1e\x03\x02\x02") + END)


def test_members_of_a_union_may_be_listed_in_any_order() -> None:
    union = b"\x04\x02\x19\x09"  # (string,int64) is type 30: string is tag 0 here and 1 to us
    types = union + b"\x00\x01\x01u\x1e" + b"\x01\x1e" + b"\x02\x1e" + b"\x03\x1e\x09" + b"\x06\x1e" + b"\x07\x01n\x1f"
    member = b"\x04\x01\x02x"  # tag 0, "x"
    values = b"".join(
        (
            b"\x1e" + member,
            b"\x1f" + b"\x05" + member,
            b"\x20" + b"\x05" + member,
            b"\x21" + b"\x05" + member,
            b"\x22" + b"\x07" + member + b"\x02\x04",
            b"\x23" + member,
            b"\x24" + b"\x05" + member,
            b"\x1f\x02\x00",
        )
    )
    assert texts(frame(TYPES, types) + frame(VALUES, values) + END) == [
        '"x"((int64,string))',
        '{u:"x"((int64,string))}',
        '["x"]([(int64,string)])',
        '|["x"]|(|[(int64,string)]|)',
        '|{"x":2}|(|{(int64,string):int64}|)',
        'error("x")(error((int64,string)))',
        '{u:"x"((int64,string))}(=n)',
        "{u:null((int64,string))}",
    ]


def test_control_messages_come_between_values() -> None:
    out = io.BytesIO()
    writer = zng.Writer(out)
    writer.write(parse_value("1"))
    writer.control(Control(2, b"{progress:1}"))
    writer.write(parse_value("2"))
    writer.close()
    messages = list(zng.read_messages(io.BytesIO(out.getvalue())))
    assert messages == [parse_value("1"), Control(2, b"{progress:1}"), parse_value("2")]
    assert texts(out.getvalue()) == ["1", "2"]


def test_a_control_message_is_its_encoding_and_its_text_as_the_real_tools_write_it() -> None:
    out = io.BytesIO()
    writer = zng.Writer(out)
    writer.control(Control(2, b"{a:1}\n"))
    writer.close()
    assert out.getvalue() == b"\x27\x00\x02{a:1}\n" + END
    body = b"{" + b"x" * 123  # the first byte is the length of the rest
    assert list(zng.read_messages(io.BytesIO(b"\x2d\x07\x02" + body + END))) == [Control(2, body)]


def test_a_note_is_skipped_by_readers() -> None:
    out = io.BytesIO()
    writer = zng.Writer(out)
    writer.write(parse_value("1"))
    writer.note("some text")
    writer.close()
    assert texts(out.getvalue()) == ["1"]
    kinds = [kind for kind, _ in zng.frames(io.BytesIO(out.getvalue()))]
    assert kinds == [zng.VALUES, zng.END_OF_STREAM, zng.TYPES, zng.END_OF_STREAM]
    assert zng.parse_note(list(zng.frames(io.BytesIO(out.getvalue())))[2][1]) == "some text"


@pytest.mark.parametrize("compress", [True, False])
def test_a_frame_beyond_the_limit_of_the_caller_is_refused(compress: bool) -> None:
    out = io.BytesIO()
    writer = zng.Writer(out, WriteOptions(zng_compress=compress))
    writer.write(Value(t.STRING, "x" * 2000))
    writer.close()
    options = ReadOptions(max_value_size=3000)
    assert len(list(zng.read(io.BytesIO(out.getvalue()), options))) == 1
    with pytest.raises(InvalidInput, match=r"frame length \(2003\) exceeds maximum allowed \(1000\)"):
        list(zng.read(io.BytesIO(out.getvalue()), ReadOptions(max_value_size=1000)))


def test_compression_makes_it_smaller_and_changes_nothing() -> None:
    def written(compress: bool) -> bytes:
        out = io.BytesIO()
        writer = zng.Writer(out, WriteOptions(zng_compress=compress))
        for _ in range(1000):
            writer.write(parse_value('{a:"hello, world",b:1}'))
        writer.close()
        return out.getvalue()

    assert len(written(True)) < len(written(False)) / 10
    assert texts(written(True)) == texts(written(False))


def test_no_values_make_an_empty_file() -> None:
    out = io.BytesIO()
    zng.Writer(out).close()
    assert out.getvalue() == b""
    assert texts(b"") == []
    assert texts(END) == []


@pytest.mark.parametrize(
    "data, error",
    [
        (b"\x1f\xff\xff\xff\x7f", "exceeds maximum allowed"),
        (frame(VALUES, b"\x09\x02")[:-1], "expected 2 more bytes, found the end of the input"),
        (b"\x90\x00", "unknown version"),
        (b"\x30\x00", "unknown frame code"),
        (frame(VALUES, b"\x05\x00"), "type 5 is reserved"),
        (frame(VALUES, b"\x19\x02\xff"), "malformed"),
        (frame(VALUES, b"\x00\x03\xff\xff"), "integer out of range"),
        (frame(VALUES, b"\x09\x0b" + b"\x01" * 10), "integer out of range"),
        (frame(VALUES, b"\x1a\x02\x00"), "bad length of ip"),
        (frame(TYPES, b"\x00\xff\x7f"), "typedef of 16383 parts"),
        (frame(TYPES, b"\x04\x02\x09\x09"), "a type is twice in a union"),
        (frame(TYPES, b"\x09\x09"), "unknown typedef code 9"),
        (b"\x54\x00\x00\xff\xff\x03", "more than its"),
        (b"\x52\x00\x07\x00", "unknown compression format 0x07"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(data: bytes, error: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        texts(data)
    assert str(caught.value).startswith("zng: frame at byte 0: ")
    assert error in str(caught.value)


def test_a_first_value_without_an_end_is_no_zng_and_a_later_one_has_a_place() -> None:
    endless = frame(VALUES, b"\x09\x20\x02")
    with pytest.raises(InvalidInput, match=r"^malformed zng record$"):
        texts(endless)
    with pytest.raises(InvalidInput, match=r"^zng: frame at byte 5: value runs past its frame$"):
        texts(frame(VALUES, b"\x09\x02\x02") + endless)


def test_a_frame_that_lies_about_its_size_costs_no_memory() -> None:
    huge = b"\x1f" + b"\xff\xff\x7f"  # a frame of some 33 MB, of which nothing comes
    with pytest.raises(InvalidInput, match="found the end"):
        list(zng.read(io.BytesIO(huge)))


def test_values_before_a_bad_frame_are_read() -> None:
    good = frame(VALUES, b"\x09\x02\x02\x09\x02\x04")
    read: list[Value] = []
    with pytest.raises(InvalidInput, match="byte 8"):
        for value in zng.read(io.BytesIO(good + b"\x30\x00")):
            read.append(value)
    assert read == [parse_value("1"), parse_value("2")]
