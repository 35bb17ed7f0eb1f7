"""Primitive literals: durations, times, dates, addresses, floats and strings, to text and back.

The texts are those of ZSON. Data is plain: a duration or a time is an int of nanoseconds,
a date an int of days, an ip is 4 or 16 bytes, a net is an ip followed by its mask.
"""

from __future__ import annotations

import ipaddress
import math
import re
import struct
from datetime import UTC, date, datetime, timedelta

from shoal.errors import InvalidInput

SECOND = 1_000_000_000
_UNITS = {
    "ns": 1, "us": 1_000, "ms": 1_000_000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
    "d": 86400 * SECOND, "w": 7 * 86400 * SECOND, "y": 365 * 86400 * SECOND,
}  # fmt: skip
_DURATION = re.compile(r"-?(?:[.0-9]+(?:ns|us|ms|s|m|h|d|w|y))+")
_DURATION_PART = re.compile(r"([.0-9]+)(ns|us|ms|s|m|h|d|w|y)")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64 = range(-(2**63), 2**63)


# ---- durations and times


def format_duration(ns: int) -> str:
    """Years of 365 days, days, hours, minutes, then one decimal unit: `1h30m1.5s`."""
    if ns == 0:
        return "0s"
    out = "-" if ns < 0 else ""
    ns = abs(ns)
    for unit in ("y", "d", "h", "m"):
        count, ns = divmod(ns, _UNITS[unit])
        if count:
            out += f"{count}{unit}"
    if ns == 0:
        return out
    unit = "s" if ns >= SECOND else "ms" if ns >= 1_000_000 else "us" if ns >= 1_000 else "ns"
    whole, rest = divmod(ns, _UNITS[unit])
    digits = str(rest).zfill(len(str(_UNITS[unit])) - 1).rstrip("0") if rest else ""
    return f"{out}{whole}{'.' if digits else ''}{digits}{unit}"


def parse_duration(text: str) -> int:
    """Nanoseconds of a text such as `1d2h3.5s`."""
    if not _DURATION.fullmatch(text) or len(text) > 256:
        raise InvalidInput(f"invalid duration: {text!r}")
    total = 0
    for number, unit in _DURATION_PART.findall(text):
        whole, dot, frac = number.partition(".")
        if "." in frac or not (whole or frac):
            raise InvalidInput(f"invalid duration: {text!r}")
        size = _UNITS[unit]
        total += int(whole or "0") * size
        if dot and frac:
            total += (int(frac) * size * 2 + 10 ** len(frac)) // (2 * 10 ** len(frac))
    total = -total if text.startswith("-") else total
    if total not in _INT64:
        raise InvalidInput(f"duration out of range: {text!r}")
    return total


def format_time(ns: int) -> str:
    """RFC 3339 in UTC, with as many decimals as needed."""
    seconds, rest = divmod(ns, SECOND)
    stamp = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{stamp}.{rest:09d}".rstrip("0") + "Z" if rest else stamp + "Z"


