from __future__ import annotations

import pytest

from shoal.errors import InvalidInput
from shoal.lang.regexps import compile_regexp, glob_to_regexp

BAD_PATTERNS = [
    ("foo(.?", "missing closing ): `foo(.?`"),
    ("a)", "unexpected ): `a)`"),
    ("[a", "missing closing ]: `[a`"),
    ("*", "missing argument to repetition operator: `*`"),
    ("a**", "invalid nested repetition operator: `**`"),
    ("[b-a]", "invalid character class range: `b-a`"),
    ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
    (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
    ("a{2000}", "invalid repeat count: `{2000}`"),
    ("\\", "trailing backslash at end of expression: ``"),
    (r"\8", r"invalid escape sequence: `\8`"),
    (r"\C", r"invalid escape sequence: `\C`"),
    ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ("(?P<n", "invalid named capture: `(?P<n`"),
    ("é**", "invalid nested repetition operator: `**`"),
    (r"\é", r"invalid escape sequence: `\é`"),
]


@pytest.mark.parametrize("pattern, message", BAD_PATTERNS)
def test_a_bad_pattern_is_refused_in_the_usual_words(pattern: str, message: str) -> None:
    with pytest.raises(InvalidInput) as e:
        compile_regexp(pattern)
    assert str(e.value) == f"error parsing regexp: {message}"


def test_a_pattern_that_would_take_too_much_memory_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="expression too large"):
        compile_regexp(r"\pL" * 27_000)
    assert capfd.readouterr().err == ""


def test_a_search_finds_the_leftmost_match_and_its_groups() -> None:
    assert compile_regexp("(é+)(x)?").search("aéé") == ("éé", "éé", None)
    assert compile_regexp("x").search("abc") is None
    assert compile_regexp("^b").matches("ab") is False
    assert compile_regexp("(?i)É").matches("é")
    assert compile_regexp(r"\Q\C\E").matches(r"\C")


REPLACEMENTS = [
    ("a(x*)b", "-ab-axxb-", "$1", "--xx-"),
    ("a(x*)b", "-ab-axxb-", "$1W", "---"),
    ("a(x*)b", "-ab-axxb-", "${1}W", "-W-xxW-"),
    ("a(?P<X>x*)b", "-ab-axxb-", "[$X]", "-[]-[xx]-"),
    ("a", "banana", "$$", "b$n$n$"),
    ("a", "ba", "$ $0 $9 $-", "b$ a  $-"),
    ("a*", "baaac", "x", "xbxcx"),
    ("", "é√", "-", "-é-√-"),
    ("^a", "aaa", "b", "baa"),
    (r"\b", "ab cd", "|", "|ab| |cd|"),
]


@pytest.mark.parametrize("pattern, text, template, expected", REPLACEMENTS)
def test_matches_are_replaced(pattern: str, text: str, template: str, expected: str) -> None:
    assert compile_regexp(pattern).replace_all(text, template) == expected


GLOBS = [
    ("S*", "^S.*$"),
    ("*", "^.*$"),
    ("a**b", "^a.*b$"),
    (r"\xaa\*\x55", r"^\xaa\*\x55$"),
    ("a.b/c", r"^a\.b\/c$"),
    ("a?[b]", "^ab$"),
    ("é*", "^é.*$"),
]


@pytest.mark.parametrize("glob, expected", GLOBS)
def test_a_glob_is_an_anchored_pattern(glob: str, expected: str) -> None:
    assert glob_to_regexp(glob) == expected
    compile_regexp(expected)
