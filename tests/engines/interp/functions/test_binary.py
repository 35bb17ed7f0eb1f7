from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.engines.interp.functions.binary import ksuid
from shoal.model import types as t

CASES = [
    ("base64", "0x010203", '"AQID"'),
    ("base64", '"aGVsbG8gd29ybGQ="', "0x68656c6c6f20776f726c64"),
    ("base64", '"aGVs\\nbG8="', "0x68656c6c6f"),
    ("base64", '"AQID"((string,int64))', "0x010203"),
    ("base64", '""', "0x"),
    ("base64", '"foo"', 'error({message:"base64: string argument is not base64",on:"foo"})'),
    ("base64", '"="', 'error({message:"base64: string argument is not base64",on:"="})'),
    ("base64", "null(string)", "null(bytes)"),
    ("base64", "null(bytes)", 'error("base64: illegal null argument")'),
    ("base64", "1", 'error({message:"base64: argument must a bytes or string type",on:1})'),
    ("hex", "0x0102ff", '"0102ff"'),
    ("hex", '"0102FF"', "0x0102ff"),
    ("hex", '"01 02"', 'error({message:"hex: string argument is not hexidecimal",on:"01 02"})'),
    ("hex", "null(bytes)", 'error("hex: illegal null argument")'),
    ("hex", "1", 'error({message:"base64: argument must a bytes or string type",on:1})'),
    ("ksuid", '"24eT188EIisOiwVWwmej1h9t4Ms"', "0x0e8afd4a5a0a2372e218818aa996ad96f5739dd2"),
    ("ksuid", "0x0e8afd4a5a0a2372e218818aa996ad96f5739dd2", '"24eT188EIisOiwVWwmej1h9t4Ms"'),
    ("ksuid", "null(bytes)", 'error("ksuid: illegal null argument")'),
    ("ksuid", "0x00", 'error({message:"ksuid: Valid KSUIDs are 20 bytes",on:0x00})'),
    ("ksuid", "null(string)", 'error({message:"ksuid: Valid encoded KSUIDs are 27 characters",on:null(string)})'),
    (
        "ksuid",
        '"zzzzzzzzzzzzzzzzzzzzzzzzzzz"',
        (
            'error({message:"ksuid: Valid encoded KSUIDs are bounded by 000000000000000000000000000'
            ' and aWgEPTl1tmebfsQzFP4bxwgy80V",on:"zzzzzzzzzzzzzzzzzzzzzzzzzzz"})'
        ),
    ),
    ("ksuid", "null", 'error({message:"ksuid: argument must a bytes or string type",on:null})'),
]


@pytest.mark.parametrize("name, args, expected", CASES)
def test_texts_of_bytes(call: Callable[[str, str], str], name: str, args: str, expected: str) -> None:
    assert call(name, args) == expected


def test_a_new_ksuid_has_20_bytes() -> None:
    made = ksuid()
    assert made.type is t.BYTES
    assert len(made.data) == 20