def parse_time(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 text."""
    m = _TIME.fullmatch(text)
    if not m:
        raise InvalidInput(f"invalid time: {text!r}")
    year, month, day, hour, minute, second = (int(g) for g in m.groups()[:6])
    try:
        stamp = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC) - _EPOCH
    except ValueError as e:
        raise InvalidInput(f"invalid time: {text!r} ({e})") from e
    if second > 59:
        raise InvalidInput(f"invalid time: {text!r} (second out of range)")
    seconds = stamp.days * 86400 + stamp.seconds
    if m[8]:
        offset = int(m[9]) * 3600 + int(m[10]) * 60
        seconds += -offset if m[8] == "+" else offset
    ns = seconds * SECOND + int((m[7] or "0").ljust(9, "0"))
    if ns not in _INT64:
        raise InvalidInput(f"time out of range: {text!r} (from 1677-09-21 to 2262-04-11)")
    return ns


_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_FIRST_DAY = date(1970, 1, 1).toordinal()
DAYS = range(date.min.toordinal() - _FIRST_DAY, date.max.toordinal() - _FIRST_DAY + 1)
"""The dates that there are, as days since 1970: from year 1 to year 9999."""
DAY = 86400 * SECOND


def format_date(days: int) -> str:
    """The text of a date: `2024-01-05`."""
    return date.fromordinal(days + _FIRST_DAY).isoformat()


def parse_date(text: str) -> int:
    """Days since 1970 of a text such as `2024-01-05`."""
    m = _DATE.fullmatch(text)
    try:
        if m is None or not text.isascii():
            raise ValueError
        return date(int(m[1]), int(m[2]), int(m[3])).toordinal() - _FIRST_DAY
    except ValueError:
        raise InvalidInput(f"invalid date: {text[:100]!r}") from None


# ---- addresses


def format_ip(ip: bytes) -> str:
    """Dotted or colon form; IPv4 inside IPv6 keeps its dots."""
    if len(ip) == 4:
        return f"{ip[0]}.{ip[1]}.{ip[2]}.{ip[3]}"
    if ip[:12] == b"\0" * 10 + b"\xff\xff":
        return "::ffff:" + format_ip(ip[12:])
    return ipaddress.IPv6Address(ip).compressed


def parse_ip(text: str) -> bytes:
    """4 or 16 bytes of an address."""
    try:
        if "%" in text:  # a zone is not part of the address
            raise ValueError
        return ipaddress.ip_address(text).packed
    except ValueError:
        raise InvalidInput(f"invalid IP address: {text!r}") from None


def format_net(net: bytes) -> str:
    """Address and prefix length."""
    half = len(net) // 2
    return f"{format_ip(net[:half])}/{int.from_bytes(net[half:], 'big').bit_count()}"


def parse_net(text: str) -> bytes:
    """An address and its mask, from CIDR text."""
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit() or len(bits) > 3:
        raise InvalidInput(f"invalid CIDR address: {text!r}")
    return make_net(parse_ip(address), int(bits))


def make_net(ip: bytes, bits: int) -> bytes:
    """An address with a mask of `bits` leading ones."""
    size = 8 * len(ip)
    if bits > size:
        raise InvalidInput(f"invalid CIDR address: {format_ip(ip)}/{bits}")
    return ip + ((1 << size) - (1 << size - bits)).to_bytes(len(ip), "big")


# ---- floats


def round_float(value: float, size: int) -> float:
    """`value` as a float of 2, 4 or 8 bytes holds it."""
    if size == 8:
        return value
    try:
        return float(struct.unpack("<e" if size == 2 else "<f", struct.pack("<e" if size == 2 else "<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def format_float(value: float, size: int = 8) -> str:
    """Shortest text that reads back equal and cannot be taken for an integer: `1.`, `1.5`, `1e+30`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value.is_integer() and -(2.0**63) <= value < 2.0**63:
        return f"{int(value)}." if value or math.copysign(1, value) > 0 else "-0."
    sign = "-" if value < 0 else ""
    digits, exponent = shortest_digits(abs(value), size)
    if exponent < -4 or exponent >= 6:
        return sign + scientific(digits, exponent)
    return sign + positional(digits, exponent)


def shortest_digits(value: float, size: int = 8) -> tuple[str, int]:
    """The fewest digits of a positive float that read back equal, and the exponent of the first one."""
    text = repr(value)
    if size < 8:
        text = next(s for p in range(18) if round_float(float(s := f"{value:.{p}e}"), size) == value)
    mantissa, _, exponent = text.partition("e")
    whole, _, frac = mantissa.partition(".")
    digits = (whole + frac).lstrip("0")
    leading_zeros = len(whole + frac) - len(digits)
    return digits.rstrip("0"), int(exponent or "0") + len(whole) - 1 - leading_zeros


def positional(digits: str, exponent: int) -> str:
    """Digits with a point, the first one standing at 10**exponent; no point if they are whole."""
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits.ljust(exponent + 1, "0")
    return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


def scientific(digits: str, exponent: int) -> str:
    """One digit, a point, the rest, and an exponent of at least two digits."""
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SPECIAL_FLOATS = {"NaN": math.nan, "Inf": math.inf, "+Inf": math.inf, "-Inf": -math.inf}


def parse_float(text: str) -> float:
    """A decimal number or one of NaN, Inf, +Inf, -Inf."""
    if text in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[text]
    if not _FLOAT.fullmatch(text):
        raise InvalidInput(f"invalid floating point: {text!r}")
    return float(text)


# ---- strings and names

_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_QUOTE_TABLE = {**{i: f"\\u{i:04x}" for i in range(32)}, **_ESCAPES}
_NEEDS_ESCAPE = re.compile(r'[\x00-\x1f"\\]')
_IDENTIFIER = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_TYPE_NAME = re.compile(r"(?:[^\W\d]|\$)[\w$.]*")


def quote(text: str) -> str:
    """A double-quoted string literal."""
    return f'"{text.translate(_QUOTE_TABLE) if _NEEDS_ESCAPE.search(text) else text}"'


def is_identifier(name: str) -> bool:
    """Whether a field name needs no quotes."""
    return _IDENTIFIER.fullmatch(name) is not None


def quote_name(name: str) -> str:
    """A field name or enum symbol, quoted where it must be."""
    return name if _IDENTIFIER.fullmatch(name) else quote(name)


def quote_type_name(name: str) -> str:
    """A type name, quoted where it must be."""
    return name if _TYPE_NAME.fullmatch(name) else quote(name)
