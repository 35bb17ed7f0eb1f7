"""The one error tree, cut by what the caller does next.

    ShoalError
    ├── NotFound         the named thing is not there: check the name
    ├── AlreadyExists    the name is taken: choose another
    ├── Conflict         another writer was first: look at both, try again
    ├── InvalidInput     what was given cannot be read: mend it
    ├── ReadOnly         this handle may not write
    ├── Unauthenticated  nobody knows who is asking: show a token
    ├── Forbidden        the caller may not do this: ask who may
    ├── TooLarge         more than is taken at once: give less
    ├── TooMany          more is going on than is allowed: try again later
    ├── Stopped          what was asked went beyond a limit, or was called off
    ├── Unsupported      asked for something this build or format cannot do
    ├── StorageFailure   the store failed: try again later
    ├── CorruptData      stored bytes are not what was written: restore them
    └── OutcomeUnknown   the store did not say whether it happened: ask by id

`kind` is stable: the same word in HTTP bodies, in the client and on the command line.
"""

from __future__ import annotations


class ShoalError(Exception):
    """Any failure that Shoal reports; its text is one line: what, where, and the way out."""

    kind = "error"


class NotFound(ShoalError):
    """The named thing is not there."""

    kind = "not_found"


class AlreadyExists(ShoalError):
    """The name is taken."""

    kind = "already_exists"


class Conflict(ShoalError):
    """Another writer was first."""

    kind = "conflict"


class InvalidInput(ShoalError):
    """What was given cannot be read or makes no sense."""

    kind = "invalid_input"


class ReadOnly(ShoalError):
    """This handle may not write."""

    kind = "read_only"


class Unsupported(ShoalError):
    """Asked for something that this build, or this format, cannot do."""

    kind = "unsupported"


class StorageFailure(ShoalError):
    """The store failed; nothing is known to have changed."""

    kind = "storage_failure"


class CorruptData(ShoalError):
    """Stored bytes are not what was written."""

    kind = "corrupt_data"


class OutcomeUnknown(ShoalError):
    """The store did not say whether it happened."""

    kind = "outcome_unknown"

    def __init__(self, message: str, commit: str | None = None) -> None:
        super().__init__(message)
        self.commit = commit
        """The id of the operation, to ask about or to repeat it with; None if it has none."""

    def __reduce__(self) -> tuple[type[OutcomeUnknown], tuple[str, str | None]]:
        return type(self), (str(self), self.commit)


class Unauthenticated(ShoalError):
    """Nobody knows who is asking."""

    kind = "unauthenticated"


class Forbidden(ShoalError):
    """The caller may not do this."""

    kind = "forbidden"


class TooLarge(ShoalError):
    """More than is taken at once."""

    kind = "too_large"


class TooMany(ShoalError):
    """More is going on than is allowed."""

    kind = "too_many"


class Stopped(ShoalError):
    """What was asked went beyond a limit, or was called off."""

    kind = "stopped"
