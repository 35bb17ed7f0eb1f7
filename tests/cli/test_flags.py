from __future__ import annotations

import pytest

from shoal.cli.flags import Flag, parse, split_leading, usage
from shoal.errors import InvalidInput

FLAGS = (
    Flag("f", str, "zng", "format"),
    Flag("q", bool, False, "quiet"),
    Flag("e", bool, True, "stop"),
    Flag("n", int, 0, "number"),
    Flag("S", "size", 0, "size"),
    Flag("I", str, [], "includes"),
    Flag("grace", "duration", None, "time"),
)


def test_flags_take_one_dash_or_two_and_a_value_after_a_blank_or_an_equal_sign() -> None:
    for argv in (["-f", "csv"], ["-f=csv"], ["--f", "csv"], ["--f=csv"]):
        assert parse(FLAGS, argv)["f"] == "csv"


def test_switches_need_no_value_and_can_be_turned_off() -> None:
    parsed = parse(FLAGS, ["-q", "-e=false", "word"])
    assert (parsed["q"], parsed["e"], parsed.words) == (True, False, ["word"])


def test_words_may_stand_between_flags_and_two_dashes_end_the_flags() -> None:
    parsed = parse(FLAGS, ["a", "-q", "-", "-5", "--", "-f"])
    assert (parsed.words, parsed.given) == (["a", "-", "-5", "-f"], {"q"})


def test_a_flag_with_a_list_collects() -> None:
    assert parse(FLAGS, ["-I", "a", "-I=b"])["I"] == ["a", "b"]
    assert parse(FLAGS, [])["I"] == []


@pytest.mark.parametrize(
    "text, size",
    [("0", 0), ("1B", 1), ("1k", 1024), ("500MiB", 500 * 2**20), ("1.5GB", 1_500_000_000), ("2 MB", 2_000_000)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse(FLAGS, ["-S", text])["S"] == size


@pytest.mark.parametrize("text, seconds", [("168h", 604_800.0), ("1m30.5s", 90.5), ("0s", 0.0), ("250ms", 0.25)])
def test_durations_have_units(text: str, seconds: float) -> None:
    assert parse(FLAGS, ["-grace", text])["grace"] == seconds


def test_flags_in_front_of_the_first_word_are_split_off_with_their_values() -> None:
    leading = ["-q", "-f", "csv", "-n=1"]
    assert split_leading(FLAGS, [*leading, "word", "-q"]) == (leading, ["word", "-q"])
    assert split_leading(FLAGS, ["word", "-q"]) == ([], ["word", "-q"])
    assert split_leading(FLAGS, ["-x", "word"]) == (["-x"], ["word"])
    assert split_leading(FLAGS, ["--", "-q"]) == ([], ["--", "-q"])
    assert split_leading(FLAGS, ["-f"]) == (["-f"], [])


@pytest.mark.parametrize("argv", [["-x"], ["-f"], ["-n", "x"], ["-q=maybe"], ["-S", "10 parrots"], ["-grace", "3"]])
def test_what_makes_no_sense_is_refused(argv: list[str]) -> None:
    with pytest.raises(InvalidInput, match="flag"):
        parse(FLAGS, argv)


def test_usage_has_a_line_for_each_flag() -> None:
    assert usage(FLAGS).split("\n")[0] == "  -f S      format (default zng)"
    assert usage(FLAGS).split("\n")[-1] == "  -grace D  time"
