"""`shoal zq`: run a query over files, standard input and URLs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from shoal.api.programs import read_part, stands_alone
from shoal.api.sources import read_files, scan_opener
from shoal.cli.flags import Flag, Parsed, parse, usage
from shoal.cli.output import OUTPUT_FLAGS, open_writer
from shoal.cli.progress import Progress, ended_by_first, open_progress, shares_terminal
from shoal.engines.interp.engine import compile_source, run_program
from shoal.engines.interp.environment import Memory, Run, Statistics
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.formats.options import MAX_VALUE_SIZE, ReadOptions
from shoal.lang import ast, plan
from shoal.lang.parser import parse_source
from shoal.lang.printer import print_program
from shoal.lang.source import Part, ProgramError, Source
from shoal.model import types as t
from shoal.model import values
from shoal.model.text import format_value
from shoal.model.values import NULL, Value
from shoal.storage.inputs import STDIN, is_url, open_input
from shoal.version import VERSION

SUMMARY = "run a query over files of any format"

INPUT_FLAGS = (
    Flag("i", str, "auto", f"format of the input: {', '.join(registry.readable())}", "FMT"),
    Flag("csv.delim", "character", None, "CSV field delimiter", "C"),
    Flag("zng.validate", bool, True, "validate ZNG input (always done; accepted for scripts)"),
    Flag("zng.threads", int, 0, "accepted for scripts"),
    Flag("zng.readmax", "size", MAX_VALUE_SIZE, "longest value or frame to take in one piece"),
    Flag("zng.readsize", "size", 512 * 1024, "accepted for scripts"),
)
QUERY_FLAGS = (
    Flag("I", str, [], "a file with query text to put in front; may be given several times", "FILE"),
    Flag("s", bool, False, "print what was read to standard error at the end"),
)
MEMORY_FLAGS = (
    Flag("aggmem", "size", Memory().aggregate, "memory for one collected value, and for groups"),
    Flag("sortmem", "size", Memory().sort, "memory for a sort before it goes to disk"),
    Flag("fusemem", "size", Memory().fuse, "memory for fuse and shape before they go to disk"),
)
FLAGS = (
    *INPUT_FLAGS,
    *OUTPUT_FLAGS,
    *QUERY_FLAGS,
    *MEMORY_FLAGS,
    Flag("C", bool, False, "print the query in canonical form and do not run it"),
    Flag("e", bool, True, "stop on an input error; with -e=false warn and go on to the next file"),
    Flag("q", bool, False, "do not print warnings"),
    Flag("version", bool, False, "print the version"),
    Flag("help", bool, False, "print this help"),
    Flag("h", bool, False, "print this help"),
    Flag("cpuprofile", str, "", "accepted for scripts", "FILE"),
    Flag("memprofile", str, "", "accepted for scripts", "FILE"),
)
_NOTES = (
    "A file may be a path, `-` for standard input, or an http, https or s3 URL. If the first argument is a file,\n"
    "the query is `*`. A lone argument is a query that begins with a source or a yield."
)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    args = parse(FLAGS, argv)
    if args["version"]:
        print(f"Version: v{VERSION}")
        return 0
    if args["help"] or args["h"] or not (args.words or args["I"]):
        print(f"shoal zq [flags] [query] file...\n\n{SUMMARY}\n{_NOTES}\n\n{usage(FLAGS)}")
        return 0
    memory = memory_of(args)
    source, paths, is_lone = _question(args)
    tree = _parse(source, is_lone)
    if args["C"]:
        print(print_program(tree))
        return 0
    return _answer(source, tree, paths, is_lone, args, memory)


def _question(args: Parsed) -> tuple[Source, list[str], bool]:
    """The program, the files, and whether the program is all there is."""
    parts = [read_part(path) for path in args["I"]]
    words = list(args.words)
    if words and words[0] != STDIN and not is_url(words[0]) and not (words[0] and _is_file(words[0])):
        parts.append(Part("", words.pop(0) or "*"))
        if not words and not args["C"]:
            return Source(parts), [], True
    return Source(parts or [Part("", "*")]), words, False


def _is_file(word: str) -> bool:
    """Whether something of this name is there; a query may be too long to be a name at all."""
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False


def _parse(source: Source, is_lone: bool) -> ast.Seq:
    try:
        return parse_source(source)
    except ProgramError as e:
        if is_lone:
            lines = "\n".join(f"   {line}" for line in str(e).splitlines())
            raise _lone_error(source.parts[-1].text, f"could not be compiled as a valid Zed query:\n{lines}") from e
        raise ProgramError(e.message, f"zq: {e}", e.begin, e.end) from e


def _lone_error(text: str, problem: str) -> InvalidInput:
    """A lone argument is neither a file nor a query."""
    name = f"{text[:20]}..." if len(text) > 20 else text
    return InvalidInput(
        "zq: could not invoke zq with a single argument because:\n"
        f' - a file could not be found with the name "{name}"\n'
        f" - the argument {problem}"
    )


def _answer(source: Source, tree: ast.Seq, paths: list[str], is_lone: bool, args: Parsed, memory: Memory) -> int:
    if is_lone:
        _check_lone(source, tree)
    program = compile_source(source)
    with ExitStack() as stack:
        for path in paths:
            _check_input(path, args["o"], must_exist=args["e"])
        progress = stack.enter_context(open_progress(args, paths))
        open_scan = scan_opener(read_options(args), progress.watch)
        run_state = Run(memory=memory, open_scan=open_scan, emit=progress.above(_emit), measure=args["s"])
        inputs = _inputs(program, paths, args, progress)
        writer = stack.enter_context(open_writer(args))
        results = run_program(program, inputs, run_state)
        if shares_terminal(args):
            results = ended_by_first(results, progress)
        for value in results:
            writer.write(value)
    if args["s"]:
        print(format_value(statistics_value(run_state.statistics)), file=sys.stderr)
    return 0


def _check_lone(source: Source, tree: ast.Seq) -> None:
    """A query without files must bring its own input, or need none."""
    try:
        is_enough = stands_alone(source, tree)
    except ProgramError as e:
        raise ProgramError(e.message, f"zq: {e}", e.begin, e.end) from e
    if not is_enough:
        raise _lone_error(
            source.parts[-1].text, "is a query that begins with neither a source nor a yield, and no file is named"
        )


def _inputs(program: plan.Program, paths: list[str], args: Parsed, progress: Progress) -> Iterator[Value]:
    if not isinstance(program.body[0], plan.DefaultScan):
        return iter(())
    if not paths:
        return iter((NULL,))
    warn = None if args["e"] else (lambda text: None) if args["q"] else progress.above(_warn)
    return read_files(paths, args["i"], read_options(args), warn, progress.watch)


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def _emit(channel: str, value: Value) -> None:
    """Values that leave the query by the side: those of `debug` are shown, others are for programs."""
    if channel == "debug":
        print(format_value(value), file=sys.stderr)


def read_options(args: Parsed) -> ReadOptions:
    """How to read, from the flags."""
    return ReadOptions(csv_delimiter=args["csv.delim"], max_value_size=args["zng.readmax"])


def memory_of(args: Parsed) -> Memory:
    """The limits of memory, from the flags."""
    for name in ("sortmem", "aggmem", "fusemem"):
        if args[name] <= 0:
            raise InvalidInput(f"{name} value must be greater than zero")
    return Memory(sort=args["sortmem"], aggregate=args["aggmem"], fuse=args["fusemem"])


def statistics_value(statistics: Statistics) -> Value:
    """What was read, as a record."""
    names = ("bytes_read", "bytes_matched", "records_read", "records_matched")
    return values.record((name, Value(t.INT64, getattr(statistics, name))) for name in names)


def _check_input(path: str, output: str, must_exist: bool) -> None:
    """An input that cannot be read is no reason to begin an output, least of all onto itself."""
    if path == STDIN or is_url(path):
        return
    if must_exist and (Path(path).is_file() or not Path(path).exists()):
        open_input(path)[1].close()
    if output and Path(output).exists() and Path(output).samefile(path):
        raise InvalidInput(f"{path}: is the output, too (write to another file)")
