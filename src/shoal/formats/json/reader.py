"""JSON values one by one: exact, and the fallback of the columnar path for what that cannot express.

Values are lines, or come in any other way. If bad records are not fatal, each line is a record of its own.

Integers stay integers (`1`) and floats floats (`1.0`); an integer beyond int64 becomes a float64.
Of repeated keys the last value counts, where the first one stood. Nulls have the type null, except
in an array with elements of another type.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from math import isfinite
from typing import Any

import orjson

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.bad_records import BadRecords
from shoal.formats.limits import JSON_PARTS, UNLIMITED, LimitExceeded, at, check_text
from shoal.formats.streams import CHUNK, NAME_ENCODING, Joined, Source, read_at_least, read_lines
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data

Typed = tuple[t.Type, Data]
_EMPTY = t.array(t.NULL)


def decode_line(text: str) -> Value:
    """The one value in a text."""
    try:
        return Value(*typed(orjson.loads(text)))
    except orjson.JSONDecodeError:
        values = list(_read_freely(io.BytesIO(text.encode()), 1, UNLIMITED))
        if len(values) != 1:
            raise InvalidInput("expected one JSON value") from None
        return values[0]


def read(
    source: Source, options: ReadOptions = ReadOptions(), first_line: int = 1, follows_lines: bool = False
) -> Iterator[Value]:
    """The values of JSON text: lines of them, one array, or values one after another.

    If they follow others that were lines, a line that is not a value is to blame, and not what comes after it.
    """
    if options.bad != "fail":
        yield from _read_apart(source, options)
        return
    number = first_line - 1
    rest = b""
    while chunk := source.read(CHUNK):
        lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        rest = lines.pop()
        for i, line in enumerate(lines):
            number += 1
            if len(line) < 3 and not line.strip():
                continue
            try:
                decoded = orjson.loads(line)
            except orjson.JSONDecodeError:
                if not line or line.isspace():
                    continue
                text = b"\n".join(lines[i:]) + b"\n" + rest
                yield from _read_freely(Joined(text, source), number, options, follows_lines)
                return
            yield _placed(decoded, number)
            follows_lines = True
        if len(rest) > 4 * CHUNK:
            break
    yield from _read_freely(Joined(rest, source), number + 1, options, follows_lines)


def _read_freely(source: Source, line: int, options: ReadOptions, follows_lines: bool = False) -> Iterator[Value]:
    """Values that do not keep to lines."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    text, pos, final = "", 0, False
    data = read_at_least(source, 1)
    while True:
        try:
            text += decoder.decode(data, final)
        except UnicodeDecodeError as e:
            where = f"line {line + text.count(chr(10))}"
            raise InvalidInput(f"{where}: invalid UTF-8 ({e.reason}) {NAME_ENCODING}") from None
        if line == 1 and pos == 0:
            text = text.removeprefix("\ufeff")
        check_text(text, options, f"line {line}")
        counted = pos  # lines are counted once each, however many values there are
        while (pos := _skip_space(text, pos)) < len(text):
            line, counted = line + text.count("\n", counted, pos), pos
            try:
                decoded = _decode_one(text, pos, final, line)
            except LimitExceeded:
                raise
            except InvalidInput as e:
                _blame_line(text, pos, line, follows_lines)
                raise at(f"line {line}", e) if line > 1 and not _POSITION.match(str(e)) else e from None
            if decoded is None:
                break
            obj, pos = decoded
            follows_lines = follows_lines and "\n" not in text[counted:pos]
            line, counted = line + text.count("\n", counted, pos), pos
            yield _placed(obj, line)
        if final:
            return
        line += text.count("\n", counted, pos)
        text = text[pos:]
        # A value that is not whole yet is decoded again from its start: more of it each time, whatever a pipe gives.
        size = 1 if pos else len(text)
        pos = 0
        data = read_at_least(source, size)
        final = not data


def _blame_line(text: str, pos: int, line: int, follows_lines: bool) -> None:
    """Raise the error of the line in which a value begins, if it should end there: the error is where it goes wrong.

    It should if the values before it are lines, or if the next line is a value.
    """
    end = text.find("\n", pos)
    if end < 0:
        return
    following = text[end + 1 :].lstrip().partition("\n")[0]
    if follows_lines or (following and _is_value(following)):
        try:
            _decode_one(text[:end], pos, True, line)
        except InvalidInput as e:
            raise e if _POSITION.match(str(e)) else at(f"line {line}", e) from None


