"""What commands share: help, version, the number of arguments, output that -q suppresses, signals that end them."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shoal.cli.flags import Flag, Parsed, UsageError, parse, usage
from shoal.cli.terminal import print_text
from shoal.errors import ShoalError, details_of
from shoal.lazy import lazy
from shoal.model.node import frozen
from shoal.version import VERSION

if TYPE_CHECKING:
    from shoal.client import failures
else:
    failures = lazy("shoal.client.failures")

_BAD_REQUEST = 400


@frozen
class Verb:
    """A command: its usage, summary, flags, notes and examples."""

    usage: str
    summary: str
    flags: Sequence[Flag]
    notes: str = ""
    examples: tuple[str, ...] = ()

    def help(self) -> str:
        """The text that `-help` prints."""
        parts = [f"shoal {self.usage}", self.summary + (f"\n{self.notes}" if self.notes else "")]
        if self.examples:
            parts.append("\n".join(("examples:", *(f"  {example}" for example in self.examples))))
        return "\n\n".join((*parts, usage(self.flags)))

    def execute(self, argv: Sequence[str], run: Callable[[Parsed], None]) -> int:
        """Parse the arguments and run the command, or print its help or the version; returns the exit status."""
        args = parse(self.flags, argv)
        try:
            if args["version"]:
                print_text(version_line())
            elif args["help"] or args["h"]:
                print_text(self.help())
            else:
                run(args)
        except ShoalError as e:
            return print_error(e, has_details=args["v"])
        return 0


def version_line() -> str:
    """The line that `-version` prints."""
    return f"Version: v{VERSION}"


def say(args: Parsed, line: str) -> None:
    """Print a line, unless -q was given."""
    if not args["q"]:
        print_text(line)


def one_word(args: Parsed, otherwise: str) -> str:
    """The only argument; InvalidInput with the text `otherwise` if there is none, or more than one."""
    if len(args.words) != 1:
        raise UsageError(otherwise)
    return args.words[0]


def optional_word(args: Parsed) -> str | None:
    """The only argument, or None if there is none."""
    if len(args.words) > 1:
        raise UsageError(f"too many arguments: unexpected {' '.join(args.words[1:])!r}")
    return args.words[0] if args.words else None


def plural(count: int, noun: str) -> str:
    """`1 object`, `2 objects`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def print_error(error: Exception, *, has_details: bool = False) -> int:
    """Print one line on standard error, with details below it if they are asked for; returns the exit status.

    The line begins with the status code if a service refused the request.
    """
    is_refused = failures.status_of(error) == _BAD_REQUEST
    print_text(f"status code {_BAD_REQUEST}: {error}" if is_refused else f"{error}", sys.stderr)
    for note in details_of(error) if has_details else ():
        print_text(note, sys.stderr)
    return 2 if isinstance(error, UsageError) else 1


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets, so that current work can finish. A second one ends it at once."""
    over = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(number: int, frame: object) -> None:
        restore()
        over.set()

    for number in before:
        signal.signal(number, end)
    try:
        yield over
    finally:
        restore()
