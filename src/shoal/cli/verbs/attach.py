"""`shoal attach`: add Parquet files to a branch where they are, without a copy."""

from __future__ import annotations

from shoal.api.infos import AttachedFile
from shoal.cli.command import Verb, plural
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_branch, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.progress import byte_count
from shoal.cli.reports import REPORT_FLAGS, print_report
from shoal.cli.terminal import print_text

VERB = Verb(
    "attach [flags] URI...",
    "add Parquet files to a branch where they are, without a copy, as one commit",
    (
        Flag("id", str, None, "id of this attachment, for retries: with the same id it happens once", "ID"),
        Flag("dryrun", bool, False, "print what would be attached, and attach nothing"),
        *REPORT_FLAGS,
        *COMMIT_FLAGS,
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "URI is the path or s3 URL of a file or of a folder, of which all files below are meant, but for those whose\n"
    "names begin with _ or a dot. Folders such as year=2024 give fields. Only the footers of files are read. If one\n"
    "of them cannot be attached, none is. A file that changes later can no longer be read: detach it.",
    ("shoal attach events/", "shoal attach -dryrun -use logs@live s3://bucket/events/year=2024/"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        raise UsageError("attach: at least one file or folder must be specified")
    note = read_note(args)
    branch = open_branch(args)
    if args["dryrun"]:
        print_text("\n".join(_lines(branch.attach(args.words, dry_run=True))))
        return
    print_report(args, branch, branch.attach(args.words, op=args["id"], **note))


def _lines(files: list[AttachedFile]) -> list[str]:
    """What would be attached, for people."""
    full = [file for file in files if file.records]
    lines = [
        f"{file.uri}: {plural(file.records, 'record')}" + ("" if file.records else ", would be left out")
        for file in files
    ]
    lines += [f"shape: {shape}" for shape in dict.fromkeys(file.shape for file in full)]
    records, size = sum(file.records for file in full), byte_count(sum(file.size for file in full))
    return [*lines, f"would attach {plural(len(full), 'file')}: {plural(records, 'record')}, {size}"]
