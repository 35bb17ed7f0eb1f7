from __future__ import annotations

from collections.abc import Callable

import pytest

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
