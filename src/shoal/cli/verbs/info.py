"""`shoal info`: show the location, id and format of a lake."""

from __future__ import annotations

from shoal.api.infos import LakeStatus
from shoal.cli.command import Verb
from shoal.cli.flags import Parsed, UsageError
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import open_writer, output_flags
from shoal.model import types as t
from shoal.model.values import Value, int64, record, string

VERB = Verb(
    "info [flags]",
    "show the location, id and format of the lake, and how many pools it has",
    (*output_flags("zson"), *LAKE_FLAGS),
    examples=("shoal info",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError("no arguments allowed (name a lake with -lake)")
    status = open_lake(args).status()
    with open_writer(args) as writer:
        writer.write(_value(status))


def _value(status: LakeStatus) -> Value:
    return record([
        ("uri", string(status.uri)),
        ("id", string(status.id)),
        ("version", int64(status.version)),
        ("features", Value(t.array(t.STRING), status.features)),
        ("pools", int64(status.pools)),
    ])  # fmt: skip
