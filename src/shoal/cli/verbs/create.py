"""`shoal create`: create a pool."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.flags import Flag, Parsed
from shoal.cli.head import Head, write_head
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS

VERB = Verb(
    "create [flags] NAME",
    "create a pool",
    (
        Flag(
            "orderby", str, "ts:desc", "sort key of the pool, which cannot be changed: key[,key...][:asc|:desc]", "KEYS"
        ),
        Flag("S", "size", None, "target size of data objects (default 500MiB)"),
        Flag(
            "seekstride",
            "size",
            None,
            "size of the smallest part of a data object that is read by itself (default 64KiB)",
        ),
        Flag(
            "inline",
            "size",
            None,
            "size up to which the data of a commit is part of the commit (default 64KiB; 0: none)",
        ),
        Flag("primary", str, None, "primary key: fields that no two records of a branch share", "FIELD[,...]"),
        Flag("partition", str, "", "an expression, such as bucket(ts,1d): a data object has one value of it", "EXPR"),
        Flag("policy", str, "", "what becomes of records with equal keys, such as dedupe", "POLICY"),
        Flag("use", bool, False, "make the new pool the one in use"),
        *LAKE_FLAGS,
    ),
    "The pool starts with an empty branch called main. A key without a direction is ascending.",
    ("shoal create -use logs", "shoal create -orderby host,ts:asc metrics"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    name = one_word(args, "create requires one argument: the name of the pool")
    lake = open_lake(args)
    pool = lake.create(
        name,
        key=args["orderby"],
        object_size=args["S"],
        seek_stride=args["seekstride"],
        inline=args["inline"],
        primary=args["primary"] or (),
        partition=args["partition"],
        policy=args["policy"],
    )
    say(args, f"pool created: {name} {pool.id}")
    if args["use"]:
        head = Head(name)
        write_head(args, head)
        say(args, f'Switched to branch "{head.commitish}" on pool "{name}"')
