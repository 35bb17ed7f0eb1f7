"""Characters and tokens. The language has no fixed tokens: `a*b` is a product or a glob, by where it stands.

So the parser asks for what it can use at a position, and the scanner remembers the farthest
position at which something was asked for in vain: that is where an error is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

MAX_NESTING = 100
"""How deep brackets may nest; what is deeper is refused before it is parsed."""
MAX_LENGTH = 1 << 20
"""How long a program may be, in characters."""

IDENTIFIER_START = r"[^\W\d]|\$"
IDENTIFIER_REST = r"[\w$\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f]"
KEYWORD_CHARS = r"[^\W\d]|[_.:/%#@~]"
_HEX = r"[0-9a-fA-F]++"
_IP4 = r"\d++\.\d++\.\d++\.\d++"
_IP6_TAIL = rf"(?:{_IP4}|{_HEX})"
IP4 = _IP4
IP6 = (
    rf"(?!{_HEX}:{_HEX}(?![0-9a-fA-F:]))"
    rf"(?:(?>(?:{_HEX}:)++){_IP6_TAIL}"
    rf"|{_HEX}(?>(?::{_HEX})*+)::(?>(?:{_HEX}:)*+){_IP6_TAIL}"
    rf"|::(?>(?:{_HEX}:)*+){_IP6_TAIL}"
    rf"|{_HEX}(?>(?::{_HEX})*+)::"
    r"|::)"
)

_BRACKET = re.compile(r"[][(){}]")
_SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n\r\u2028\u2029]*)*")
_IDENTIFIER_REST = re.compile(IDENTIFIER_REST)
_NO_KEYWORD = re.compile(rf"{IDENTIFIER_REST}|{KEYWORD_CHARS}|\s*(?:[=!<>:]=)")
_RESERVED = re.compile(r"(?:true|false|null|NaN|[-+]?Inf)")
_IDENTIFIER = re.compile(rf"(?!{_RESERVED.pattern}(?!{IDENTIFIER_REST}))(?:{IDENTIFIER_START}){IDENTIFIER_REST}*+")
_WORD = re.compile(r"\w")
_ESCAPE = re.compile(r"""\\(?:['"\\bfnrtv]|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\})""")
_CONTROL = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

T = TypeVar("T")
Rule = TypeVar("Rule", bound=Callable[[Any], Any])


class Grammar(Protocol):
    """A part of the grammar: rules that share a scanner."""

    scan: Scanner


def memoized(rule: Rule) -> Rule:
    """Parse a rule once at a position: without this, backtracking takes exponential time."""

    def parse(self: Grammar) -> Any:
        scan = self.scan
        key = (rule, scan.pos)
        entry = scan.memo.get(key)
        if entry is not None:
            tree, scan.pos = entry
            return tree
        tree = rule(self)
        if tree is None:
            scan.pos = key[1]
        scan.memo[key] = (tree, scan.pos)
        return tree

    return parse  # type: ignore[return-value]


class Scanner:
    """A text and a position. What does not match leaves the position alone and gives None or False."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.farthest = 0
        self.memo: dict[tuple[Callable[[Any], Any], int], tuple[Any, int]] = {}

    def miss(self) -> None:
        """Remember that nothing fitted here."""
        self.farthest = max(self.farthest, self.pos)

    def space(self) -> bool:
        """Skip white space and comments, if any; whether there were any."""
        match = _SPACE.match(self.text, self.pos)
        end = match.end() if match else self.pos
        moved = end > self.pos
        self.pos = end
        return moved

    def gap(self) -> bool:
        """Skip white space, of which there must be some."""
        if self.space():
            return True
        self.miss()
        return False

    def mark(self, text: str) -> bool:
        """Take exactly this text."""
        if self.text.startswith(text, self.pos):
            self.pos += len(text)
            return True
        self.miss()
        return False

    def spaced(self, text: str) -> bool:
        """Take this text after optional white space, and the white space after it."""
        start = self.pos
        self.space()
        if self.mark(text):
            self.space()
            return True
        self.pos = start
        return False

    def at(self, text: str) -> bool:
        """Whether this text comes next."""
        return self.text.startswith(text, self.pos)

    def at_end(self) -> bool:
        """Whether the text is over."""
        if self.pos == len(self.text):
            return True
        self.miss()
        return False

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Take what the pattern matches here."""
        match = pattern.match(self.text, self.pos)
        if match is None:
            self.miss()
            return None
        self.pos = match.end()
        return match[0]

    def word(self, *words: str) -> str | None:
        """Take one of these words if no identifier goes on after it."""
        for word in words:
            if self.at(word) and not _IDENTIFIER_REST.match(self.text, self.pos + len(word)):
                self.pos += len(word)
                return word
        self.miss()
        return None

    def keyword(self, word: str) -> bool:
        """Take the name of an operator: no word may go on after it, and nothing that makes it a field."""
        if self.at(word) and not _NO_KEYWORD.match(self.text, self.pos + len(word)):
            self.pos += len(word)
            return True
        self.miss()
        return False

    def clause(self, word: str) -> bool:
        """Take ` word `: the start of an optional clause."""
        start = self.pos
        if self.space() and self.word(word) and self.gap():
            return True
        self.pos = start
        return False

    def flag(self, flag: str) -> bool:
        """Take a flag if no word goes on after it."""
        if self.at(flag) and not _WORD.match(self.text, self.pos + len(flag)):
            self.pos += len(flag)
            return True
        self.miss()
        return False

    def closed(self, mark: str) -> bool:
        """Take white space and this text."""
        self.space()
        return self.mark(mark)

    def listed(self, item: Callable[[], T | None]) -> tuple[T, ...] | None:
        """One or more of something with commas between them."""
        first = item()
        if first is None:
            return None
        items = [first]
        while True:
            end = self.pos
            if self.spaced(","):
                more = item()
                if more is not None:
                    items.append(more)
                    continue
            self.pos = end
            return tuple(items)

    def identifier(self) -> str | None:
        """A name. A backslash lets a reserved word be one."""
        name = self.match(_IDENTIFIER)
        if name is not None:
            return name
        if self.at("\\"):
            match = _RESERVED.match(self.text, self.pos + 1)
            if match:
                self.pos = match.end()
                return match[0]
        return None

    def quoted(self) -> str | None:
        """A string in single or double quotes, as what it means."""
        start = self.pos
        for quote in "\"'":
            if not self.at(quote):
                continue
            self.pos += 1
            text = self.characters(quote)
            if self.mark(quote):
                return text
            self.pos = start
            return None
        self.miss()
        return None

    def field_name(self) -> str | None:
        """The name of a field: an identifier or a string."""
        name = self.identifier()
        return self.quoted() if name is None else name

    def characters(self, stops: str) -> str:
        """The characters of a string up to one of the stops, escapes undone."""
        out: list[str] = []
        while self.pos < len(self.text):
            c = self.text[self.pos]
            if c in stops or (c < " " and c != "\\"):
                break
            if c != "\\":
                self.pos += 1
                out.append(c)
            elif "{" in stops and self.text.startswith("\\{", self.pos):
                self.pos += 2
                out.append("{")
            else:
                escaped = self.escape()
                if escaped is None:
                    break
                out.append(escaped)
        return join_surrogates("".join(out))

    def escape(self) -> str | None:
        """What a backslash sequence stands for."""
        text = self.match(_ESCAPE)
        if text is None:
            return None
        if text[1] == "u":
            code = int(text[2:].strip("{}"), 16)
            return chr(code) if code <= 0x10FFFF else "\ufffd"
        return _CONTROL.get(text[1], text[1])


def join_surrogates(text: str) -> str:
    """Two escapes that make one character become it; a lone half becomes the replacement character."""
    if not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def too_deep(text: str) -> int | None:
    """Where brackets nest deeper than they may, whatever they stand in; None if they never do."""
    depth = 0
    for bracket in _BRACKET.finditer(text):
        if bracket[0] in "([{":
            depth += 1
            if depth > MAX_NESTING:
                return bracket.start()
        else:
            depth = max(depth - 1, 0)
    return None
