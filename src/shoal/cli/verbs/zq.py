"""`shoal zq`: run a query over files, standard input and URLs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from shoal.api.options import Memory, ReadOptions
from shoal.cli.command import Verb
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.output import OUTPUT_FLAGS, open_writer
from shoal.cli.progress import Progress, ended_by_first, open_progress, shares_terminal
from shoal.cli.query_flags import (
    INPUT_FLAGS,
    MEMORY_FLAGS,
    QUERY_FLAGS,
    check_input,
    memory_of,
    print_aside,
    print_statistics,
    print_warning,
    read_options,
)
from shoal.cli.terminal import print_text
from shoal.engines.interp.engine import evaluate, run_program
from shoal.engines.interp.environment import Run
from shoal.lang import ast, plan
from shoal.lang.compile import compile_tree, reads_input, stands_alone
from shoal.lang.parser import parse_source
from shoal.lang.printer import print_program
from shoal.lang.source import Part, ProgramError, Source
from shoal.model.values import NULL, Value
from shoal.planner.file_scans import with_files, with_inputs
from shoal.planner.files import read_part, runs_plans, scan_opener
from shoal.sources.inputs import STDIN, is_url
from shoal.sources.reading import read_files

FLAGS = (
    *INPUT_FLAGS,
    *OUTPUT_FLAGS,
    *QUERY_FLAGS,
    *MEMORY_FLAGS,
    Flag(
        "e",
        bool,
        True,
        "stop on an input error; -e=false skips a file that cannot be opened or recognized, with a warning",
    ),
    Flag("q", bool, False, "do not print warnings"),
    Flag("v", bool, False, "print the details of errors"),
    Flag("version", bool, False, "print the version"),
    Flag("help", bool, False, "print this help"),
    Flag("h", bool, False, "print this help"),
    Flag("cpuprofile", str, "", "accepted for scripts", "FILE"),
    Flag("memprofile", str, "", "accepted for scripts", "FILE"),
)
VERB = Verb(
    "zq [flags] [query] file...",
    "run a query over files of any format",
    FLAGS,
    "A file is a path, `-` for standard input, or an http, https or s3 URL. If the first argument is a file, the\n"
    "query is `*`. A single argument is a query that begins with a source or with yield.",
    ("shoal zq -z 'count() by status' access.json", "curl -s host/data.csv | shoal zq -f table 'sort -r size' -"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words and not args["I"]:
        print_text(VERB.help())
        return
    memory = memory_of(args)
    source, paths, is_lone = _program(args)
    tree = _parse(source, is_lone)
    if args["C"]:
        print_text(print_program(tree))
    else:
        _run_query(source, tree, paths, is_lone, args, memory)


def _program(args: Parsed) -> tuple[Source, list[str], bool]:
    """The program, the files, and whether the program is the only argument."""
    parts = [read_part(path) for path in args["I"]]
    words = list(args.words)
    if words and words[0] != STDIN and not is_url(words[0]) and not (words[0] and _is_file(words[0])):
        parts.append(Part("", words.pop(0) or "*"))
        if not words and not args["C"]:
            return Source(parts), [], True
    return Source(parts or [Part("", "*")]), words, False


def _is_file(word: str) -> bool:
    """Whether a file of this name exists; a query may be too long for a file name."""
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


def _lone_error(text: str, problem: str) -> UsageError:
    """The error for a single argument that is neither a file nor a query."""
    name = f"{text[:20]}..." if len(text) > 20 else text
    return UsageError(
        "zq: could not invoke zq with a single argument because:\n"
        f' - a file could not be found with the name "{name}"\n'
        f" - the argument {problem}"
    )


def _run_query(source: Source, tree: ast.Seq, paths: list[str], is_lone: bool, args: Parsed, memory: Memory) -> None:
    program = _compile(source, tree, is_lone)
    with ExitStack() as stack:
        for path in paths:
            check_input(path, args["o"], must_exist=args["e"])
        if paths and not reads_input(program):
            raise UsageError("redundant inputs specified: use either command-line files or a Zed source operator")
        progress = stack.enter_context(open_progress(args, paths))
        options = _read_options(args)
        run_state = Run(memory=memory, emit=progress.above(_emit), measure=args["s"])
        runs_plans(run_state, scan_opener(options, progress.watch))
        if not args["s"]:
            files = paths if args["e"] else []
            program = with_inputs(program, files, args["i"], options, progress.watch)
            program = with_files(program, options, progress.watch)
        inputs = _inputs(program, paths, args, progress)
        writer = stack.enter_context(open_writer(args, refuses_mixtures=True))
        results = run_program(program, inputs, run_state)
        if shares_terminal(args):
            results = ended_by_first(results, progress)
        for value in results:
            writer.write(value)
    print_statistics(args, run_state.statistics)


def _compile(source: Source, tree: ast.Seq, is_lone: bool) -> plan.Program:
    """The plan. A query without files must name its input, or need none."""
    if not is_lone:
        return compile_tree(tree, source, evaluate)
    try:
        program = compile_tree(tree, source, evaluate)
    except ProgramError as e:
        raise ProgramError(e.message, f"zq: {e}", e.begin, e.end) from e
    if not stands_alone(program):
        raise _lone_error(
            source.parts[-1].text, "is a query that begins with neither a source nor a yield, and no file is named"
        )
    return program


def _inputs(program: plan.Program, paths: list[str], args: Parsed, progress: Progress) -> Iterator[Value]:
    if not reads_input(program):
        return iter(())
    if not paths:
        return iter((NULL,))
    warn = None if args["e"] else (lambda text: None) if args["q"] else progress.above(print_warning)
    return read_files(paths, args["i"], _read_options(args), warn, progress.watch)


def _read_options(args: Parsed) -> ReadOptions:
    """Read options from the flags. Unless the flags say otherwise, Arrow types have the names that zq gives them."""
    options = read_options(args)
    return replace(options, arrow_types=options.arrow_types or "zed")


def _emit(channel: str, value: Value) -> None:
    """Print the values of `debug`; other side channels are for programs."""
    if channel == "debug":
        print_aside(value)
