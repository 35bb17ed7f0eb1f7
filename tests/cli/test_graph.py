"""The graph of commits beside the log."""

from __future__ import annotations

from shoal.cli.graph import Graph


def drawn(*commits: tuple[str, str], hidden: str = "") -> str:
    """The graph of commits, each with the names of its parents; each commit has one line."""
    graph = Graph()
    rows: list[str] = []
    for name, parents in commits:
        rows += graph.skip(name, parents) if name in hidden else graph.draw(name, parents, [name])
    return "".join(f"{row}\n" for row in rows)


def test_a_branch_is_one_lane() -> None:
    assert drawn(("c", "b"), ("b", "a"), ("a", "")) == "* c\n* b\n* a\n"


def test_branches_end_in_their_common_ancestor() -> None:
    assert drawn(("d", "a"), ("c", "b"), ("b", "a"), ("a", "")) == (
        "* d\n"
        "| * c\n"
        "| * b\n"
        "|/\n"
        "* a\n"
    )  # fmt: skip


def test_a_merge_has_two_lanes() -> None:
    assert drawn(("d", "cb"), ("c", "a"), ("b", "a"), ("a", "")) == (
        "*  d\n"
        "|\\\n"
        "* | c\n"
        "| * b\n"
        "|/\n"
        "* a\n"
    )  # fmt: skip


def test_lanes_cross_those_between_them() -> None:
    assert drawn(("d", "a"), ("c", "b"), ("e", "a"), ("a", ""), ("b", "")) == (
        "* d\n"
        "| * c\n"
        "| | * e\n"
        "| |/\n"
        "|/|\n"
        "* | a\n"
        " /\n"
        "* b\n"
    )  # fmt: skip


def test_lines_of_a_commit_stand_right_of_its_lanes() -> None:
    graph = Graph()
    assert graph.draw("d", "cb", ["d", "one", "", "two"]) == ["*   d", "|\\  one", "| |", "| | two"]
    assert graph.draw("b", "", ["b", "one"]) == ["| * b", "|   one"]
    assert graph.draw("c", "", ["c", "one"]) == ["* c", "  one"]


def test_the_graph_leads_past_hidden_commits() -> None:
    commits = ("d", "cb"), ("c", "a"), ("b", "a"), ("a", "")
    assert drawn(*commits, hidden="db") == "|\\\n* | c\n|/\n* a\n"
