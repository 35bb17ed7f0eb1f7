"""The report after a load: what the commit added, for people on a terminal and as JSON."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.api.branch import Branch
from shoal.api.infos import CommitReport, FieldChange
from shoal.cli.command import plural, say
from shoal.cli.flags import Flag, Parsed
from shoal.cli.progress import byte_count, is_terminal
from shoal.cli.terminal import print_text
from shoal.errors import Unsupported
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.api import codecs
    from shoal.formats.json import writer
else:
    codecs = lazy("shoal.api.codecs")
    writer = lazy("shoal.formats.json.writer")

REPORT_FLAGS = (Flag("j", bool, False, "print a report of the commit as JSON"),)
_MOST_FIELDS = 8
"""How many fields a line lists."""


def print_report(args: Parsed, branch: Branch, commit: str) -> None:
    """Print the commit; its report as well with -j, or if a person reads the messages."""
    if args["j"]:
        print_text(writer.to_json(codecs.show_report(branch.report(commit))))
        return
    say(args, f"{commit} committed")
    if is_terminal(sys.stderr) and not args["q"]:
        with suppress(Unsupported):  # a service of Zed has no reports
            print_text("\n".join(report_lines(branch.report(commit))), sys.stderr)


def report_lines(report: CommitReport) -> list[str]:
    """The report for people."""
    shapes = f" of {plural(report.shapes, 'shape')}" if report.shapes else ""
    size = f"{byte_count(report.size)} in {plural(report.objects, 'object')}"
    lines = [f"{report.records:,} record{'' if report.records == 1 else 's'}{shapes}, {size}"]
    new = [f"{change.path} ({', '.join(change.types)})" for change in report.fields if not change.before]
    changed = [_changed(change) for change in report.fields if change.before]
    lines += [f"{what}: {_listed(fields)}" for what, fields in (("new fields", new), ("new types", changed)) if fields]
    kept = report.bad - report.skipped
    if report.skipped:
        lines.append(f"{plural(report.skipped, 'bad record')} skipped")
    if kept:
        lines.append(f"{plural(kept, 'bad record')} kept as errors (see: shoal query 'is_error(this)')")
    if report.errors > kept:
        lines.append(f"{plural(report.errors - kept, 'error')} (see: shoal query 'is_error(this)')")
    if not report.has_key:
        lines.append("warning: no record has the pool key, so queries by key read all of them")
    return lines


def _changed(change: FieldChange) -> str:
    return f"{change.path} ({', '.join(change.types)}; before: {', '.join(change.before)})"


def _listed(fields: list[str]) -> str:
    more = len(fields) - _MOST_FIELDS
    return ", ".join(fields[:_MOST_FIELDS]) + (f", and {more} more" if more > 0 else "")
