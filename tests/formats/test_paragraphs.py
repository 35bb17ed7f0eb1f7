from __future__ import annotations

import pytest

from shoal.formats.paragraphs import wrap, wrap_paragraphs


def test_a_short_paragraph_stays_one_line() -> None:
    assert wrap("to be or not to be", 80) == "to be or not to be"


def test_lines_are_as_even_as_can_be_and_the_last_one_may_be_short() -> None:
    assert wrap("to be or not to be, that is the question", 16) == "to be or not to\nbe, that is the\nquestion"
    assert wrap("aaa bb cc ddddd", 6) == "aaa\nbb cc\nddddd"


@pytest.mark.parametrize("text", ["x" * 200, f"a {'x' * 200}", f"{'x' * 200} b", f"a {'x' * 200} b"])
def test_a_word_that_is_too_long_gets_a_line_of_its_own(text: str) -> None:
    assert wrap(text, 80) == text.replace(" ", "\n")


def test_no_line_is_longer_than_the_width_if_no_word_is_and_no_word_is_lost() -> None:
    text = " ".join("x" * (1 + i * 7 % 13) for i in range(300))
    lines = wrap(text, 40).split("\n")
    assert max(map(len, lines)) <= 40
    assert " ".join(lines) == text


def test_paragraphs_are_kept_apart_and_every_line_is_indented() -> None:
    assert wrap_paragraphs("one\ntwo\n\n  three\n", 80, "    ") == "    one two\n\n    three"
    assert wrap_paragraphs("", 80, "    ") == ""
