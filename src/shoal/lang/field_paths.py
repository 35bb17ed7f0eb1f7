"""Paths of fields: whether several of them can be assigned in one record."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.errors import InvalidInput
from shoal.lang.plan import Path
from shoal.model.literals import is_identifier, quote


def path_text(path: Path) -> str:
    """`a.b`, or `this`."""
    out = ""
    for name in path:
        if is_identifier(name):
            out += f".{name}" if out else name
        else:
            out = f"{out or 'this'}[{quote(name)}]"
    return out or "this"


def check_record(paths: Sequence[Path]) -> None:
    """Refuse paths that cannot be the fields of one record, in this order."""
    tree: dict[str, object] = {}
    for path in paths:
        level = tree
        for depth, name in enumerate(path[:-1]):
            inner = level.get(name)
            if inner is None and name in level:
                raise InvalidInput(f'duplicate field: "{path_text(path[: depth + 1])}"')
            if inner is not None and next(reversed(level)) != name:
                raise InvalidInput(f"fields in record {path_text(path[: depth + 1])} must be adjacent")
            level = level.setdefault(name, {})  # type: ignore[assignment]
        if path and path[-1] in level:
            raise InvalidInput(f'duplicate field: "{path_text(path)}"')
        if path:
            level[path[-1]] = None


def check_assignments(paths: Sequence[Path]) -> None:
    """Refuse assignments of which one overwrites another."""
    seen: set[Path] = set()
    inside: dict[Path, Path] = {}
    for path in paths:
        if not path:
            raise InvalidInput("left-hand side cannot be 'this' (use 'yield' operator)")
        if path in seen:
            raise InvalidInput(f"multiple assignments to {path_text(path)}")
        above = [path[:i] for i in range(1, len(path))]
        outer = next((prefix for prefix in above if prefix in seen), path)
        inner = inside.get(path, path)
        if outer is not inner:
            raise InvalidInput(f"conflicting nested assignments to {path_text(outer)} and {path_text(inner)}")
        seen.add(path)
        inside.update((prefix, path) for prefix in above)


def check_rename(a: Path, b: Path) -> None:
    """Refuse a rename that would move a field to another record."""
    if len(a) != len(b):
        raise InvalidInput(
            f"left-hand side and right-hand side must have the same depth ({path_text(a)} vs {path_text(b)})"
        )
    for x, y in zip(a[:-1], b[:-1], strict=True):
        if x != y:
            raise InvalidInput(f"cannot rename {path_text(a)} to {path_text(b)} (differ in {x} vs {y})")
