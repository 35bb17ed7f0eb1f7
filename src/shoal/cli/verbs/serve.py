"""`shoal serve`: a lake over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.access.limits import Limits
from shoal.cli.auth_flags import AUTH_FLAGS, auth_settings
from shoal.cli.command import Verb
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake_flags import LAKE_FLAGS, lake_location
from shoal.cli.log_flags import LOG_FLAGS, open_log
from shoal.errors import InvalidInput, NotFound, StorageFailure
from shoal.lazy import lazy
from shoal.local.lake import LocalLake, create_local, open_local, whole

if TYPE_CHECKING:
    from shoal.service import media, server, settings, state
else:  # `shoal -help` needs no server
    media = lazy("shoal.service.media")
    server = lazy("shoal.service.server")
    settings = lazy("shoal.service.settings")
    state = lazy("shoal.service.state")

VERB = Verb(
    "serve [flags]",
    "serve a lake over HTTP",
    (
        Flag("l", str, "localhost:9867", "address and port to listen on; port 0 is any that is free", "ADDR:PORT"),
        Flag("portfile", str, None, "a file to write the port to, once the service listens", "FILE"),
        Flag("brimfd", int, None, "end when this file descriptor does", "N"),
        Flag("cors.origin", str, [], "an origin whose pages may call the service; may be given several times", "O"),
        Flag("defaultfmt", str, "zson", "format of answers to those who accept anything", "FORMAT"),
        Flag("manage", "duration", None, "compact what is worth it, again and again after this time"),
        Flag("spark", bool, False, "start Spark along with the service, not with the first query that needs it"),
        Flag("groupcommit", bool, True, "let loads to one branch that come together share one write to its journal"),
        Flag("rootcontentfile", str, None, "a file to show at /", "FILE"),
        Flag("tls.cert", str, None, "a certificate, or chain of them, in PEM: the service speaks https", "FILE"),
        Flag("tls.key", str, None, "the key of the certificate", "FILE"),
        Flag("limit.body", "size", 100 << 30, "most bytes of a body"),
        Flag("limit.time", "duration", 300.0, "longest time of a query; 0s is any"),
        Flag("limit.rows", "count", 0, "most values that a query gives; 0 is any number"),
        Flag("limit.memory", "size", 2 << 30, "memory of a query, beyond which it goes to disk or ends"),
        Flag("limit.queries", "count", 32, "queries that run at a time"),
        Flag("limit.caller", "count", 16, "queries of one caller that run at a time"),
        *AUTH_FLAGS,
        *LOG_FLAGS,
        *LAKE_FLAGS,
    ),
    "A lake that is not there yet is created. `shoal -lake http://localhost:9867 ls` and all other commands work\n"
    "through the service; docs/service.md has its API.",
    ("shoal serve", "shoal serve -lake s3://bucket/lake -l :9867 -auth.enabled -tls.cert a.pem -tls.key a.key"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise InvalidInput("no arguments allowed (name the lake with -lake)")
    host, port = parse_address(args["l"])
    auth = auth_settings(args, host)
    limits = settings.QueryLimits(
        Limits(args["limit.time"] or None, args["limit.rows"] or None, args["limit.memory"] or None),
        at_once=max(1, args["limit.queries"]),
        per_caller=max(1, args["limit.caller"]),
    )
    chosen = settings.Settings(
        default_format=media.default_format(args["defaultfmt"]),
        origins=tuple(args["cors.origin"]),
        root_content=_read(args["rootcontentfile"]),
        largest_body=args["limit.body"],
        limits=limits,
    )
    if (args["tls.cert"] is None) != (args["tls.key"] is None):
        raise InvalidInput("-tls.cert and -tls.key come together")
    with open_log(args) as log:
        how = server.Listening(
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
        server.serve(state.Service(lake, chosen, auth, log), how)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`, `:port` or `[::1]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise InvalidInput(f"invalid value {text!r} for flag -l (such as localhost:9867)")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _open(location: str) -> LocalLake:
    if location.startswith(("http://", "https://")):
        raise InvalidInput(f"{location}: a service cannot serve another service (name a path or the URI of a store)")
    try:
        return open_local(location)
    except NotFound:
        return create_local(location)


def _read(path: str | None) -> bytes | None:
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None
