"""Values of every kind of type, as ZSON texts that survive any complete format; and damage to files.

Where `shoal.testing.strategies` finds the unforeseen, these are the cases one would think of.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.values import Value

_PRIMITIVES = """
0(uint8)|255(uint8)|65535(uint16)|4294967295(uint32)|18446744073709551615(uint64)
-128(int8)|127(int8)|-32768(int16)|-2147483648(int32)|-9223372036854775808|9223372036854775807|0|-1
1h2m3.5s|-1ns|0s|2022-12-04T00:00:00.123456789Z|1969-12-31T23:59:59Z
16.5(float16)|1.1(float32)|64.|-0.|NaN|+Inf|-Inf|1e+30|0.1|NaN(float32)
true|false|0x|0x00ff|""|"hello"|"\\"q\\" \\\\ \\n \\u0000 é 😀 <&>"
1.2.3.4|::1|::ffff:1.2.3.4|10.0.0.0/8|1.2.3.4/32|2001:db8::/32|0.0.0.0/0|null
<int64>|<{a:int64,b:[(int64,string)]}>|<port=uint16>|<{a:port=uint16,b:port}>|<enum(a,b)>|<error(null)>
"""

_COMPLEX = """
{}|{a:1}|{a:2}|{a:1(int32)}|{b:1,a:"x"}|{a:{b:{c:{}}}}|{a:null}|{"a b":1,"":2}|{a:null(int64)}|{a:3}
[]|[1,2,3]|[]([string])|[null(int64),1]|[[1],[],[2,3]]|[{a:1},{a:2}]|[1,"a",2,null]|[null,null]
|[]||||[1,2,3]||||["b","a"]||||[1,"a"]||||[[1,2],[3]]||{s:|[null(int64),1]|}
|{}||||{"a":1,"b":2}||||{1:"a","x":null(string)}||||{{k:1}:[1,2]}||{m:|{"a":|{1:2}|}|}
1((int64,string))|"x"((int64,string))|{u:"foo"((string,int64))}|{u:1((string,int64))}|{u:null((string,int64))}
[1,"a",[1,"b"]]|{u:{a:1}(({a:int64},{b:string}))}|null((int64,string))|{u:1((int64,(string,bool)))}
%a(enum(a,b))|%b(enum(a,b))|%"c d"(enum(a,"c d"))|{e:%b(enum(a,b))}|[%a,%b,%a]([enum(a,b)])
error("missing")|error({message:"bad",on:1})|error(error(1))|{e:error(1)}|[error("a"),1]|error(null)
80(port=uint16)|{a:80(port=uint16)}|{a:1}(=rec)|{a:{b:1}(=inner)}(=outer)|[1(=n),2(=n)]|error(1(=n))
{a:1(=n),b:"x"(=n)}|1(x=(y=int64))|%a(e=enum(a,b))|[1,"s"](=mix)|{u:1((n=int64,string))}
"""

_NULLS = (
    "uint8 int16 int64 duration time float16 float64 bool bytes string ip net type {} {a:int64} [int64] |[string]| "
    "|{string:int64}| (int64,string) enum(a,b) error(string) error({a:int64}) port=uint16 rec={a:int64} [[int64]] "
    "{a:{b:[(int64,string)]}}"
)


def every_kind() -> list[Value]:
    """Values of all kinds of types in one stream, types coming and going, nulls among them."""
    nulls = [f"null({typ})" for typ in _NULLS.split()]
    values = [parse_value(text) for text in (*_texts(_PRIMITIVES), *_texts(_COMPLEX), *nulls)]
    inside = [Value(t.record((("n", v.type), ("z", t.INT64))), (v.data, i)) for i, v in enumerate(values)]
    elements = [Value(t.array(v.type), (v.data, None, v.data)) for v in values]
    members = [Value(t.union((v.type, t.DURATION)), (t.union((v.type, t.DURATION)).tags[v.type], v.data)) for v in values]
    return [*values, *inside, *values[::-1], *elements, *members]


def _texts(table: str) -> Iterator[str]:
    """The cells of a table; a bar that belongs to a set or map stands beside a bracket or brace."""
    for line in table.split("\n"):
        depth, cell = 0, ""
        for at, c in enumerate(line):
            is_bar = c == "|" and depth == 0 and not _opens(line, at)
            depth += (c in "([{") - (c in ")]}")
            if is_bar and not cell.endswith(("]", "}")) or is_bar and _closed(cell):
                yield cell
                cell = ""
            else:
                cell += c
        if cell:
            yield cell
