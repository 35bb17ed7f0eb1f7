"""The error tree, divided by what the caller does next.

    ShoalError
    ├── NotFound         the named thing does not exist: check the name
    ├── AlreadyExists    the name is taken: choose another
    ├── Conflict         another writer was first: compare, then retry
    ├── InvalidInput     the input is not valid: fix it
    ├── ReadOnly         this handle may not write
    ├── Unauthenticated  the caller is unknown: send a token
    ├── Forbidden        the caller lacks a right: ask an admin for it
    ├── TooLarge         the input is too large: send less
    ├── TooMany          too many concurrent requests: retry later
    ├── Stopped          the query exceeded a limit or was canceled
    ├── Unsupported      this build or format cannot do it
    ├── StorageFailure   the store failed: retry later
    ├── CorruptData      stored bytes are not what was written: restore them
    └── OutcomeUnknown   the store did not confirm the operation: ask by id

`kind` is stable: the same word in HTTP bodies, in the client and on the command line.
"""

from __future__ import annotations

from typing import ClassVar

from shoal.printable import printable

__all__ = [
    "AlreadyExists",
    "Conflict",
    "CorruptData",
    "Forbidden",
    "InvalidInput",
    "NotFound",
    "OutcomeUnknown",
    "ReadOnly",
    "ShoalError",
    "Stopped",
    "StorageFailure",
    "TooLarge",
    "TooMany",
    "Unauthenticated",
    "Unsupported",
]

_LONGEST_TEXT = 4000
_HEAD, _TAIL = 2500, 1000
"""Characters of a longer text that are kept: the head names the thing, the tail the way out."""


def __dir__() -> list[str]:
    return __all__


def shortened(text: str) -> str:
    """A text for people; the middle of a long one, such as a program or a name that it quotes, is left out."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_HEAD]} … ({len(text) - _HEAD - _TAIL} characters) … {text[-_TAIL:]}"


def details_of(error: BaseException) -> list[str]:
    """The notes of an error and of those that it was raised from: what is too long for its line."""
    notes: list[str] = []
    seen: list[BaseException] = []  # an error may be raised from itself
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        notes += [printable(note, lines=True) for note in getattr(cause, "__notes__", ())]
        cause = cause.__cause__ or cause.__context__
    return notes


class ShoalError(Exception):
    """Any failure that Shoal reports; its text is one line: what, where, and the way out.

    Names and other input that it quotes cannot move the cursor or add lines: control characters are escaped.
    """

    kind = "error"
    has_lines: ClassVar[bool] = False
    """Whether the text may have several lines, as one that points into a program."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*(printable(p, lines=self.has_lines) if isinstance(p, str) else p for p in parts))

    def __str__(self) -> str:
        return shortened(super().__str__())


class NotFound(ShoalError):
    """The named thing does not exist."""

    kind = "not_found"


class AlreadyExists(ShoalError):
    """The name is taken."""

    kind = "already_exists"


class Conflict(ShoalError):
    """Another writer was first."""

    kind = "conflict"


class InvalidInput(ShoalError):
    """The input is not valid."""

    kind = "invalid_input"
    has_lines = True


class ReadOnly(ShoalError):
    """This handle may not write."""

    kind = "read_only"


class Unsupported(ShoalError):
    """This build, or this format, cannot do it."""

    kind = "unsupported"


class StorageFailure(ShoalError):
    """The store failed; as far as known, nothing changed."""

    kind = "storage_failure"


class CorruptData(ShoalError):
    """Stored bytes are not what was written."""

    kind = "corrupt_data"


class OutcomeUnknown(ShoalError):
    """The store did not confirm whether the operation happened."""

    kind = "outcome_unknown"

    def __init__(self, message: str, commit: str | None = None) -> None:
        super().__init__(message)
        self.commit = commit
        """The id of the operation, to ask for its outcome or to retry it; None if it has none."""

    def __reduce__(self) -> tuple[type[OutcomeUnknown], tuple[str, str | None]]:
        return type(self), (str(self), self.commit)


class Unauthenticated(ShoalError):
    """The caller is unknown."""

    kind = "unauthenticated"


class Forbidden(ShoalError):
    """The caller lacks a right."""

    kind = "forbidden"


class TooLarge(ShoalError):
    """The input is too large."""

    kind = "too_large"


class TooMany(ShoalError):
    """Too many concurrent requests."""

    kind = "too_many"


class Stopped(ShoalError):
    """The query exceeded a limit or was canceled."""

    kind = "stopped"
