from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.engines.interp.functions.network import parse_uri
from shoal.model import types as t
from shoal.model.values import Value, string, structured_error

CASES = [
    ("cidr_match", "10.0.0.0/8 10.0.0.1", "true"),
    ("cidr_match", "10.0.0.0/8 {a:11.0.0.1,b:[10.0.0.1]}", "true"),
    ("cidr_match", "10.0.0.0/8 error({on:10.0.0.1})", "true"),
    ("cidr_match", "10.0.0.0/8 ::ffff:10.0.0.1", "false"),
    ("cidr_match", "10.0.0.0/8 null(ip)", "false"),
    ("cidr_match", "null(net) 10.0.0.1", "false"),
    ("cidr_match", "[1,2,3] 10.0.0.1", 'error({message:"cidr_match: not a net",on:[1,2,3]})'),
    ("network_of", "10.1.2.129 24", "10.1.2.0/24"),
    ("network_of", "10.1.2.129 25(uint8)", "10.1.2.128/25"),
    ("network_of", "10.1.2.129 255.255.255.128", "10.1.2.128/25"),
    ("network_of", "10.1.2.129", "10.0.0.0/8"),
    ("network_of", "130.1.2.129(=addr)", "130.1.0.0/16"),
    ("network_of", "200.1.2.129", "200.1.2.0/24"),
    ("network_of", "2001:db8::1 32", "2001:db8::/32"),
    ("network_of", "ff::", 'error({message:"network_of: not an IPv4 address",on:ff::})'),
    ("network_of", "1", 'error({message:"network_of: not an IP",on:1})'),
    (
        "network_of",
        "10.1.2.129 48",
        'error({message:"network_of: CIDR bit count out of range",on:{address:10.1.2.129,mask:48}})',
    ),
    (
        "network_of",
        "10.1.2.129 -1",
        'error({message:"network_of: CIDR bit count out of range",on:{address:10.1.2.129,mask:-1}})',
    ),
    (
        "network_of",
        "10.1.2.129 255.255.128.255",
        'error({message:"network_of: mask is non-contiguous",on:255.255.128.255})',
    ),
    (
        "network_of",
        "10.1.2.129 ff::",
        'error({message:"network_of: address and mask have different lengths",on:{address:10.1.2.129,mask:ff::}})',
    ),
    ("network_of", '10.1.2.129 "x"', 'error({message:"network_of: bad arg for CIDR mask",on:"x"})'),
    ("network_of", "null(ip) 8", "null(net)"),
]


@pytest.mark.parametrize("name, args, expected", CASES)
def test_networks(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


URI_CASES = [
    (
        "parse_uri",
        '"scheme://user:password@host:12345/path?a=1&a=2&b=3&c=#fragment"',
        (
            '{scheme:"scheme",opaque:null(string),user:"user",password:"password",host:"host",port:12345(uint16),'
            'path:"/path",query:|{"a":["1","2"],"b":["3"],"c":[""]}|,fragment:"fragment"}'
        ),
    ),
]


@pytest.mark.parametrize("name, args, expected", URI_CASES)
def test_uris(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


PARTS = [
    ("", {}),
    ("*", {"path": "*"}),
    ("mailto:a@b.c?x=1", {"scheme": "mailto", "opaque": "a@b.c", "query": (("x", ("1",)),)}),
    ("HTTP://h", {"scheme": "http", "host": "h"}),
    ("//h/p", {"host": "h", "path": "/p"}),
    ("///p", {"path": "///p"}),
    ("http://[fe80::1%25en0]:80/", {"scheme": "http", "host": "fe80::1%en0", "port": 80, "path": "/"}),
    ("http://u:@h:", {"scheme": "http", "user": "u", "password": "", "host": "h"}),
    (
        "http://%C3%A9/%20+?%20+=a+b&;x&%zz=1",
        {"scheme": "http", "host": "é", "path": "/ +", "query": (("  ", ("a b",)),)},
    ),
    ("a/b#%41", {"path": "a/b", "fragment": "A"}),
    ("a?", {"path": "a"}),
]


@pytest.mark.parametrize("text, expected", PARTS)
def test_the_parts_of_a_uri(text: str, expected: dict[str, object]) -> None:
    made = parse_uri(string(text))
    assert isinstance(made.type, t.Record)
    assert {name: d for name, d in zip(made.type.index, made.data, strict=True) if d is not None} == expected


BAD = [
    ("://h", 'parse "://h": missing protocol scheme'),
    ("1a:b/c", 'parse "1a:b/c": first path segment in URL cannot contain colon'),
    ("http://h:x/", 'parse "http://h:x/": invalid port ":x" after host'),
    ("http://[::1/", "parse \"http://[::1/\": missing ']' in host"),
    ("http://a b/", 'parse "http://a b/": invalid character " " in host name'),
    ("http://%41/", 'parse "http://%41/": invalid URL escape "%41"'),
    ("http://h/%zz", 'parse "http://h/%zz": invalid URL escape "%zz"'),
    ("http://a^b@h/", 'parse "http://a^b@h/": net/url: invalid userinfo'),
    ("a\x01b", 'parse "a\\x01b": net/url: invalid control character in URL'),
    ("a#%g", 'parse "a#%g": invalid URL escape "%g"'),
    ("http://h:99999/", "invalid port: 99999"),
]


@pytest.mark.parametrize("text, message", BAD)
def test_a_bad_uri_is_an_error(text: str, message: str) -> None:
    assert parse_uri(string(text)) == structured_error(f"parse_uri: {message}", string(text))


def test_only_a_string_is_a_uri() -> None:
    for value in (Value(t.STRING, None), Value(t.INT64, 1)):
        assert parse_uri(value) == structured_error("parse_uri: non-empty string arg required", value)
