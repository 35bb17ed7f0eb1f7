"""`shoal serve`: serve a lake over HTTP."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.access.limits import Limits
from shoal.cli.command import Verb
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake_flags import LAKE_FLAGS, lake_location
from shoal.cli.service_flags import AUTH_FLAGS, LOG_FLAGS, auth_settings, collect_garbage, open_log
from shoal.errors import InvalidInput, NotFound, StorageFailure
from shoal.lazy import lazy
from shoal.local.lake import LocalLake, create_local, open_local, whole

if TYPE_CHECKING:
    from shoal.service import media, server, state
else:  # `shoal -help` needs no server
    media = lazy("shoal.service.media")
    server = lazy("shoal.service.server")
    state = lazy("shoal.service.state")

VERB = Verb(
    "serve [flags]",
    "serve a lake over HTTP",
    (
        Flag("l", str, "localhost:9867", "address and port to listen on; port 0 picks a free one", "ADDR:PORT"),
        Flag("portfile", str, None, "write the port to this file once the service listens", "FILE"),
        Flag("brimfd", int, None, "exit when this file descriptor is closed", "N"),
        Flag("cors.origin", str, [], "origin whose web pages may call the service; may be repeated", "O"),
        Flag("defaultfmt", str, "zson", "response format for requests that accept any format", "FORMAT"),
        Flag("manage", "duration", None, "compact all pools at this interval"),
        Flag("spark", bool, False, "start Spark with the service instead of with the first query that needs it"),
        Flag("groupcommit", bool, True, "let concurrent loads to one branch share one journal write"),
        Flag("rootcontentfile", str, None, "file to serve at /", "FILE"),
        Flag("tls.cert", str, None, "PEM certificate or chain; turns on https", "FILE"),
        Flag("tls.key", str, None, "private key of the certificate", "FILE"),
        Flag("limit.body", "size", 100 << 30, "largest request body"),
        Flag("limit.time", "duration", 300.0, "time limit of a query; 0s for no limit"),
        Flag("limit.rows", "count", 0, "largest number of values that a query returns; 0 for no limit"),
        Flag(
            "limit.memory",
            "size",
            2 << 30,
            "memory limit of a query, above which it spills to disk or fails, and of a load, above which it fails",
        ),
        Flag("limit.ratio", "count", 500, "how many times its size a compressed or encoded body may expand"),
        Flag("limit.queries", "count", 32, "largest number of concurrent queries"),
        Flag("limit.caller", "count", 16, "largest number of concurrent queries per caller"),
        Flag(
            "limit.stall",
            "duration",
            60.0,
            "time after which a client that stops reading or sending is cut off; 0s for no limit",
        ),
        *AUTH_FLAGS,
        *LOG_FLAGS,
        *LAKE_FLAGS,
    ),
    "Creates the lake if it does not exist. All commands work through the service, for example:\n"
    "shoal -lake http://localhost:9867 ls. See docs/service.md for the API.",
    ("shoal serve", "shoal serve -lake s3://bucket/lake -l :9867 -auth.enabled -tls.cert a.pem -tls.key a.key"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError("no arguments allowed (name the lake with -lake)")
    collect_garbage()
    host, port = parse_address(args["l"])
    auth = auth_settings(args, host)
    limits = state.QueryLimits(
        Limits(args["limit.time"] or None, args["limit.rows"] or None, args["limit.memory"] or None),
        at_once=max(1, args["limit.queries"]),
        per_caller=max(1, args["limit.caller"]),
        stall=args["limit.stall"] or inf,
    )
    config = state.Settings(
        default_format=media.default_format(args["defaultfmt"]),
        origins=tuple(args["cors.origin"]),
        root_content=_read(args["rootcontentfile"]),
        largest_body=args["limit.body"],
        largest_ratio=max(1, args["limit.ratio"]),
        limits=limits,
    )
    if (args["tls.cert"] is None) != (args["tls.key"] is None):
        raise UsageError("-tls.cert and -tls.key must be given together")
    with open_log(args) as log:
        listening = server.Listening(
            host,
            port,
            None if args["portfile"] is None else Path(args["portfile"]),
            args["tls.cert"],
            args["tls.key"],
            args["brimfd"],
            args["spark"],
            args["manage"],
        )
        lake = _open(lake_location(args))
        whole(lake).groups_loads = args["groupcommit"]
        server.serve(state.Service(lake, config, auth, log), listening)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`, `:port` or `[::1]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"invalid value {text!r} for flag -l (such as localhost:9867)")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _open(location: str) -> LocalLake:
    if location.startswith(("http://", "https://")):
        raise InvalidInput(
            f"{location}: a service cannot serve another service (give -lake a path or the URI of a store)"
        )
    try:
        return open_local(location)
    except NotFound:
        return create_local(location)


def _read(path: str | None) -> bytes | None:
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None
