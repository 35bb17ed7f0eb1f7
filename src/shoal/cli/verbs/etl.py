"""`shoal etl`: gather and transform the records of a raw pool, round after round."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal.api.requests import NoteArgs
from shoal.cli.command import Verb, stop_signals
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.job_output import JOB_FLAGS, open_reporter
from shoal.cli.lake import open_lake, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS
from shoal.cli.query_flags import ENGINE_FLAGS
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.connect import settings
    from shoal.connect.etl import cdc, config, job
    from shoal.connect.kafka.events import Event
else:
    cdc = lazy("shoal.connect.etl.cdc")
    config = lazy("shoal.connect.etl.config")
    job = lazy("shoal.connect.etl.job")
    settings = lazy("shoal.connect.settings")

_SECTIONS = ("kafka", "registry", "from-kafka", "to-kafka", "etl")
"""Jobs may share a file."""
VERB = Verb(
    "etl [flags]",
    "gather and transform the records of a raw pool into other pools, each exactly once",
    (
        Flag("config", str, None, "YAML file with a section `etl`: input, output, transforms", "FILE"),
        Flag("once", bool, False, "stop when all records that are there have been read"),
        Flag("exit-after", "duration", None, "stop after this time"),
        *JOB_FLAGS,
        *ENGINE_FLAGS,
        *COMMIT_FLAGS,
        *LAKE_FLAGS,
    ),
    "Each round is one commit, also if it goes into several pools, and says how far the job has come. A job that was\n"
    "stopped at any point goes on there. Two processes may run one job: one of them does the work.\n"
    "SIGTERM and SIGINT end it after the round.",
    (
        "shoal create -orderby seqno:desc staging",
        "shoal etl -config orders.yaml -once",
        "shoal etl -config orders.yaml -exit-after 1h -engine spark",
    ),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError(f"etl: unexpected {args.words[0]!r}")
    if args["config"] is None:
        raise UsageError("-config is missing (a file with a section `etl`: see docs/etl.md)")
    until = None if args["exit-after"] is None else time.monotonic() + args["exit-after"]
    note, plan = _note(args), _plan(args["config"])
    with stop_signals() as stopped, open_reporter(args, "etl") as reporter:
        _job(args, plan, reporter, note).run(
            lambda: stopped.is_set() or (until is not None and time.monotonic() >= until), once=args["once"]
        )


def _plan(path: str) -> config.EtlConfig | cdc.CdcConfig:
    section = settings.read_settings(path)
    plan = cdc.parse_cdc(section) if cdc.is_cdc(section) else config.parse_etl(section)
    for name in _SECTIONS:
        section.mention(name)
    section.require_known()
    return plan


def _job(
    args: Parsed, plan: config.EtlConfig | cdc.CdcConfig, report: Callable[[Event], None], note: NoteArgs
) -> job.Etl | cdc.Cdc:
    lake, engine = open_lake(args), args["engine"]
    if isinstance(plan, cdc.CdcConfig):
        return cdc.Cdc(lake, plan, report, engine=engine, note=note)
    return job.Etl(lake, plan, report, engine=engine, note=note)


def _note(args: Parsed) -> NoteArgs:
    if args["meta"] is not None:
        raise UsageError("-meta does not go with an etl, which keeps its cursor there")
    return read_note(args)
