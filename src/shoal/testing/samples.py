"""Values of every kind of type, as ZSON texts; files of values, and damage to such files.

Where `shoal.testing.strategies` finds the unforeseen, these are the cases one would think of.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Iterator

from shoal.formats.registry import Write
from shoal.formats.streams import WriteOptions
from shoal.model import types as t
from shoal.model.parse import parse_type, parse_value
from shoal.model.values import Value

_TEXTS = r"""
0(uint8) ; 255(uint8) ; 65535(uint16) ; 4294967295(uint32) ; 18446744073709551615(uint64)
-128(int8) ; 127(int8) ; -32768(int16) ; -2147483648(int32) ; -9223372036854775808 ; 9223372036854775807 ; 0 ; -1
1h2m3.5s ; -1ns ; 0s ; 2022-12-04T00:00:00.123456789Z ; 1969-12-31T23:59:59Z
16.5(float16) ; 1.1(float32) ; 64. ; -0. ; NaN ; +Inf ; -Inf ; 1e+30 ; 0.1 ; NaN(float32)
true ; false ; 0x ; 0x00ff ; "" ; "hello" ; "\"q\" \\ \n \u0000 é 😀 <&>"
1.2.3.4 ; ::1 ; ::ffff:1.2.3.4 ; 10.0.0.0/8 ; 1.2.3.4/32 ; 2001:db8::/32 ; 0.0.0.0/0 ; null
<int64> ; <{a:int64,b:[(int64,string)]}> ; <port=uint16> ; <{a:port=uint16,b:port}> ; <enum(a,b)> ; <error(null)>
{} ; {a:1} ; {a:2} ; {a:1(int32)} ; {b:1,a:"x"} ; {a:{b:{c:{}}}} ; {a:null} ; {"a b":1,"":2} ; {a:null(int64)} ; {a:3}
[] ; [1,2,3] ; []([string]) ; [null(int64),1] ; [[1],[],[2,3]] ; [{a:1},{a:2}] ; [1,"a",2,null] ; [null,null]
|[]| ; |[1,2,3]| ; |["b","a"]| ; |[1,"a"]| ; |[[1,2],[3]]| ; {s:|[null(int64),1]|}
|{}| ; |{"a":1,"b":2}| ; |{1:"a","x":null(string)}| ; |{{k:1}:[1,2]}| ; {m:|{"a":|{1:2}|}|}
1((int64,string)) ; "x"((int64,string)) ; {u:"foo"((string,int64))} ; {u:1((string,int64))} ; {u:null((string,int64))}
[1,"a",[1,"b"]] ; {u:{a:1}(({a:int64},{b:string}))} ; {u:true((int64,string,bool))} ; [[1,"a"],["b"]([(int64,string)])]
%a(enum(a,b)) ; %b(enum(a,b)) ; %"c d"(enum(a,"c d")) ; {e:%b(enum(a,b))} ; [%a,%b,%a]([enum(a,b)])
error("missing") ; error({message:"bad",on:1}) ; error(error(1)) ; {e:error(1)} ; [error("a"),1] ; error(null)
80(port=uint16) ; {a:80(port=uint16)} ; {a:1}(=rec) ; {a:{b:1}(=inner)}(=outer) ; [1(n=int64)] ; error(1(n=int64))
{a:1(n=int64),b:"x"(n=string)} ; %a(e=enum(a,b)) ; [1,"s"](mix=[(int64,string)]) ; [1,2(n=int64),"n"]
"""

_TYPES_OF_NULLS = (
    "uint8 int16 int64 duration time float16 float64 bool bytes string ip net type {} {a:int64} [int64] |[string]| "
    "|{string:int64}| (int64,string) enum(a,b) error(string) error({a:int64}) port=uint16 rec={a:int64} [[int64]] "
    "{a:{b:[(int64,string)]}}"
)


def every_kind() -> list[Value]:
    """Values of all kinds of types, nulls among them."""
    texts = [text for line in _TEXTS.split("\n") if line for text in line.split(" ; ")]
    nulls = [Value(parse_type(text), None) for text in _TYPES_OF_NULLS.split()]
    return [*map(parse_value, texts), *nulls]


def every_kind_everywhere() -> list[Value]:
    """Each value of `every_kind` alone, in a record, an array, a map and a union, types coming and going."""
    values = every_kind()
    return [*values, *(wrapped for value in values for wrapped in _wrap(value)), *values[::-1]]


def _wrap(value: Value) -> Iterator[Value]:
    typ, data = value.type, value.data
    union = t.union((typ, t.DURATION))
    yield Value(t.record((("n", typ), ("z", t.INT64))), (data, 1))
    yield Value(t.record((("n", typ), ("z", t.INT64))), (None, 2))
    yield Value(t.array(typ), (data, None, data))
    yield Value(t.map_of(t.INT64, typ), ((1, data), (2, None)))
    yield Value(union, None if typ is t.NULL else (union.tags[typ], data))
    yield Value(t.named("wrapped", t.error(typ)), data)


def damaged(good: bytes, rounds: int, seed: int) -> Iterator[bytes]:
    """`good` with a few bytes changed, cut out, put in or moved, the same way for the same seed."""
    dice = random.Random(seed)
    for _ in range(rounds):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(bad) + 1)
            to = min(len(bad), at + dice.choice((0, 1, 1, 1, 2, 8, 60)))
            noise = bytes(dice.choice((dice.randrange(256), 0, 255, bad[at % len(bad)])) for _ in range(to - at))
            bad[at:to] = dice.choice((noise, noise, noise, b"", noise * 2, bytes(bad[to : to + 9])))
            if not bad:
                break
        yield bytes(bad)


def written(writer: Write, values: Iterable[Value], options: WriteOptions = WriteOptions()) -> bytes:
    """What a writer makes of values, to the end of the stream."""
    out = io.BytesIO()
    stream = writer(out, options)
    for value in values:
        stream.write(value)
    stream.close()
    return out.getvalue()


ODD_TEXTS = (
    "1", "-1", "0", "9223372036854775807", "-9223372036854775808", "null(int64)", "255(uint8)", "0(uint8)",
    "18446744073709551615(uint64)", "-128(int8)", "33", "null(uint16)", "1.5", "-1.5", "NaN", "-Inf", "null(float64)",
    "1.5(float32)", "2.5(float16)", "true", "null(bool)", '""', '"x"', '"12"', '"-7"', '"1.5"', '"1h"', '"ß é"',
    '"10.0.0.1"', '"10.0.0.0/8"', '"http://a.b:80/c?d=e#f"', '"http://[::"', '"2020-01-01"', '"0x0a"', '"0aff"',
    '"AQID"', '"<int64>"', '"%Y"', '"%"', '"("', '"(a)"', "null(string)", '"x"(=name)', "80(port=uint16)", "0x0aff",
    "0xff", "0x", "null(bytes)", "10.0.0.1", "255.255.0.0", "::1", "ff::", "null(ip)", "10.0.0.0/8", "::/0",
    "null(net)", "1s", "-3h", "null(duration)", "2020-01-01T00:00:00Z", "null(time)", "<int64>", "<{a:int64}>",
    "null(type)", "[1,2]", "[]([int64])", '["a","b"]', "null([string])", '[1,"a"]', "|[1]|", "|{1:2}|", '|{"a":"b"}|',
    "{a:1}", "{}", '{a:"x",b:{c:10.0.0.1}}', "null({a:int64})", "1((int64,string))", '"x"((int64,string))',
    "null((int64,string))", "%a(enum(a,b))", "null(enum(a,b))", 'error("x")', "error(1)", "null", "[null]", "1e300",
    "-0.", "0.5", "-2.5", "0.49999999999999994", "3e9", "-129.9", "9223372036854775808.", "1.8446744073709552e19",
    "16777217", "9007199254740993", "Inf", "70000(uint32)", "-70000(int32)", "1e300(float32)", '"+5"', '"007"', '" 1"',
    '"1_000"', '"9223372036854775808"', '"-9223372036854775809"', '"18446744073709551615"', '"300"', '"1e5"', '".5"',
    '"5."', '"-0"', '"-0.0"', '"inf"', '"NaN"', '"0x1p-2"', '"123456789012345.678901234567"', '"1234567890123456789"',
    '"2024-02-29T23:59:59.999999Z"', '"2023-02-29T00:00:00Z"', '"2024-01-01T24:00:00Z"', '"1899-12-31T00:00:00Z"',
    '"2024-01-01T00:00:00.1234567Z"', '"2024-01-01t00:00:00+01:00"', '"1700000000"', '"12/31/2020"', '"T"', '"false"',
    '"\\u0130stanbul \\u01c5"', '"\\u00a0 a b\\u3000"', '"\\tTab"', '"Ａ"', '"10.0.0.0/33"', '"ffff::1"', "10.5.6.7",
    "::ffff:10.0.0.1", "10.255.255.255", "11.0.0.0", "-9223372036854775808ns", "[[1],[2]]", "[{a:1}]", '|["a","b"]|',
    "[1,null(int64),3]", "{a:null(int64)}", "{a:{b:[1,2]}}", '"foo bar foo"', '"a,b,c"', "1h30m",
    "1969-12-31T23:59:59.5Z", "%b(enum(a,b))", "[10.0.0.1,11.0.0.1]", "|{10.0.0.1:1}|", "[80(port=uint16)]",
    "error({a:1})",
)  # fmt: skip
"""Values at the edges of every type, as ZSON: what functions of any kind may meet."""
