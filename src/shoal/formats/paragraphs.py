"""Text broken into lines: paragraphs are set so that their lines are as even as can be, the last one aside."""

from __future__ import annotations

_TOO_LONG = 100_000
"""What a line costs that is longer than it should be, as one long word makes it."""


def wrap_paragraphs(text: str, width: int, indent: str = "") -> str:
    """Paragraphs, which blank lines separate, each wrapped and every line indented; no blank lines at the ends."""
    paragraphs = (wrap(paragraph.strip(), width) for paragraph in text.split("\n\n"))
    lines = "\n\n".join(paragraphs).strip("\n").split("\n")
    return "\n".join(f"{indent}{line}" if line else "" for line in lines)


def wrap(text: str, width: int) -> str:
    """One paragraph as lines; the sum of the squares of what they leave free is the least.

    >>> print(wrap("to be or not to be, that is the question", 16))
    to be or not to
    be, that is the
    question
    """
    words = text.replace("\n", " ").split(" ")
    costs, breaks = [0] * len(words), [len(words)] * len(words)
    for first in range(len(words) - 1, -1, -1):
        costs[first], breaks[first] = _best_line(words, first, width, costs)
    lines, at = [], 0
    while at < len(words):
        lines.append(" ".join(words[at : breaks[at]]))
        at = breaks[at]
    return "\n".join(lines)


def _best_line(words: list[str], first: int, width: int, costs: list[int]) -> tuple[int, int]:
    """What the text from a word on costs at least, and where its first line ends for that."""
    best = None
    length = -1
    for end in range(first + 1, len(words) + 1):
        length += 1 + len(words[end - 1])
        if best is not None and length > width:
            break
        if end == len(words):
            cost = 0 if length <= width else _TOO_LONG
        else:
            cost = (width - length) ** 2 + (_TOO_LONG if length > width else 0) + costs[end]
        if best is None or cost < best[0]:
            best = cost, end
    return best or (0, len(words))
