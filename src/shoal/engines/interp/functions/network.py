"""Functions over addresses and networks."""

from __future__ import annotations

from shoal.engines.interp.functions.failures import failure
from shoal.engines.interp.parts import parts
from shoal.model import types as t
from shoal.model.literals import make_net
from shoal.model.values import FALSE, TRUE, Value, record

_INTEGERS = t.UNSIGNED | t.SIGNED


def cidr_match(net: Value, value: Value) -> Value:
    """Whether any address in the value is in the network: `cidr_match(10.0.0.0/8, {a:10.1.2.3})`."""
    if net.type.under is not t.NET:
        return failure("cidr_match: not a net", net)
    if net.data is None:
        return FALSE
    half = len(net.data) // 2
    address, mask = int.from_bytes(net.data[:half], "big"), int.from_bytes(net.data[half:], "big")
    for typ, data in parts(value.type, value.data):
        if (
            typ is t.IP
            and data is not None
            and len(data) == half
            and int.from_bytes(data, "big") & mask == address & mask
        ):
            return TRUE
    return FALSE


def network_of(address: Value, mask: Value | None = None) -> Value:
    """`network_of(10.1.2.129, 25)` is `10.1.2.128/25`; without a mask the class of the address decides."""
    if address.type.under is not t.IP:
        return failure("network_of: not an IP", address)
    bits = _classful_bits(address) if mask is None else _mask_bits(address, mask)
    if isinstance(bits, Value):
        return bits
    if address.data is None:
        return Value(t.NET, None)
    net = make_net(address.data, bits)
    half = len(address.data)
    masked = bytes(a & m for a, m in zip(net[:half], net[half:], strict=True))
    return Value(t.NET, masked + net[half:])


def _classful_bits(address: Value) -> int | Value:
    if len(address.data or b"") != 4:
        return failure("network_of: not an IPv4 address", address)
    lead: int = address.data[0]
    return 8 if lead < 0x80 else 16 if lead < 0xC0 else 24


def _mask_bits(address: Value, mask: Value) -> int | Value:
    size = 8 * len(address.data or b"")
    if mask.type.under is t.IP:
        given = mask.data or b""
        if 8 * len(given) != size:
            return failure("network_of: address and mask have different lengths", _both(address, mask))
        ones = int.from_bytes(given, "big").bit_count()
        if int.from_bytes(given, "big") != (1 << size) - (1 << size - ones):
            return failure("network_of: mask is non-contiguous", mask)
        return ones
    if mask.type.under not in _INTEGERS:
        return failure("network_of: bad arg for CIDR mask", mask)
    bits: int = mask.data or 0
    if not 0 <= bits <= (size or 128):
        return failure("network_of: CIDR bit count out of range", _both(address, mask))
    return bits


def _both(address: Value, mask: Value) -> Value:
    return record((("address", address), ("mask", mask)))
