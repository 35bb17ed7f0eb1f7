"""Names of columns, which are unique within a table."""

from __future__ import annotations


def unique_names(names: list[str]) -> list[str]:
    """Names of columns; a repeated one gets the first number that makes it unique."""
    taken = set(names)
    repeats: dict[str, int] = {}
    out = []
    for name in names:
        number = repeats.get(name, 0)
        unique = name
        while number and (unique := f"{name}{number}") in taken:
            number += 1
        taken.add(unique)
        repeats[name] = number + 1
        out.append(unique)
    return out


def extra_name(index: int) -> str:
    """The name of a column that nothing names."""
    return f"c{index}"
