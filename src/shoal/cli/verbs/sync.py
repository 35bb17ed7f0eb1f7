"""`shoal sync`: topics of Kafka into pools, pools into topics, and how far that is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shoal.api.requests import NoteArgs
from shoal.cli.command import Verb, stop_signals
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.job_output import JOB_FLAGS, open_reporter
from shoal.cli.lake import open_lake, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS
from shoal.cli.output import open_writer, output_flags
from shoal.connect.settings import Section, read_settings
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.connect.kafka import (
        backfill,
        config,
        connection,
        decoders,
        encoders,
        from_kafka,
        registry,
        status,
        to_kafka,
    )
    from shoal.connect.kafka.config import FromKafka
    from shoal.connect.kafka.registry import Registry
else:
    backfill = lazy("shoal.connect.kafka.backfill")
    config = lazy("shoal.connect.kafka.config")
    connection = lazy("shoal.connect.kafka.connection")
    decoders = lazy("shoal.connect.kafka.decoders")
    encoders = lazy("shoal.connect.kafka.encoders")
    from_kafka = lazy("shoal.connect.kafka.from_kafka")
    registry = lazy("shoal.connect.kafka.registry")
    status = lazy("shoal.connect.kafka.status")
    to_kafka = lazy("shoal.connect.kafka.to_kafka")

_WITHOUT_FILE = ("topic", "pool", "brokers", "registry", "key", "value", "group", "every", "records", "bytes", "from")
VERB = Verb(
    "sync [flags] from-kafka | to-kafka | status",
    "read topics of Kafka into pools, or send the records of pools to topics, each exactly once",
    (
        Flag("config", str, None, "YAML file of brokers, topics and pools", "FILE"),
        Flag("brokers", str, None, "brokers to ask first, instead of a file", "HOST:PORT,..."),
        Flag("topic", str, None, "topics to read; one that begins with ^ is a pattern", "NAME,..."),
        Flag("pool", str, None, "pool, or pool@branch, that they go into", "POOL"),
        Flag("key", str, None, "decoder of keys (default text)", "NAME"),
        Flag("value", str, None, "decoder of values: json, avro, debezium, ... (default json)", "NAME"),
        Flag("registry", str, None, "URL of the schema registry", "URL"),
        Flag("group", str, None, "consumer group whose workers share the partitions (default shoal-POOL)", "NAME"),
        Flag(
            "from", str, None, "where new topics begin: earliest, latest, a time, or orders:0=40,orders:1=17", "WHERE"
        ),
        Flag("every", "duration", None, "time after which a batch is committed (default 1s)"),
        Flag("records", int, None, "records after which a batch is committed (default 100000)"),
        Flag("bytes", "size", None, "bytes after which a batch is committed (default 64MiB)"),
        Flag("max-bad", int, None, "stop when more records than this cannot be decoded"),
        Flag("on-recreate", ("", "fail", "restart"), "", "what to do if a topic was deleted and created again"),
        Flag("on-loss", ("", "fail", "skip"), "", "what to do if records were deleted before they were read"),
        Flag(
            "worker", str, None, "read a fixed share of the partitions, instead of those of a group: 1/4 to 4/4", "I/N"
        ),
        Flag(
            "engine",
            ("auto", "interp", "spark"),
            None,
            "spark reads what is missing as Spark tasks, before the worker begins; auto does so for very many records",
        ),
        Flag("once", bool, False, "stop at the ends of all partitions"),
        Flag("exit-after", "duration", None, "stop after this time"),
        Flag("resend", bool, False, "to-kafka: send everything to a topic that does not tell what it was sent"),
        *JOB_FLAGS,
        *output_flags("table"),
        *COMMIT_FLAGS,
        *LAKE_FLAGS,
    ),
    "  from-kafka  read topics into raw pools, which are sorted by seqno: {seqno,kafka:{topic,partition,...},value}\n"
    "  to-kafka    send the records of pools to topics, in transactions of Kafka\n"
    "  status      show how far each partition is, and what is missing\n\n"
    "Brokers, registries and stores that are away are waited for. SIGTERM and SIGINT commit what was read, and end it.",
    (
        "shoal create -orderby seqno raw",
        "shoal sync from-kafka -brokers localhost:9092 -topic orders,menu -pool raw",
        "shoal sync from-kafka -config sync.yaml -exit-after 1h",
        "shoal sync status -config sync.yaml",
    ),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if len(args.words) != 1 or args.words[0] not in _ACTIONS:
        raise UsageError(f"sync: which one? ({', '.join(_ACTIONS)})")
    _ACTIONS[args.words[0]](args)


def _settings(args: Parsed) -> Section:
    """What the file says, or else the flags."""
    if args["config"] is not None:
        if given := sorted(set(_WITHOUT_FILE) & args.given):
            raise UsageError(f"-{given[0]} goes without -config (write it into the file)")
        return read_settings(args["config"])
    for name in ("brokers", "topic", "pool"):
        if args[name] is None:
            raise UsageError(f"-{name} is missing (or describe it all in a file: -config FILE)")
    source = {"topics": args["topic"].split(","), "pool": args["pool"]}
    source |= {name: args[name] for name in ("key", "value", "from") if args[name] is not None}
    items: dict[str, Any] = {"kafka": {"bootstrap.servers": args["brokers"]}, "from-kafka": {"inputs": [source]}}
    if args["group"] is not None:
        items["from-kafka"]["group"] = args["group"]
    if args["registry"] is not None:
        items["registry"] = {"url": args["registry"]}
    return Section("flags", items)


def _from_kafka(args: Parsed) -> None:
    section = _settings(args)
    cluster = connection.Connection(config.parse_kafka(section))
    plan = _with_flags(config.parse_from_kafka(section), args)
    schemas = _registry(section)
    _require_known(section)
    with stop_signals() as stopped, open_reporter(args, "from-kafka") as reporter:
        worker = from_kafka.Worker(
            open_lake(args),
            cluster,
            plan,
            lambda name: decoders.open_decoder(name, schemas),
            reporter,
            share=_share(args["worker"]),
            note=_note(args),
            backfill=backfill.Backfill(
                cluster, plan, config.parse_registry(section), reporter, engine=args["engine"]
            ).run,
        )
        worker.run(_deadline(args, stopped.is_set), once=args["once"])


def _registry(section: Section) -> Registry | None:
    settings = config.parse_registry(section)
    return None if settings is None else registry.Registry(settings.url, settings.login, ca_file=settings.ca)


def _require_known(section: Section) -> None:
    """InvalidInput if a file has a part that no job reads."""
    for name in ("kafka", "registry", "from-kafka", "to-kafka", "etl"):
        section.mention(name)
    section.require_known()


def _with_flags(plan: FromKafka, args: Parsed) -> FromKafka:
    """A plan with what flags say of batches and of trouble."""
    limits = plan.limits
    for name, field in (("every", "every"), ("records", "records"), ("bytes", "size")):
        if args[name] is not None:
            if args[name] <= 0:
                raise UsageError(f"-{name} must be positive")
            limits = replace(limits, **{field: args[name]})
    return replace(
        plan,
        limits=limits,
        max_bad=plan.max_bad if args["max-bad"] is None else args["max-bad"],
        on_recreate=args["on-recreate"] or plan.on_recreate,
        on_loss=args["on-loss"] or plan.on_loss,
    )


def _share(text: str | None) -> tuple[int, int] | None:
    """Which of several fixed shares, such as `1/4`, counted from 0."""
    if text is None:
        return None
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise UsageError(f"-worker: {text!r} is none of several (such as 1/4)")
    return int(number) - 1, int(count)


def _note(args: Parsed) -> NoteArgs:
    if args["meta"] is not None:
        raise UsageError("-meta does not go with a sync, which keeps its positions there")
    return read_note(args)


def _deadline(args: Parsed, is_stopped: Callable[[], bool]) -> Callable[[], bool]:
    """Whether a job is over: it was told to stop, or its time is up."""
    until = None if args["exit-after"] is None else time.monotonic() + args["exit-after"]
    return lambda: is_stopped() or (until is not None and time.monotonic() >= until)


def _to_kafka(args: Parsed) -> None:
    if args["config"] is None:
        raise UsageError("to-kafka: which pools and topics? (describe them in a file: -config FILE)")
    section = read_settings(args["config"])
    cluster = connection.Connection(config.parse_kafka(section))
    plan, schemas = config.parse_to_kafka(section), _registry(section)
    _require_known(section)
    with stop_signals() as stopped, open_reporter(args, "to-kafka") as reporter:
        sender = to_kafka.Sender(
            open_lake(args),
            cluster,
            plan,
            lambda name, subject: encoders.open_encoder(name, schemas, subject),
            reporter,
            resend=args["resend"],
        )
        sender.run(_deadline(args, stopped.is_set), once=args["once"])


def _status(args: Parsed) -> None:
    section = _settings(args)
    cluster = connection.Connection(config.parse_kafka(section))
    plan = config.parse_from_kafka(section)
    _require_known(section)
    with open_writer(args) as writer:
        for row in status.status(open_lake(args), cluster, plan):
            writer.write(row)


_ACTIONS: dict[str, Callable[[Parsed], None]] = {"from-kafka": _from_kafka, "to-kafka": _to_kafka, "status": _status}
