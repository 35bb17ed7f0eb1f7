"""`shoal log`: list commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shoal.api.codecs import id_of, show_commit, show_counts, texts
from shoal.api.infos import CommitInfo, RefInfo
from shoal.api.pool import Pool
from shoal.cli.command import Verb
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.head import head_of
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.output import open_writer, output_flags, output_format
from shoal.ids import parse
from shoal.model import types as t
from shoal.model.fields import KSUID, named, time_value
from shoal.model.values import Value, string

VERB = Verb(
    "log [flags]",
    "list the commits of a branch, newest first",
    (
        Flag("all", bool, False, "list the commits of all branches and tags"),
        Flag("graph", bool, False, "draw branches and merges beside the commits"),
        Flag("author", str, None, "list commits by authors whose name contains this; * is any text", "PATTERN"),
        Flag("since", str, None, "list commits after this time, date, duration before now, or commit", "WHEN"),
        Flag(
            "path",
            str,
            None,
            "list commits that changed this field (a.b or this['a b']), or records that have it",
            "FIELD",
        ),
        Flag("n", "count", None, "list at most this many commits"),
        *output_flags("lake"),
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "A merge is followed by the commits that it brought in. With -all and -graph these are listed by themselves, as\n"
    "any other commit. Formats other than lake list a record for each commit.",
    ("shoal log", "shoal log -graph -all", "shoal log -author ada -n 5 -j", "shoal log -since 7d -path user.id"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError("no arguments allowed (name a branch with -use pool@branch)")
    is_for_people = output_format(args, terminal=False)[0] == "lake"
    if args["graph"] and not is_for_people:
        raise UsageError("a graph is drawn in the format lake only (leave out -graph, or -f, -z and -j)")
    head = head_of(args)
    pool = open_lake(args).pool(head.pool)
    branches, tags = pool.branches(), pool.tags()
    commits = _commits(args, pool, head.commitish, is_for_people)
    with open_writer(args, head.commitish, draws_graph=args["graph"]) as writer:
        for value in _for_people(commits, branches, tags) if is_for_people else _records(commits, branches, tags):
            writer.write(value)


def _commits(args: Parsed, pool: Pool, commitish: str, is_for_people: bool) -> Iterator[tuple[CommitInfo, bool]]:
    """The commits, each with whether it is listed: a graph leads past those that are not."""
    is_graph, is_all = args["graph"], args["all"]
    log = pool.log(
        commitish,
        ancestors=is_graph,
        all=is_all,
        author=args["author"],
        limit=args["n"],
        brought=is_for_people and not is_all and not is_graph,
        since=args["since"],
        path=args["path"],
        graph=is_graph,
    )
    return ((commit, commit.is_listed) for commit in log)


# ---- as values


def _for_people(
    commits: Iterable[tuple[CommitInfo, bool]], branches: Iterable[RefInfo], tags: Iterable[RefInfo]
) -> Iterator[Value]:
    """What the format lake shows: the names of commits first, then the commits."""
    for kind, refs in (("lake.BranchTip", branches), ("lake.TagTip", tags)):
        for ref in refs:
            if ref.commit is not None:
                yield named(kind, ("Name", string(ref.name)), ("Commit", Value(KSUID, parse(ref.commit))))
    for commit, is_listed in commits:
        value = show_commit(commit)
        yield value if is_listed else named("lake.HiddenCommit", ("commit", value))


def _records(
    commits: Iterable[tuple[CommitInfo, bool]], branches: Iterable[RefInfo], tags: Iterable[RefInfo]
) -> Iterator[Value]:
    """Commits as records that all have the same fields."""
    for commit, _ in commits:
        yield named(
            "Commit",
            ("id", id_of(commit.id)),
            ("parent", _optional_id(commit.parent)),
            ("merged", _optional_id(commit.merged)),
            ("author", string(commit.author)),
            ("date", time_value(commit.ts)),
            ("message", string(commit.message)),
            ("meta", commit.meta),
            ("records", show_counts(commit.records)),
            ("maintenance", Value(t.BOOL, commit.is_maintenance)),
            ("transaction", _optional_id(commit.transaction)),
            ("branches", _names(commit, branches)),
            ("tags", _names(commit, tags)),
        )


def _names(commit: CommitInfo, refs: Iterable[RefInfo]) -> Value:
    return texts(ref.name for ref in refs if ref.commit == commit.id)


def _optional_id(ident: str | None) -> Value:
    return Value(KSUID, None if ident is None else parse(ident))
