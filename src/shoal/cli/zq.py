"""`shoal zq`: read files of any format, write them in another."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from shoal.cli.flags import Flag, Parsed, parse, usage
from shoal.cli.output import OUTPUT_FLAGS, open_writer
from shoal.errors import InvalidInput, ShoalError, Unsupported
from shoal.formats.files import STDIN, open_input, read_file
from shoal.formats.options import MAX_VALUE_SIZE, ReadOptions
from shoal.model.values import Value
from shoal.version import VERSION

SUMMARY = "read files of any format and write them in another"

INPUT_FLAGS = (
    Flag("i", str, "auto", "format of the input", "FMT"),
    Flag("csv.delim", "character", None, "CSV field delimiter", "C"),
    Flag("zng.validate", bool, True, "validate ZNG input (always done; accepted for scripts)"),
    Flag("zng.threads", int, 0, "accepted for scripts"),
    Flag("zng.readmax", "size", MAX_VALUE_SIZE, "longest value or frame to take in one piece"),
    Flag("zng.readsize", "size", 512 * 1024, "accepted for scripts"),
)
FLAGS = (
    *INPUT_FLAGS,
    *OUTPUT_FLAGS,
    Flag("e", bool, True, "stop on an input error; with -e=false warn and go on to the next file"),
    Flag("q", bool, False, "do not print warnings"),
    Flag("version", bool, False, "print the version"),
    Flag("help", bool, False, "print this help"),
    Flag("h", bool, False, "print this help"),
)
_PASS = ("*", "pass", "")
_NOTES = "`-` is standard input; the only query so far is `*`, which passes everything on"


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    args = parse(FLAGS, argv)
    if args["version"]:
        print(f"Version: v{VERSION}")
        return 0
    if args["help"] or args["h"] or not args.words:
        print(f"shoal zq [flags] [query] file...\n\n{SUMMARY}\n{_NOTES}\n\n{usage(FLAGS)}")
        return 0
    paths = _paths(args.words)
    with ExitStack() as stack:
        for path in paths:
            _check_input(path, args["o"])
        writer = stack.enter_context(open_writer(args))
        for value in _read_all(paths, args):
            writer.write(value)
    return 0


def _check_input(path: str, output: str) -> None:
    """An input that cannot be read is no reason to begin an output, least of all onto itself."""
    if path == STDIN:
        return
    if Path(path).is_file() or not Path(path).exists():
        open_input(path)[1].close()
    if output and Path(output).exists() and Path(output).samefile(path):
        raise InvalidInput(f"{path}: is the output, too (write to another file)")


def _paths(words: list[str]) -> list[str]:
    """The files to read. The first word is a query unless it is a file."""
    query, files = ("*", words) if words[0] == STDIN or Path(words[0]).exists() else (words[0], words[1:])
    if query.strip() not in _PASS:
        if not files:
            raise InvalidInput(f"{query}: file does not exist")
        raise Unsupported(f"{query!r} is no file, and no query but '*' is understood yet, which passes everything on")
    if not files:
        raise InvalidInput("expected a file to read (`-` is standard input)")
    return files


def _read_all(paths: list[str], args: Parsed) -> Iterator[Value]:
    options = ReadOptions(csv_delimiter=args["csv.delim"], max_value_size=args["zng.readmax"])
    return chain.from_iterable(_read_one(path, args, options) for path in paths)


def _read_one(path: str, args: Parsed, options: ReadOptions) -> Iterator[Value]:
    try:
        yield from read_file(path, args["i"], options)
    except ShoalError as e:
        if args["e"]:
            raise
        if not args["q"]:
            print(f"{e}", file=sys.stderr)
