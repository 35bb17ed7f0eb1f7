"""`shoal transaction`: change branches of several pools together.

Each command goes on with what the one before has saved. Words and flags depend on the first word, so that the flags of
one are refused by the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from shoal.api.codecs import id_of, texts
from shoal.api.lake import Lake
from shoal.api.lake_transaction import LakeTransaction
from shoal.api.options import ReadOptions
from shoal.api.results import Results
from shoal.cli import saved_transactions
from shoal.cli.command import Verb, plural, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.head import parse_head
from shoal.cli.lake import open_lake, read_note, write_meta
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS
from shoal.cli.output import OUTPUT_FLAGS, open_writer
from shoal.cli.query_flags import INPUT_FLAGS, check_input, read_options
from shoal.cli.saved_transactions import Saved
from shoal.cli.terminal import print_text
from shoal.errors import Conflict, InvalidInput, NotFound, ReadOnly, ShoalError
from shoal.model.fields import named, time_value
from shoal.model.values import Value, string
from shoal.suggestions import did_you_mean

_ID_FLAG = Flag("t", str, None, "id of the transaction (default: the only one that is open on the lake)", "ID")
_EXPIRES_FLAG = Flag("expires", "duration", None, "begin: time after which it can no longer be committed (default 24h)")
_WHERE_FLAG = Flag("where", str, None, "update, delete: the records that match this filter", "FILTER")
_KEYS_FLAG = Flag("keys", str, None, "delete: the records with the primary keys in this file (- for stdin)", "FILE")
_LOAD_FLAGS = (
    *INPUT_FLAGS,
    Flag("json.array", ("records", "value"), "records", "load an array of records as records, or as one value"),
)
VERB = Verb(
    "transaction [flags] begin | load | upsert | update | delete | query | sql | commit | abort | ls",
    "change branches of several pools together, or not at all",
    (_ID_FLAG, _EXPIRES_FLAG, _WHERE_FLAG, _KEYS_FLAG, *COMMIT_FLAGS, *_LOAD_FLAGS, *OUTPUT_FLAGS, *LAKE_FLAGS),
    "  begin PLACE...                begin one on these branches, such as orders or items@dev; prints its id\n"
    "  load PLACE FILE...            stage files of any format\n"
    "  upsert PLACE FILE...          stage records that replace those with the same primary key\n"
    "  update PLACE -where FILTER PROGRAM\n"
    "                                stage a change of records by a program\n"
    "  delete PLACE ID... | -where FILTER | -keys FILE\n"
    "                                stage the deletion of data objects or records\n"
    "  query PROGRAM, sql STATEMENT  ask the lake as the transaction sees it, and stage what they load or change\n"
    "  commit                        change all branches at the same moment\n"
    "  abort                         discard what is staged\n"
    "  ls                            list those that this user has open, and those of the lake that are decided\n\n"
    "What is staged stays in the lake, and is seen by this transaction alone. An open transaction is a file in\n"
    ".shoal_transactions beside .shoal_head.",
    (
        "shoal transaction begin orders items@dev",
        "shoal transaction load orders new.json",
        "shoal transaction update items@dev -where 'id==7' 'put stock:=stock-1'",
        "shoal transaction commit -message 'one sold'",
    ),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        raise UsageError(f"no command given (one of: {', '.join(_ACTIONS)})")
    word, *rest = args.words
    if word not in _ACTIONS:
        hint = did_you_mean(word, _ACTIONS) or f" (one of: {', '.join(_ACTIONS)})"
        raise UsageError(f"shoal transaction: unknown command {word!r}{hint}")
    for flags, words in _FLAGS_OF:
        if word not in words and (wrong := next((flag.name for flag in flags if flag.name in args.given), None)):
            raise UsageError(f"-{wrong} is for: shoal transaction {', '.join(words)}")
    _ACTIONS[word](args, rest)


def _begin(args: Parsed, words: Sequence[str]) -> None:
    if not words:
        raise UsageError("begin: which branches? (such as: shoal transaction begin orders items@dev)")
    saved_transactions.forget_expired()
    places = [str(parse_head(word, args)) for word in words]
    lake = open_lake(args)
    transaction = lake.begin(places, expires=args["expires"])
    try:
        saved_transactions.write(Saved.of(lake.uri, transaction))
    except BaseException:
        transaction.give_up()
        raise
    print_text(transaction.id)


# ---- staging


def _load(args: Parsed, words: Sequence[str]) -> None:
    place, files = _place_and_files(args, words, "load")
    with _staging(args) as transaction:
        transaction.load(place, files, format=args["i"], options=_load_options(args))
    say(args, f"staged on {place}")


def _upsert(args: Parsed, words: Sequence[str]) -> None:
    place, files = _place_and_files(args, words, "upsert")
    with _staging(args) as transaction:
        transaction.upsert(place, files, format=args["i"], options=_load_options(args))
    say(args, f"staged on {place}")


def _load_options(args: Parsed) -> ReadOptions:
    return replace(read_options(args), json_array=args["json.array"])


def _place_and_files(args: Parsed, words: Sequence[str], verb: str) -> tuple[str, list[str]]:
    if len(words) < 2:
        raise UsageError(f"{verb}: a branch and at least one file must be given (write: {verb} PLACE FILE...)")
    place, *files = words
    for path in files:
        check_input(path)
    return str(parse_head(place, args)), files


def _update(args: Parsed, words: Sequence[str]) -> None:
    if len(words) != 2 or args["where"] is None:
        raise UsageError("update: which records, and how? (write: update PLACE -where FILTER PROGRAM)")
    place = str(parse_head(words[0], args))
    with _staging(args) as transaction:
        transaction.update(place, args["where"], words[1])
    say(args, f"staged on {place}")


def _delete(args: Parsed, words: Sequence[str]) -> None:
    where, keys, ids = args["where"], args["keys"], words[1:]
    if not words or sum((where is not None, keys is not None, bool(ids))) != 1:
        raise UsageError("delete: what, and where? (write: delete PLACE -where FILTER, -keys FILE or ID...)")
    place = str(parse_head(words[0], args))
    with _staging(args) as transaction:
        count = None if ids or args["q"] else _count(transaction, place)
        transaction.delete(place, ids, where=where, keys=keys)
        deleted = None if count is None else count - _count(transaction, place)
    say(args, f"staged on {place}")
    if deleted is not None:
        say(args, f"{plural(deleted, 'record')} deleted")


def _count(transaction: LakeTransaction, place: str) -> int:
    """How many records a branch has, as the transaction sees it."""
    return sum(value.data for value in transaction.part(place).query("count()"))


@contextmanager
def _staging(args: Parsed) -> Iterator[LakeTransaction]:
    """A transaction that goes on; what the block stages is kept if it ends well."""
    lake = open_lake(args)
    with saved_transactions.held(lake.uri, args["t"]) as held:
        transaction = _resumed(lake, held.saved)
        yield transaction
        held.keep(transaction)


def _resumed(lake: Lake, saved: Saved) -> LakeTransaction:
    try:
        return lake.resume(saved.text)
    except InvalidInput as e:
        raise _with_way_out(InvalidInput(f"{saved.path}: {e}"), saved) from e
    except (Conflict, NotFound) as e:
        raise _with_way_out(e, saved) from e


def _with_way_out(error: ShoalError, saved: Saved) -> ShoalError:
    return type(error)(f"{error}; to give it up: shoal transaction abort -t {saved.id}")


# ---- asking


def _query(args: Parsed, words: Sequence[str]) -> None:
    program = _one(words, "query: give one program as one argument (quote it)")
    with _staging(args) as transaction:
        results = transaction.query(program)  # what it reads of other pools is kept: they stay as they are now
    _write(args, results)


def _sql(args: Parsed, words: Sequence[str]) -> None:
    statement = _one(words, "sql: give one statement as one argument (quote it)")
    with _staging(args) as transaction:
        _write(args, transaction.sql(statement))


def _one(words: Sequence[str], otherwise: str) -> str:
    if len(words) != 1:
        raise UsageError(otherwise)
    return words[0]


def _write(args: Parsed, results: Results) -> None:
    with results, open_writer(args) as writer:
        for value in results:
            writer.write(value)


# ---- ending


def _commit(args: Parsed, words: Sequence[str]) -> None:
    _no_words(words, "commit")
    note, lake = read_note(args), open_lake(args)
    with saved_transactions.held(lake.uri, args["t"]) as held:
        transaction = _resumed(lake, held.saved)
        try:
            commits = transaction.commit(**note)
        except (Conflict, InvalidInput, NotFound) as e:
            raise _with_way_out(e, held.saved) from e
        held.remove()
    for place, commit in commits.items():
        say(args, f"{commit} committed to {place}")


def _abort(args: Parsed, words: Sequence[str]) -> None:
    _no_words(words, "abort")
    lake = open_lake(args)
    with saved_transactions.held(lake.uri, args["t"]) as held:
        with suppress(Conflict, InvalidInput, NotFound, ReadOnly):  # it has expired, or cannot be gone on with
            lake.resume(held.saved.text).abandon()
        held.remove()
    say(args, f"transaction aborted: {held.saved.id}")


def _ls(args: Parsed, words: Sequence[str]) -> None:
    _no_words(words, "ls")
    saved_transactions.forget_expired()
    lake = open_lake(args)
    args.values["f"] = args["f"] or "lake"
    write_meta(args, lake, "from :transactions", before=map(_shown, saved_transactions.open_on(lake.uri)))


def _no_words(words: Sequence[str], verb: str) -> None:
    if words:
        raise UsageError(f"{verb}: too many arguments: unexpected {' '.join(words)!r}")


def _shown(saved: Saved) -> Value:
    """An open transaction as a value."""
    return named(
        "lake.OpenTransaction",
        ("id", id_of(saved.id)),
        ("state", string("open")),
        ("expires", time_value(int(saved.expires * 1e9))),
        ("places", texts(saved.places)),
    )


_ACTIONS: dict[str, Callable[[Parsed, Sequence[str]], None]] = {
    "begin": _begin,
    "load": _load,
    "upsert": _upsert,
    "update": _update,
    "delete": _delete,
    "query": _query,
    "sql": _sql,
    "commit": _commit,
    "abort": _abort,
    "ls": _ls,
}
_FLAGS_OF: tuple[tuple[Sequence[Flag], tuple[str, ...]], ...] = (
    ((_ID_FLAG,), ("load", "upsert", "update", "delete", "query", "sql", "commit", "abort")),
    ((_EXPIRES_FLAG,), ("begin",)),
    ((_WHERE_FLAG,), ("update", "delete")),
    ((_KEYS_FLAG,), ("delete",)),
    (COMMIT_FLAGS, ("commit",)),
    (_LOAD_FLAGS, ("load", "upsert")),
    (OUTPUT_FLAGS, ("query", "sql", "ls")),
)
"""Which commands take which flags."""
