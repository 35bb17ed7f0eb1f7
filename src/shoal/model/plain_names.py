"""What no name may contain: of a pool, a branch, a tag, a subject, or of anything that a request names."""

from __future__ import annotations

from shoal.errors import InvalidInput
from shoal.printable import has_control


def require_plain_name(name: str, what: str) -> None:
    """InvalidInput if a name contains control characters; `what` says whose name it is."""
    if has_control(name):
        raise InvalidInput(f"invalid {what}: {name[:100]!r} (control characters are not allowed in names)")
