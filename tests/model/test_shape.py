from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model import shape as shaping
from shoal.model import types as t
from shoal.model.parse import parse_type, parse_value
from shoal.model.shape import FIT, SHAPE, Transform, cast, crop, fill, fit, order, shape
from shoal.model.text import format_value
from shoal.model.values import NULL, Value, is_error
from shoal.model.zcode import decode, encode
from shoal.testing.strategies import types, values

FUNCTIONS = {"cast": cast, "crop": crop, "fill": fill, "fit": fit, "order": order, "shape": shape}


def shaped(function: str, given_: str, to: str) -> str:
    return format_value(FUNCTIONS[function](parse_value(given_), parse_type(to)))


NOT_IP = 'error({message:"cannot cast to ip",on:"2"})'
CONN = "conn={_path:string,id:{src:ip,dst:ip},etc:string}"
SOCKET = "socket={addr:ip,port:port=uint16}"
CONNECTION = f"connection={{kind:string,client:{SOCKET},server:socket,vlan:uint16}}"
SAMPLE = json.dumps(
    {
        "kind": "dns",
        "server": {"addr": "10.0.0.100", "port": 53},
        "client": {"addr": "10.47.1.100", "port": 41772},
        "uid": "C2z",
    }
)
MALFORMED = json.dumps(
    {
        "kind": "dns",
        "server": {"addr": "10.0.0.100", "port": 53},
        "client": {"addr": "39 Elm", "port": 41772},
        "vlan": "available",
    }
)
PORTS = "{c:port=int64,b:parr=[prec={p:port,q:port}],a:prec}"
UNIONS = "{a:union=(int64,string,string_named=string)}"

