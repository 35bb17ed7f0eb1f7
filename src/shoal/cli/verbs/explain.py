"""`shoal explain`: show how a query would run."""

from __future__ import annotations

from shoal.api.infos import ScanPlan
from shoal.cli.command import Verb, optional_word
from shoal.cli.flags import Parsed, UsageError
from shoal.cli.head import find_head
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.query_flags import ENGINE_FLAGS, QUERY_FLAGS
from shoal.cli.terminal import print_text

VERB = Verb(
    "explain [flags] QUERY",
    "show what a query would read, and which engine would run it",
    (*ENGINE_FLAGS, *(flag for flag in QUERY_FLAGS if flag.name == "I"), *USE_FLAGS, *LAKE_FLAGS),
    "Does not run the query. Shows for each pool how many data objects would be read and why the others would be\n"
    "skipped, the engine, its SQL, and the operators that are left to the interpreter.",
    ("shoal explain 'from logs | status == 500 | count() by host'",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    program = optional_word(args)
    if program is None and not args["I"]:
        raise UsageError("explain: no query given")
    head = find_head(args)
    plans = open_lake(args).explain(
        program or "", head=None if head is None else str(head), includes=args["I"], engine=args["engine"]
    )
    if not plans:
        print_text("the query reads no pool")
    for plan in plans:
        print_text("\n".join(_lines(plan)))


def _lines(plan: ScanPlan) -> list[str]:
    lines = [
        f"pool: {plan.pool} at {plan.commit}",
        f"objects: {plan.pruning()}",
        f"bytes: {plan.size}",
        f"engine: {plan.engine} ({plan.why})",
    ]
    lines += [f"sql: {query}" for query in plan.queries]
    if plan.interpreted:
        lines.append(f"interpreter: {' | '.join(plan.interpreted)}")
    return lines