def _is_value(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


# ---- lines that may be bad

_LOOK_AHEAD = 1 << 16
"""Bytes to look at for the end of a value that a line begins."""


def _read_apart(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The values of lines, each of which is read for itself, and what stands for bad ones."""
    bad = BadRecords(source, options)
    lines = LinesAhead(read_lines(source, options, JSON_PARTS))
    for number, line in enumerate(lines, bad.first_line):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line and not line.isspace():
            yield from read_line(line, number, lines.following, bad)


class LinesAhead:
    """Lines, of which those that follow can be looked at."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._next: deque[bytes] = deque()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self._next.popleft() if self._next else next(self._lines)

    def following(self) -> bytes:
        """Some lines that follow, end to end."""
        size = sum(map(len, self._next))
        for line in islice(self._lines, max(0, _LOOK_AHEAD - size)):
            self._next.append(line)
            size += len(line) + 1
            if size >= _LOOK_AHEAD:
                break
        return b"\n".join(self._next)[:_LOOK_AHEAD]


def read_line(line: bytes, number: int, following: Callable[[], bytes], bad: BadRecords) -> Iterator[Value]:
    """The values of a line, which need not be one; or what stands for it, if it is bad.

    InvalidInput if it is the beginning of a value that goes over several lines: these would all be bad.
    """
    try:
        yield from decode_line_values(line)
    except LimitExceeded as e:
        raise at(f"line {number}", e) from None
    except InvalidInput as e:
        if _goes_on(line, following):
            why = InvalidInput("a value goes over several lines (-bad skip and keep need lines of whole values)")
            raise at(f"line {number}", why) from None
        position, error = _place_of(e)
        yield from bad.take(number, line, error, position)


def decode_line_values(line: bytes) -> list[Value]:
    """The values of a line."""
    try:
        text = line.decode()
    except UnicodeDecodeError as e:
        raise InvalidInput(f"invalid UTF-8 at byte {e.start + 1} {NAME_ENCODING}") from None
    try:
        return [Value(*typed(orjson.loads(text)))]
    except orjson.JSONDecodeError:
        return list(_read_freely(io.BytesIO(line), 1, UNLIMITED))


def decode_record(data: bytes) -> Value:
    """The one value in a record that is not a line of a file."""
    values = decode_line_values(data)
    if len(values) != 1:
        raise InvalidInput(f"expected one JSON value, found {len(values) or 'none'}")
    return values[0]


_POSITION = re.compile(r"^line \d+(?:, (column \d+))?: ")


def _place_of(error: InvalidInput) -> tuple[str, InvalidInput]:
    """The column in an error of a line, if it has one, and the error without its place."""
    m = _POSITION.match(str(error))
    return ("", error) if m is None else (m[1] or "", InvalidInput(str(error)[m.end() :]))


def _goes_on(line: bytes, following: Callable[[], bytes]) -> bool:
    """Whether a line is the beginning of a value that ends in one of the next lines."""
    text = line.decode(errors="replace")
    try:
        _decode(text, _skip_space(text, 0))
    except json.JSONDecodeError as e:
        if not _may_go_on(e, len(text)) or e.msg.startswith(("Unterminated", "Invalid")):
            return False
    except (InvalidInput, RecursionError, ValueError):
        return False
    text += "\n" + following().decode(errors="replace")
    try:
        return _decode(text, _skip_space(text, 0))[1] > len(line)
    except (InvalidInput, RecursionError, ValueError):
        return False


def _placed(decoded: Any, line: int) -> Value:
    """A value; what cannot be one is an error on this line."""
    try:
        return Value(*typed(decoded))
    except InvalidInput as e:
        raise at(f"line {line}", e) from None


_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_WORD = 12
"""More than the longest word or escape that may be cut off."""


def _skip_space(text: str, pos: int) -> int:
    space = _SPACE.match(text, pos)
    return space.end() if space is not None else pos


def _refuse(name: str) -> Any:
    raise InvalidInput(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).raw_decode


def _may_go_on(error: json.JSONDecodeError, length: int) -> bool:
    """Whether more text could mend an error: it is near the end, or in a string that has no end yet."""
    return error.pos >= length - _LONGEST_WORD or error.msg.startswith(("Unterminated", "Invalid \\u"))


def _decode_one(text: str, pos: int, final: bool, line: int) -> tuple[Any, int] | None:
    """The value at `pos`, which is on this line, and the position after it; None if the text may go on."""
    try:
        decoded, end = _decode(text, pos)
        # A number may go on beyond the window; so may a word, but that would not have decoded.
        return (decoded, end) if final or end < len(text) or text[end - 1] in ']}"el' else None
    except json.JSONDecodeError as e:
        if not final and _may_go_on(e, len(text)):
            return None
        rest = text[e.pos :].strip()
        if not rest or e.msg.startswith("Unterminated") or any(w.startswith(rest) for w in ("true", "false", "null")):
            raise InvalidInput("unexpected end of JSON input") from None
        place, error = e.pos, InvalidInput(e.msg[0].lower() + e.msg[1:].removesuffix(" at"))
    except RecursionError:
        place, error = pos, LimitExceeded(f"value nests deeper than {t.MAX_DEPTH} levels")
    except InvalidInput as e:
        place, error = pos, e
    except ValueError:
        place, error = pos, LimitExceeded(f"number of more than {sys.get_int_max_str_digits()} digits")
    column = place - text.rfind("\n", 0, place)
    raise at(f"line {line + text.count(chr(10), pos, place)}, column {column}", error)


def typed(decoded: Any, depth: int = 0) -> Typed:
    """Type and data of decoded JSON."""
    kind = type(decoded)
    if kind is str:
        return t.STRING, decoded if decoded.isascii() else _without_surrogates(decoded)
    if kind is int:
        return (t.INT64, decoded) if -(2**63) <= decoded < 2**63 else (t.FLOAT64, _as_float(decoded))
    if kind is float:
        return t.FLOAT64, _finite(decoded)
    if kind is bool:
        return t.BOOL, decoded
    if decoded is None:
        return t.NULL, None
    if depth >= t.MAX_DEPTH:
        raise LimitExceeded(f"value nests deeper than {t.MAX_DEPTH} levels")
    return _typed_record(decoded, depth) if kind is dict else _typed_array(decoded, depth)


def _typed_record(decoded: dict[str, Any], depth: int) -> Typed:
    types: list[t.Type] = []
    data: list[Data] = []
    for value in decoded.values():
        # Most values are of these kinds, and a call for each would take longer than all the rest.
        if value is None or type(value) is bool:
            types.append(t.NULL if value is None else t.BOOL)
            data.append(value)
        elif type(value) is str and value.isascii():
            types.append(t.STRING)
            data.append(value)
        else:
            typ, item = typed(value, depth + 1)
            types.append(typ)
            data.append(item)
    names = tuple(decoded)
    if not "".join(names).isascii():
        names = tuple([name if name.isascii() else _without_surrogates(name) for name in names])
    return t.record_of(names, tuple(types)), tuple(data)


def _typed_array(decoded: list[Any], depth: int) -> Typed:
    if not decoded:
        return _EMPTY, ()
    elem = _plain_element(decoded)
    if elem is not None:
        return t.array(elem), tuple(decoded)
    items = [typed(v, depth + 1) for v in decoded]
    kinds = dict.fromkeys(i[0] for i in items if i[0] is not t.NULL)
    if len(kinds) < 2:
        return t.array(next(iter(kinds), t.NULL)), tuple(i[1] for i in items)
    union = t.union(kinds)
    return t.array(union), tuple(None if k is t.NULL else (union.tags[k], d) for k, d in items)


def _plain_element(decoded: list[Any]) -> t.Type | None:
    """The type of all elements, if they need no further look: a long list of pairs would take much memory."""
    kinds = set(map(type, decoded))
    if len(kinds) > 1:
        return None
    match kinds.pop().__name__:
        case "int" if min(decoded) >= -(2**63) and max(decoded) < 2**63:
            return t.INT64
        case "float" if all(map(isfinite, decoded)):
            return t.FLOAT64
        case "str" if all(map(str.isascii, decoded)):
            return t.STRING
        case "bool":
            return t.BOOL
    return None


def _without_surrogates(text: str) -> str:
    """An escape such as \\ud800 alone is not a character; it reads as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _as_float(n: int) -> float:
    try:
        return float(n)
    except OverflowError:
        raise InvalidInput("number out of range of float64") from None


def _finite(x: float) -> float:
    if x - x != 0:
        raise InvalidInput("number out of range of float64")
    return x
