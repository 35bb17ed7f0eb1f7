"""Terminal colours of ZSON and JSON: names blue, strings green, types and decorators grey, errors red."""

from __future__ import annotations

from shoal.lazy import lazy_pattern

_RESET = "\x1b[0m"
_BLUE, _GREEN, _GREY, _RED = "\x1b[34m", "\x1b[32m", "\x1b[90m", "\x1b[31m"
_PIECES = lazy_pattern(
    r'(?P<name>"(?:[^"\\]|\\.)*"(?=:)|[^\W\d][\w$]*(?=:))'
    r'|(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<error>error(?=\())"
    r"|(?P<type><[^<>]*>|\((?:[^()\"]|\([^()\"]*\))*\)(?=[,}\]\s|]|$))"
)
_STYLES = {"name": _BLUE, "string": _GREEN, "error": _RED, "type": _GREY}


def paint_zson(text: str) -> str:
    """The text of a value with escape sequences around its parts."""
    return _PIECES.sub(lambda m: f"{_STYLES[m.lastgroup or 'type']}{m.group()}{_RESET}", text)


_JSON_PIECES = lazy_pattern(r'(?P<name>"(?:[^"\\]|\\.)*"(?=:))|(?P<string>"(?:[^"\\]|\\.)*")')


def paint_json(text: str) -> str:
    """JSON text with escape sequences around its names and strings."""
    return _JSON_PIECES.sub(lambda m: f"{_STYLES[m.lastgroup or 'string']}{m.group()}{_RESET}", text)
