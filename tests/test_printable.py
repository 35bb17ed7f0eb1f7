"""Control characters: refused in names, escaped in errors and in everything that is printed."""

from __future__ import annotations

import re
import sys
import unicodedata
from pathlib import Path

import pytest

from shoal.errors import InvalidInput, NotFound, ShoalError
from shoal.printable import has_control, printable

SOURCE = Path(__file__).parents[1] / "src" / "shoal"
ORDERS = "\u061c\u200e\u200f" + "\u202a\u202b\u202c\u202d\u202e" + "\u2066\u2067\u2068\u2069"


def test_control_characters_are_those_of_unicode() -> None:
    """All of its categories for control, surrogates and separators of lines, and the marks of direction."""
    everything = map(chr, range(sys.maxunicode + 1))
    control = {c for c in everything if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in ORDERS}
    assert {c for c in map(chr, range(sys.maxunicode + 1)) if has_control(c)} == control


def test_what_is_shown_is_escaped_and_else_as_it_is() -> None:
    assert printable("a\x1b]0;title\x07\x00\x9b2J\u202eb") == "a\\x1b]0;title\\x07\\x00\\x9b2J\\u202eb"
    assert printable("one\ntwo\tthree\r") == "one\\ntwo\\tthree\\r"
    assert printable("one\ntwo\tthree\r", lines=True) == "one\ntwo\tthree\\r"
    assert printable("\udc80") == "\\udc80"
    plain = "naïve – 日本語 👩\u200d🔬 'x' \\x1b"
    assert printable(plain) is plain


@pytest.mark.parametrize("error", [NotFound, ShoalError])
def test_an_error_that_quotes_a_name_is_one_line(error: type[ShoalError]) -> None:
    assert str(error("a\x1b[2J\nroot: all is well")) == "a\\x1b[2J\\nroot: all is well"


def test_an_error_that_points_into_a_program_has_lines() -> None:
    assert str(InvalidInput("no:\nx\x1b\n^")) == "no:\nx\\x1b\n^"


def _without_docs(path: Path) -> str:
    return re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)


def test_commands_print_in_one_way() -> None:
    calls = [
        path.name
        for path in (SOURCE / "cli").rglob("*.py")
        if path.name != "terminal.py" and re.search(r"(?<![\w.])print\(|std(?:out|err)\.write\(", _without_docs(path))
    ]
    assert calls == []