CASES = [
    # ---- cast: leaves and records
    ("cast", "{a:1,b:2}", "{b:string}", '{a:1,b:"2"}'),
    ("cast", "{a:3}", "{b:string}", "{a:3}"),
    ("cast", "{b:4}", "{b:string}", '{b:"4"}'),
    (
        "cast", '{ts:"1/1/2022",r:{x:"1",y:"2"}}', "{ts:time,r:{x:float64,y:float64}}",
        "{ts:2022-01-01T00:00:00Z,r:{x:1.,y:2.}}",
    ),
    (
        "cast", '{name:"steve",likes:"spicy",age:"52"}', "person={name:string,likes:string,age:int64}",
        '{name:"steve",likes:"spicy",age:52}(=person)',
    ),
    (
        "cast", '{_path:"conn",id:{src:"192.168.1.1",dst:"192.168.1.2"},etc:"foo"}', CONN,
        '{_path:"conn",id:{src:192.168.1.1,dst:192.168.1.2},etc:"foo"}(=conn)',
    ),
    (
        "cast", '{orig_h:ff02::fb,orig_p:5353(port=uint16),resp_p:5353(port),resp_h:"notanip"}',
        "{resp_h:ip,resp_p:port=uint16,orig_h:ip,orig_p:port}",
        ("{orig_h:ff02::fb,orig_p:5353(port=uint16),resp_p:5353(port),"
        'resp_h:error({message:"cannot cast to ip",on:"notanip"})}'),
    ),
    ("cast", "1", "{a:int64}", "1"),
    ("cast", "{a:1}", "[int64]", "{a:1}"),
    ("cast", "{a:%x(enum(x,y))}", "{a:string}", '{a:"x"}'),
    ("cast", '{a:"x"}', "{a:enum(x,y)}", 'error("cast to enum(x,y) not implemented")'),
    ("cast", "{a:1}", "{a:null}", 'error("cast to null not implemented")'),
    ("cast", '{a:error("x")}', "{a:ip}", '{a:error({message:"cannot cast to ip",on:error("x")})}'),
    ("cast", '{a:{b:"2"},c:1}', "{a:r={b:ip}}", f"{{a:{{b:{NOT_IP}}},c:1}}"),
    # ---- cast: names
    (
        "cast", "{a:1(myport=int16),b:{p:1(myport)},c:[1(myport)]}", "{a:port=int64,b:prec={p:port},c:parr=[port]}",
        "{a:1(=port),b:{p:1(port)}(=prec),c:[1(port)](=parr)}",
    ),
    (
        "cast", "{a:1,b:{p:1},c:[1]}", "{a:port=int64,b:prec={p:port},c:parr=[port]}",
        "{a:1(=port),b:{p:1(port)}(=prec),c:[1(port)](=parr)}",
    ),
    # ---- cast: arrays and sets
    ("cast", '["1"]', "[int64]", "[1]"),
    ("cast", "{a:null([string]),b:null([{b:string}])}", "{a:[ip],b:[{b:ip}]}", "{a:null([ip]),b:null([{b:ip}])}"),
    ("cast", "{a:[]([string]),b:[]([{b:string}])}", "{a:[ip],b:[{b:ip}]}", "{a:[]([ip]),b:[]([{b:ip}])}"),
    (
        "cast", '{a:[null(string),"1.1.1.1"],b:[null({b:string}),{b:null(string)},{b:"2.2.2.2"}]}',
        "{a:[ip],b:[{b:ip}]}", "{a:[null(ip),1.1.1.1],b:[null({b:ip}),{b:null(ip)},{b:2.2.2.2}]}",
    ),
    (
        "cast", '{a:[null,"1.1.1.1","2"],b:[{b:null},{b:"1.1.1.1"},{b:"2"}]}', "{a:[ip],b:[{b:ip}]}",
        f"{{a:[null,1.1.1.1,{NOT_IP}],b:[{{b:null(ip)}},{{b:1.1.1.1}},{{b:{NOT_IP}}}]}}",
    ),
    (
        "cast", "{a:null([string]),b:null([{b:string}])}", "{a:|[ip]|,b:|[{b:ip}]|}",
        "{a:null(|[ip]|),b:null(|[{b:ip}]|)}",
    ),
    ("cast", "{a:[]([string]),b:[]([{b:string}])}", "{a:|[ip]|,b:|[{b:ip}]|}", "{a:|[]|(|[ip]|),b:|[]|(|[{b:ip}]|)}"),
    (
        "cast", '{a:["1.1.1.1","2.2.2.2","2.2.2.2"],b:[{b:"1.1.1.1"},{b:"2.2.2.2"},{b:"2.2.2.2"}]}',
        "{a:|[ip]|,b:|[{b:ip}]|}", "{a:|[1.1.1.1,2.2.2.2]|,b:|[{b:1.1.1.1},{b:2.2.2.2}]|}",
    ),
    (
        "cast", '{a:[null,"1.1.1.1","2"],b:[{b:null},{b:"1.1.1.1"},{b:"2"}]}', "{a:|[ip]|,b:|[{b:ip}]|}",
        f"{{a:|[null,1.1.1.1,{NOT_IP}]|,b:|[{{b:null(ip)}},{{b:1.1.1.1}},{{b:{NOT_IP}}}]|}}",
    ),
    (
        "cast", '{a:|["1.1.1.1","2.2.2.2"]|,b:|[{b:"1.1.1.1"},{b:"2.2.2.2"}]|}', "{a:[ip],b:[{b:ip}]}",
        "{a:[1.1.1.1,2.2.2.2],b:[{b:1.1.1.1},{b:2.2.2.2}]}",
    ),
    (
        "cast", '{a:|[null,"1.1.1.1","2"]|,b:|[{b:null},{b:"1.1.1.1"},{b:"2"}]|}', "{a:[ip],b:[{b:ip}]}",
        f"{{a:[null,{NOT_IP},1.1.1.1],b:[{{b:{NOT_IP}}},{{b:null(ip)}},{{b:1.1.1.1}}]}}",
    ),
    ("cast", '["2","2"]', "ips=[ip]", f"[{NOT_IP},{NOT_IP}]"),
    # ---- cast: from unions
    ("cast", "null((int64,string))", "string", "null(string)"),
    ("cast", "null(int64)((int64,string))", "string", "null(string)"),
    ("cast", "null(int64_named=int64)(union_named=(int64_named,string))", "string", "null(string)"),
    ("cast", "1((int64,string))", "string", '"1"'),
    ("cast", "1(int64_named=int64)(union_named=(int64_named,string))", "string", '"1(=int64_named)"'),
    (
        "cast", "1(int8)((int8,string))", "(int64,string)",
        'error("createStep: incompatible types (int8,string) and (int64,string)")',
    ),
    (
        "cast", "1((int64,string))", "(int8,string)",
        'error("createStep: incompatible types (int64,string) and (int8,string)")',
    ),
    ("cast", '"one"((int64,string))', "string", '"one"'),
    ("cast", '[1,"one"]', "[string]", '["1","one"]'),
    (
        "cast", '[1,"one"]', "[(int8,int16)]",
        'error("createStep: incompatible types (int64,string) and (int8,int16)")',
    ),
    ("cast", '{a:[1,"one"]}', "{a:[string]}", '{a:["1","one"]}'),
    (
        "cast", '{a:[1,"one"]}', "{a:[(int8,string)]}",
        'error("createStep: incompatible types (int64,string) and (int8,string)")',
    ),
    (
        "cast", '1((int64,string))', "enum(x)",
        r'error("cannot cast union \"(int64,string)\" to \"enum(x)\" due to \"int64\"")',
    ),
    # ---- cast: to unions
    ("cast", "1", "(int64,string)", "1((int64,string))"),
    ("cast", '"foo"', "(int64,string)", '"foo"((int64,string))'),
    ("cast", "1", "(int8,string)", "1"),
    ("cast", "{a:null}", UNIONS, "{a:null(union=(int64,string,string_named=string))}"),
    ("cast", "{a:null(int64)}", UNIONS, "{a:null(union=(int64,string,string_named=string))}"),
    ("cast", "{a:1}", UNIONS, "{a:1(union=(int64,string,string_named=string))}"),
    ("cast", '{a:"hello"}', UNIONS, '{a:"hello"(union=(int64,string,string_named=string))}'),
    ("cast", '{a:"bye"(=string_named)}', UNIONS, '{a:"bye"(=string_named)(union=(int64,string,string_named))}'),
    ("cast", '"x"(=other)', "(int64,string_named=string)", '"x"(=string_named)((int64,string_named))'),
    # ---- cast: maps
    ("cast", '|{"1":"1.1.1.1"}|', "|{int64:ip}|", "|{1:1.1.1.1}|"),
    ("cast", '|{"1":"2"}|', "|{int64:ip}|", f"|{{1:{NOT_IP}}}|"),
    ("cast", '|{"a":{x:"1",y:1}}|', "|{string:{x:int64}}|", '|{"a":{x:1,y:1}}|'),
    ("cast", '|{"a":1}|', "m=|{string:int64}|", '|{"a":1}|(=m)'),
    ("cast", "1", "|{string:int64}|", 'error({message:"cannot cast to |{string:int64}|",on:1})'),
    ("cast", "{a:1,b:2}", "{a:|{string:int64}|}", '{a:error({message:"cannot cast to |{string:int64}|",on:1}),b:2}'),
    ("cast", "{a:null(int64)}", "{a:|{string:int64}|}", "{a:null(|{string:int64}|)}"),
    ("cast", '{a:|{"x":1}|}', "{a:string}", '{a:|{"x":1}|}'),
    # ---- crop
    ("crop", "{a:1,b:2}", "{a:int64}", "{a:1}"),
    (
        "crop", '{arr:[{a:"one",b:"two"},{a:"three",b:"four"}],set:|[{a:"one",b:"two"},{a:"three",b:"four"}]|}',
        "{set:|[{b:string}]|,arr:[{a:string}]}", '{arr:[{a:"one"},{a:"three"}],set:|[{b:"two"},{b:"four"}]|}',
    ),
    ("crop", "{f:1(=int64_named)}(=r)", "{f:null}", "{f:1(=int64_named)}(=r)"),
    ("crop", "{f:[1(=int64_named)](=array_named)}(=r)", "{f:null}", "{f:[1(=int64_named)](=array_named)}(=r)"),
    ("crop", "{f:{g:1(=int64_named)}(=q)}(=r)", "{f:null}", "{f:{g:1(=int64_named)}(=q)}(=r)"),
    (
        "crop", "{f:1(=int64_named)(union_named=(int64,int64_named))}(=r)", "{f:null}",
        "{f:1(=int64_named)(union_named=(int64,int64_named))}(=r)",
    ),
    ("crop", "{f:|[1(=int64_named)]|(=set_named)}(=r)", "{f:null}", "{f:|[1(=int64_named)]|(=set_named)}(=r)"),
    ("crop", "{a:1,b:2}", "{}", "{}"),
    ("crop", "null", "{a:int64}", "null({a:int64})"),
    # ---- fill and fit
    ("fill", "{a:1}", "{a:int64,b:string}", "{a:1,b:null(string)}"),
    ("fill", '{s:"x"}', "{a:{b:{c:string}}}", '{s:"x",a:null({b:{c:string}})}'),
    ("fill", "{a:null({s:string})}", "{a:{b:{c:string}}}", "{a:null({s:string,b:{c:string}})}"),
    ("fill", "{a:{s:null(string)}}", "{a:{b:{c:string}}}", "{a:{s:null(string),b:null({c:string})}}"),
    (
        "fill", '{orig_h:"ff02::fb",resp_h:"ff02::fb"}', "{orig_h:ip,orig_p:port=uint16}",
        '{orig_h:"ff02::fb",resp_h:"ff02::fb",orig_p:null(port=uint16)}',
    ),
    (
        "fit", '{orig_h:"ff02::fb",resp_h:"ff02::fb"}', "{orig_h:ip,orig_p:port=uint16}",
        '{orig_h:"ff02::fb",orig_p:null(port=uint16)}',
    ),
    # ---- order
    ("order", '{c:0,a:1,b:"foo"}', "{}", '{a:1,b:"foo",c:0}'),
    ("order", "{b:1,d:2,c:3,a:4}", "{a:int64,b:int64}", "{a:4,b:1,c:3,d:2}"),
    (
        "order", "{a:{q:1(=port),p:2(port)},b:[{q:1,p:2(port)}],c:3(port)}", PORTS,
        "{c:3(=port),b:[{p:2(port),q:1}],a:{p:2(port),q:1(port)}}",
    ),
    (
        "order", "{a:{q:1(myport=int16),p:2(myport)},b:[{q:1(myport),p:2(myport)}],c:3(myport)}", PORTS,
        "{c:3(myport=int16),b:[{p:2(myport),q:1(myport)}],a:{p:2(myport),q:1(myport)}}",
    ),
    # ---- shape
    (
        "shape", "{a:{q:1(myport=int16),p:2(myport)},b:[{q:1}],c:3}", PORTS,
        "{c:3(=port),b:[{p:null(port),q:1(port)}(=prec)](=parr),a:{p:2,q:1}(prec)}",
    ),
    (
        "shape", "{array:null,record:null}", "{array:[string],record:{c1:int64,c2:string,c3:time}}",
        "{array:null([string]),record:null({c1:int64,c2:string,c3:time})}",
    ),
    (
        "shape",
        '{id:{orig_h:"1.2.3.4",resp_h:"5.6.7.8",orig_p:1234(port=uint16),resp_p:53(port),tag:0(uint16)}}',
        "rec={id:id={orig_h:ip,orig_p:port=uint16,vlan:uint16,resp_h:ip,resp_p:port}}",
        "{id:{orig_h:1.2.3.4,orig_p:1234(port=uint16),vlan:null(uint16),resp_h:5.6.7.8,resp_p:53(port),tag:0(uint16)}}",
    ),
    ("shape", '{a:"a",b:"b"}', "{a:time}", '{a:error({message:"cannot cast to time",on:"a"}),b:"b"}'),
    ("shape", "{x:2,y:\"bar\"}", "{x:(int64,string),y:string}", '{x:2((int64,string)),y:"bar"}'),
    ("shape", "1", "string", '"1"'),
    ("shape", "{a:1}", "string", "{a:1}"),
    # ---- the connections of the shaping guide
    (
        "cast", SAMPLE, CONNECTION,
        ('{kind:"dns",server:{addr:10.0.0.100,port:53(port=uint16)}(=socket),'
        'client:{addr:10.47.1.100,port:41772}(socket),uid:"C2z"}'),
    ),
    (
        "crop", SAMPLE, CONNECTION,
        '{kind:"dns",server:{addr:"10.0.0.100",port:53},client:{addr:"10.47.1.100",port:41772}}',
    ),
    (
        "fill", SAMPLE, CONNECTION,
        ('{kind:"dns",server:{addr:"10.0.0.100",port:53},client:{addr:"10.47.1.100",port:41772},'
        'uid:"C2z",vlan:null(uint16)}'),
    ),
    (
        "order", SAMPLE, CONNECTION,
        '{kind:"dns",client:{addr:"10.47.1.100",port:41772},server:{addr:"10.0.0.100",port:53},uid:"C2z"}',
    ),
    (
        "shape", SAMPLE, CONNECTION,
        ('{kind:"dns",client:{addr:10.47.1.100,port:41772(port=uint16)}(=socket),'
        'server:{addr:10.0.0.100,port:53}(socket),vlan:null(uint16),uid:"C2z"}'),
    ),
    (
        "shape", MALFORMED, CONNECTION,
        ('{kind:"dns",client:{addr:error({message:"cannot cast to ip",on:"39 Elm"}),port:41772(port=uint16)},'
        'server:{addr:10.0.0.100,port:53(port)}(=socket),'
        'vlan:error({message:"cannot cast to uint16",on:"available"})}'),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("function", "given_", "to", "wanted"), CASES)
def test_shaping_functions(function: str, given_: str, to: str, wanted: str) -> None:
    assert shaped(function, given_, to) == wanted


def test_cropping_after_shaping_gives_the_target_type() -> None:
    to = parse_type(CONNECTION)
    assert crop(shape(parse_value(SAMPLE), to), to).type.under is to.under


def test_errors_pass_unchanged() -> None:
    value = parse_value("error({a:1})")
    assert all(f(value, parse_type("{a:string}")) is value for f in FUNCTIONS.values())


def plans_of(typ: t.Type) -> int:
    """How many plans a type keeps."""
    plans = typ.memo.get(shaping._PLANS)
    return 0 if plans is None else len(plans)


def test_the_same_types_are_planned_once() -> None:
    to = parse_type("{planned_once:string}")
    for text in ("{planned_once:1}", "{planned_once:2}"):
        cast(parse_value(text), to)
    assert plans_of(to) == 1


def test_plans_do_not_pile_up_on_types_that_live_for_ever() -> None:
    before = plans_of(t.STRING)
    cast(parse_value("1((int64,string))"), t.STRING)
    assert plans_of(t.STRING) == before


def test_an_error_too_deep_for_its_place_becomes_the_result() -> None:
    wide, deep = t.record([("a", t.STRING)]), t.record([("a", t.IP)])
    while deep.depth < t.MAX_DEPTH:
        wide, deep = t.record([("a", wide)]), t.record([("a", deep)])
    data: object = "not an address"
    for _ in range(t.MAX_DEPTH - 1):
        data = (data,)
    assert format_value(cast(Value(wide, data), deep)) == 'error("type nests deeper than 128 levels")'


# ---- properties

transforms = st.integers(0, 15).map(Transform)


@given(values(), types(), transforms)
def test_shaping_any_value_to_any_type_yields_a_sound_value(value: Value, to: t.Type, how: Transform) -> None:
    made = shape(value, to, how)
    body = encode(made.type, made.data)
    assert encode(made.type, decode(made.type, body)) == body
    assert Value(made.type, decode(made.type, body)) == made
    assert parse_value(format_value(made)) == made


record_pairs = st.tuples(values(), types()).map(
    lambda p: (
        Value(t.record((("a", p[0].type), ("b", t.INT64))), (p[0].data, 7)),
        t.record((("b", t.STRING), ("a", p[1]))),
    )
)


@given(record_pairs, transforms)
def test_records_of_any_fields_are_shaped_to_sound_values(pair: tuple[Value, t.Record], how: Transform) -> None:
    made = shape(*pair, how)
    assert parse_value(format_value(made)) == made


@given(values(), transforms)
def test_shaping_to_its_own_type_changes_nothing(value: Value, how: Transform) -> None:
    assert shape(value, value.type, how) == value


@given(types(), types(), transforms)
def test_null_becomes_a_null_of_the_target(source: t.Type, to: t.Type, how: Transform) -> None:
    made = shape(Value(source, None), to, how)
    assert made == (Value(source, None) if isinstance(source.under, t.Error) else Value(to, None))
    assert shape(NULL, to, how) == Value(to, None)


@given(record_pairs, st.sampled_from((Transform.CROP, Transform.FILL, FIT, Transform.ORDER)))
def test_shaping_without_a_cast_is_done_when_it_is_done(pair: tuple[Value, t.Record], how: Transform) -> None:
    once = shape(*pair, how)
    assert shape(once, pair[1], how) == once


@given(record_pairs)
def test_fitting_is_cropping_and_filling(pair: tuple[Value, t.Record]) -> None:
    value, to = pair
    assert fit(value, to) == fill(crop(value, to), to)


@given(record_pairs)
def test_shaping_leads_to_the_fields_of_the_target(pair: tuple[Value, t.Record]) -> None:
    made = shape(*pair, SHAPE)
    if not is_error(made):
        assert isinstance(made.type.under, t.Record)
        assert [f.name for f in made.type.under.fields] == ["b", "a"]
