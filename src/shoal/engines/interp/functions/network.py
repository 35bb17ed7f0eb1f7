"""Addresses, networks and URIs. URIs follow RFC 3986 with the leniency and the messages of Go's `net/url`."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from shoal.engines.interp.functions.arguments import failure, quoted
from shoal.engines.interp.reshape import parts
from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.literals import make_net
from shoal.model.values import FALSE, TRUE, Value, record
from shoal.model.zcode import Data, normal_map

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


_STRING_FIELDS = ("scheme", "opaque", "user", "password", "host")
_QUERY = t.map_of(t.STRING, t.array(t.STRING))
URI = t.record(
    (
        *((name, t.STRING) for name in _STRING_FIELDS),
        ("port", t.UINT16),
        ("path", t.STRING),
        ("query", _QUERY),
        ("fragment", t.STRING),
    )
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_USERINFO = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_OPTIONAL_PORT = re.compile(r"(?::[0-9]*)?")
_TOKEN = re.compile(rb"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_HOST_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!$&'()*+,;=:[]<>\"-_.~")


class _Part(Enum):
    """Where in a URI a text stands: escapes differ."""

    PLAIN = auto()
    QUERY = auto()
    HOST = auto()
    ZONE = auto()


class _Authority(NamedTuple):
    user: str = ""
    password: str | None = None
    host: str = ""
    port: str = ""


def parse_uri(uri: Value) -> Value:
    """The parts of a URI as a record; those that it lacks are null."""
    if uri.type.under is not t.STRING or uri.data is None:
        return failure("parse_uri: non-empty string arg required", uri)
    try:
        return Value(URI, _parse(uri.data))
    except InvalidInput as e:
        return failure(f"parse_uri: {e}", uri)


def _parse(text: str) -> Data:
    bare, _, fragment = text.partition("#")
    try:
        scheme, opaque, authority, path, query = _split(bare)
    except InvalidInput as e:
        raise InvalidInput(f"parse {quoted(bare)}: {e}") from None
    try:
        fragment = _unescape(fragment)
    except InvalidInput as e:
        raise InvalidInput(f"parse {quoted(text)}: {e}") from None
    if authority.port and int(authority.port[:6]) > 0xFFFF:
        raise InvalidInput(f"invalid port: {authority.port}")
    return (
        scheme or None,
        opaque or None,
        authority.user or None,
        authority.password,
        authority.host or None,
        int(authority.port) if authority.port else None,
        path or None,
        _parse_query(query),
        fragment or None,
    )


def _split(text: str) -> tuple[str, str, _Authority, str, str]:
    """Scheme, opaque part, authority, path and query of a URI without its fragment."""
    if _CONTROL.search(text):
        raise InvalidInput("net/url: invalid control character in URL")
    if text.startswith(":"):
        raise InvalidInput("missing protocol scheme")
    m = _SCHEME.match(text)
    scheme, rest = (m[1].lower(), text[m.end() :]) if m else ("", text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return scheme, rest, _Authority(), "", query
        if ":" in rest.partition("/")[0]:
            raise InvalidInput("first path segment in URL cannot contain colon")
    authority = _Authority()
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        host, slash, rest = rest[2:].partition("/")
        authority, rest = _parse_authority(host), slash + rest
    return scheme, "", authority, _unescape(rest), query


def _parse_authority(text: str) -> _Authority:
    userinfo, at, host = text.rpartition("@")
    name, port = _split_port(_parse_host(host))
    if not at:
        return _Authority(host=name, port=port)
    if not _USERINFO.fullmatch(userinfo):
        raise InvalidInput("net/url: invalid userinfo")
    user, colon, password = userinfo.partition(":")
    return _Authority(_unescape(user), _unescape(password) if colon else None, name, port)


def _parse_host(host: str) -> str:
    """A host and its port without escapes; what stands in brackets may have a zone."""
    end = host.rfind("]")
    if host.startswith("[") and end < 0:
        raise InvalidInput("missing ']' in host")
    colon = host.rfind(":")
    port = host[end + 1 :] if host.startswith("[") else host[colon:] if colon >= 0 else ""
    if not _OPTIONAL_PORT.fullmatch(port):
        raise InvalidInput(f"invalid port {quoted(port)} after host")
    zone = host.find("%25", 0, end) if host.startswith("[") else -1
    if zone < 0:
        return _unescape(host, _Part.HOST)
    pieces = ((host[:zone], _Part.HOST), (host[zone:end], _Part.ZONE), (host[end:], _Part.HOST))
    return "".join(_unescape(*piece) for piece in pieces)


def _split_port(host: str) -> tuple[str, str]:
    colon = host.rfind(":")
    port = ""
    if colon >= 0 and _OPTIONAL_PORT.fullmatch(host[colon:]):
        host, port = host[:colon], host[colon + 1 :]
    return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), port


def _parse_query(query: str) -> Data:
    """The settings by name; those with a bad escape or a semicolon are left out. None if there are none."""
    params: dict[str, list[str]] = {}
    for setting in query.split("&"):
        if not setting or ";" in setting:
            continue
        key, _, item = setting.partition("=")
        try:
            name, content = _unescape(key, _Part.QUERY), _unescape(item, _Part.QUERY)
        except InvalidInput:
            continue
        params.setdefault(name, []).append(content)
    return normal_map(t.STRING, ((name, tuple(items)) for name, items in params.items())) if params else None


def _unescape(text: str, part: _Part = _Part.PLAIN) -> str:
    out = bytearray()
    raw = text.encode()
    for m in _TOKEN.finditer(raw):
        token = m.group()
        if token == b"%":
            _refuse_escape(raw[m.start() : m.start() + 3])
        byte = int(token[1:], 16) if len(token) == 3 else token[0]
        if part in (_Part.HOST, _Part.ZONE):
            _check_host_byte(token, byte, part)
        out.append(0x20 if token == b"+" and part is _Part.QUERY else byte)
    return out.decode(errors="replace")


def _check_host_byte(token: bytes, byte: int, part: _Part) -> None:
    """In a host only bytes beyond ASCII may be escaped, and a percent sign; a zone may escape what it may hold."""
    if len(token) == 1:
        if byte < 0x80 and byte not in _HOST_BYTES:
            raise InvalidInput(f"invalid character {quoted(chr(byte))} in host name")
    elif token != b"%25" and (byte < 0x80 if part is _Part.HOST else byte != 0x20 and byte not in _HOST_BYTES):
        _refuse_escape(token)


def _refuse_escape(escape: bytes) -> None:
    raise InvalidInput(f"invalid URL escape {quoted(escape.decode(errors='replace'))}")
