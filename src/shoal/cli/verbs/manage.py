"""`shoal manage`: compact pools by a policy, once or at intervals."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from shoal.cli.command import Verb, stop_signals
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.head import parse_head
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.query_flags import WORK_FLAGS
from shoal.cli.service_flags import LOG_FLAGS, collect_garbage, open_log
from shoal.errors import InvalidInput, NotFound, StorageFailure
from shoal.local.manage import Policy, PoolPolicy, manage, monitor, parse_policy

VERB = Verb(
    "manage [flags]",
    "compact the pools that need it, once or at intervals",
    (
        Flag("config", str, None, "read the policy from this YAML file", "FILE"),
        Flag("pool", str, [], "pool or pool@branch to manage; may be repeated (default all pools)", "POOL"),
        Flag("interval", "duration", None, "time between rounds of -monitor (default 1m)"),
        Flag("monitor", bool, False, "run until interrupted"),
        Flag("vectors", bool, False, "accepted for scripts"),
        *WORK_FLAGS,
        *LOG_FLAGS,
        *LAKE_FLAGS,
    ),
    "Compacts data objects that overlap, and small ones that are next to each other. A policy looks like this; all of\n"
    "it is optional, and flags override it:\n\n"
    "  interval: 5m\n"
    "  engine: spark\n"
    "  pools:\n"
    "    - pool: logs\n"
    "      branch: main",
    ("shoal manage", "shoal manage -monitor -interval 10m -pool logs -pool metrics@live"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError("no arguments allowed (name a pool with -pool)")
    collect_garbage()
    policy = _policy(args)
    lake = open_lake(args)
    with open_log(args) as log:
        if args["monitor"]:
            with stop_signals() as over:
                monitor(lake, policy, log, over.wait)
        else:
            manage(lake, policy, log)


def _policy(args: Parsed) -> Policy:
    policy = Policy() if args["config"] is None else _read_policy(args["config"])
    if args["pool"]:
        policy = replace(policy, pools=tuple(_pool_policy(policy, word, args) for word in dict.fromkeys(args["pool"])))
    if args["interval"] is not None:
        policy = replace(policy, interval=args["interval"])
    if args["engine"] is not None:
        policy = replace(policy, engine=args["engine"])
    if policy.interval <= 0:
        raise UsageError("the interval must be positive (such as -interval 5m)")
    return policy


def _pool_policy(policy: Policy, word: str, args: Parsed) -> PoolPolicy:
    """The policy for the pool in a flag. The branch is that of the flag, or else that of the policy."""
    head = parse_head(word, args)
    named = (each for each in policy.pools if each.pool == word)
    return next(named, PoolPolicy(head.pool, head.commitish))


def _read_policy(path: str) -> Policy:
    try:
        text = Path(path).read_text()
    except FileNotFoundError:
        raise NotFound(f"{path}: file does not exist") from None
    except (OSError, UnicodeDecodeError) as e:
        raise StorageFailure(f"{path}: cannot be read as text: {e}") from None
    try:
        return parse_policy(_load_yaml(text))
    except InvalidInput as e:
        raise InvalidInput(f"{path}: {e}") from None


def _load_yaml(text: str) -> Any:
    yaml: Any = import_module("yaml")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise InvalidInput(" ".join(str(e).split())) from None
