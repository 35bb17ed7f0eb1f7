"""The output format `lake`: metadata for people. Each type of metadata record has its own form.

The named type of a value decides its form. Any other value, and one whose fields do not match its type name, is
written as ZSON. The log begins with the tips of branches: the writer keeps them and shows them beside their commits.
The actions of a commit come before it and are shown below it, and so are the commits that a merge brought in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from shoal.formats.streams import Sink, WriteOptions
from shoal.ids import SIZE, to_text
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.fields import NO_ID, get_or
from shoal.model.literals import SECOND, format_time
from shoal.model.node import frozen
from shoal.model.text import Formatter, format_value
from shoal.model.values import Value
from shoal.printable import printable

if TYPE_CHECKING:
    from shoal.cli import graph
else:
    graph = lazy("shoal.cli.graph")

_INDENT = 4
_WIDTH = 80
_MOST_BROUGHT = 20
"""How many commits are listed below a merge."""
_NONE = to_text(NO_ID)
_YELLOW, _RESET = "\x1b[33m", "\x1b[0m"
_UNITS = (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6))


@frozen
class LakeOptions(WriteOptions):
    """Write options with HEAD."""

    head: str = ""
    """The branch or commit of HEAD, which is marked in the output."""
    draws_graph: bool = False
    """Whether commits have the graph of branches and merges beside them."""


class _OtherShape(Exception):
    """A value has the type name of a metadata record, but not its fields."""


class Writer:
    """Writes values in the format `lake`."""

    def __init__(self, out: Sink, options: WriteOptions = WriteOptions()) -> None:
        self._out = out
        self._formatter = Formatter(0)
        self._head = printable(options.head) if isinstance(options, LakeOptions) else ""
        draws_graph = isinstance(options, LakeOptions) and options.draws_graph
        self._graph = graph.Graph() if draws_graph else None
        self._has_color = options.color
        self._tips: dict[str, list[str]] = {}
        self._tags: dict[str, list[str]] = {}
        self._actions: dict[str, list[str]] = {}

    def write(self, value: Value) -> None:
        """Write a value on its own lines."""
        show = KINDS.get(value.type.name) if isinstance(value.type, t.Named) else None
        try:
            text = self._zson(value) if show is None else show(self, value)
        except _OtherShape:
            text = self._zson(value)
        self._out.write(text.encode())

    def close(self) -> None:
        """Write the actions whose commits did not follow."""
        for lines in self._actions.values():
            self._out.write("".join(lines).encode())
        self._actions.clear()

    def _zson(self, value: Value) -> str:
        return f"{self._formatter.format(value)}\n"

    # ---- kinds

    def pool(self, value: Value) -> str:
        """`logs 2Z... key ts order desc`."""
        layout = _get(value, "layout")
        keys, order = _paths(_get(layout, "keys")), _data(layout, "order")
        return f"{_data(value, 'name')} {_id(value, 'id')} key {keys} order {order}\n"

    def branch(self, value: Value) -> str:
        """`logs@main commit 2Z...`, with a mark at HEAD."""
        return self._ref(value, _get(value, "branch"))

    def tag(self, value: Value) -> str:
        """`logs@v1 commit 2Z...`."""
        return self._ref(value, _get(value, "tag"))

    def _ref(self, value: Value, ref: Value) -> str:
        name, commit = _data(ref, "name"), _id(ref, "commit")
        mark = " (HEAD)" if self._head and self._head in (name, commit) else ""
        return f"{_data(_get(value, 'pool'), 'name')}@{name} {self._painted(f'commit {commit}{mark}')}\n"

    def data_object(self, value: Value) -> str:
        """One line with the size, one with the range of keys."""
        return _object(value)

    def partition(self, value: Value) -> str:
        """One line with the range of keys, and the objects below."""
        return f"{_bounds(value)}\n" + "".join(_object(o, 2) for o in _elements(_get(value, "objects")))

    def pool_partition(self, value: Value) -> str:
        """`2024-01-01T00:00:00Z 2 objects 33.49KB bytes 100 records`."""
        shown = "unknown" if value.field("value") is None else format_value(_get(value, "value"))
        return f"{shown} {_data(value, 'objects')} objects {_size(value)}\n"

    def change(self, value: Value) -> str:
        """`+` or `-` and the object or value that was added or removed."""
        item = _get(value, "value")
        is_object = isinstance(item.type, t.Named) and item.type.name == "data.Object"
        return f"{_data(value, 'mark')} {_object(item) if is_object else self._zson(item)}"

    def tip(self, value: Value) -> str:
        """Nothing yet: the branch is shown with its commit."""
        self._tips.setdefault(_id(value, "Commit"), []).append(_data(value, "Name"))
        return ""

    def tag_tip(self, value: Value) -> str:
        """Nothing yet: the tag is shown with its commit."""
        self._tags.setdefault(_id(value, "Commit"), []).append(_data(value, "Name"))
        return ""

    def add(self, value: Value) -> str:
        """Nothing yet: the added object is listed below its commit."""
        o = _get(value, "object")
        line = f"{' ' * _INDENT}Add {_id(o, 'id')} {_size(o)}\n"
        self._actions.setdefault(_id(value, "commit"), []).append(line)
        return ""

    def delete(self, value: Value) -> str:
        """Nothing yet: the deleted object is listed below its commit."""
        line = f"{' ' * _INDENT}Delete {_id(value, 'id')}\n"
        self._actions.setdefault(_id(value, "commit"), []).append(line)
        return ""

    def commit(self, value: Value) -> str:
        """Id, author, date, message and actions of a commit."""
        ident = _id(value, "id")
        header = self._painted(f"commit {ident}{self._names(ident)}")
        date = format_time(_data(value, "date") // SECOND * SECOND)
        message = wrap_paragraphs(_data(value, "message"), _WIDTH, " " * _INDENT)
        actions = "".join(self._actions.pop(ident, ()))
        blocks = "".join(f"{block}\n" for block in (message and f"{message}\n", actions, _brought(value)) if block)
        author, records = _data(value, "author"), _records(value) + _transaction(value)
        text = f"{header}\nAuthor: {author}\nDate:   {date}\n{records}\n{blocks}"
        if self._graph is None:
            return text
        return "".join(f"{line}\n" for line in self._graph.draw(ident, _parents(value), text.split("\n")[:-1]))

    def hidden_commit(self, value: Value) -> str:
        """The graph that leads past a commit."""
        commit = _get(value, "commit")
        rows = [] if self._graph is None else self._graph.skip(_id(commit, "id"), _parents(commit))
        return "".join(f"{row}\n" for row in rows)

    def transaction(self, value: Value) -> str:
        """Id, state, author, date, message and commits of a transaction over several pools."""
        header = self._painted(f"transaction {_id(value, 'id')} ({_data(value, 'state')})")
        date = f"Date:   {format_time(_data(value, 'ts') // SECOND * SECOND)}\n"
        author = f"Author: {_data(value, 'author')}\n" if _data(value, "author") else ""
        message = wrap_paragraphs(_data(value, "message"), _WIDTH, " " * _INDENT)
        commits = "".join(sorted(map(_part, _elements(_get(value, "parts")))))
        blocks = "".join(f"{block}\n" for block in (message and f"{message}\n", commits) if block)
        return f"{header}\n{author}{date}\n{blocks}"

    def open_transaction(self, value: Value) -> str:
        """Id, expiry and branches of a transaction that is open."""
        header = self._painted(f"transaction {_id(value, 'id')} ({_data(value, 'state')})")
        expires = format_time(_data(value, "expires") // SECOND * SECOND)
        places = "".join(f"{' ' * _INDENT}{printable(str(each.data))}\n" for each in _elements(_get(value, "places")))
        return f"{header}\nExpires: {expires}\n\n{places}\n"

    def _names(self, ident: str) -> str:
        """The branches that point at a commit, with HEAD marked, and its tags."""
        names = [f"HEAD -> {name}" if name == self._head else name for name in self._tips.get(ident, ())]
        if not names and ident == self._head:
            names = ["HEAD"]
        names += [f"tag: {name}" for name in self._tags.get(ident, ())]
        return f" ({', '.join(names)})" if names else ""

    def _painted(self, text: str) -> str:
        return f"{_YELLOW}{text}{_RESET}" if self._has_color else text


KINDS: dict[str, Callable[[Writer, Value], str]] = {
    "pools.Config": Writer.pool,
    "lake.BranchMeta": Writer.branch,
    "lake.TagMeta": Writer.tag,
    "lake.BranchTip": Writer.tip,
    "lake.TagTip": Writer.tag_tip,
    "lake.Change": Writer.change,
    "data.Object": Writer.data_object,
    "meta.Partition": Writer.partition,
    "lake.Partition": Writer.pool_partition,
    "lake.HiddenCommit": Writer.hidden_commit,
    "lake.OpenTransaction": Writer.open_transaction,
    "lake.Transaction": Writer.transaction,
    "Commit": Writer.commit,
    "Add": Writer.add,
    "Delete": Writer.delete,
}
"""Formatters by type name."""


def _brought(merge: Value) -> str:
    """A line for each commit that a merge brought in, as far as there are not too many."""
    field = merge.field("brought")
    commits = [] if field is None else list(_elements(field))
    tab = " " * _INDENT
    lines = [f"{tab}Merged {_id(c, 'id')} {_data(c, 'author')}: {_subject(c)}\n" for c in commits[:_MOST_BROUGHT]]
    more = len(commits) - len(lines)
    return "".join(lines) + (f"{tab}and {more} more (see: shoal log -all)\n" if more else "")


def _records(commit: Value) -> str:
    """A line such as `+120 -3 ~7`: the records that a commit added, deleted and updated. "" if nobody knows."""
    if get_or(commit, "maintenance", False):
        return "Records: moved only\n"
    counts = commit.field("records")
    if counts is None or counts.data is None:
        return ""
    marks = (("+", "added"), ("-", "deleted"), ("~", "updated"))
    shown = [f"{mark}{_data(counts, name)}" for mark, name in marks if _data(counts, name)]
    return f"Records: {' '.join(shown)}\n" if shown else ""


def _transaction(commit: Value) -> str:
    """A line that names the transaction over several pools that a commit is part of; "" if it is part of none."""
    return "" if commit.field("transaction") is None else f"Transaction: {_id(commit, 'transaction')}\n"


def _subject(commit: Value) -> str:
    """The first line of a message."""
    return str(_data(commit, "message")).strip().partition("\n")[0]


def _parents(commit: Value) -> list[str]:
    """The parent of a commit and what it merged, as far as there are such."""
    idents = (_id(commit, name) for name in ("parent", "merged") if commit.field(name) is not None)
    return [ident for ident in idents if ident != _NONE]


def _part(part: Value) -> str:
    """What a transaction did on one branch."""
    return f"{' ' * _INDENT}{_data(part, 'name')}@{_data(part, 'branch')} commit {_id(part, 'commit')}\n"


def _object(o: Value, indent: int = 0) -> str:
    tab = " " * indent
    return f"{tab}{_id(o, 'id')} {_size(o)}\n{tab}   {_bounds(o)}\n"


def _size(o: Value) -> str:
    return f"{abbreviate(_data(o, 'size'))} bytes {_data(o, 'count')} records"


def _bounds(value: Value) -> str:
    return f"min {format_value(_get(value, 'min'))} max {format_value(_get(value, 'max'))}"


def abbreviate(size: int) -> str:
    """`1B`, `33.49KB`, `2MB`; exact below 10 KB."""
    for unit, amount in _UNITS:
        if size >= amount:
            return _in_unit(size, unit, amount)
    return _in_unit(size, "KB", 1000) if size >= 10_000 else f"{size}B"


def _in_unit(size: int, unit: str, amount: int) -> str:
    return f"{size // amount}{unit}" if size % amount == 0 else f"{size / amount:.2f}{unit}"


# ---- parts of values


def _get(value: Value, name: str) -> Value:
    field = value.field(name)
    if field is None:
        raise _OtherShape
    return field


_DATA_TYPES = {
    "name": str, "Name": str, "author": str, "message": str, "order": str, "mark": str,
    "date": int, "added": int, "deleted": int, "updated": int, "count": int, "size": int, "objects": int,
    "state": str, "branch": str, "ts": int, "expires": int,
}  # fmt: skip


def _data(value: Value, name: str) -> Any:
    data = _get(value, name).data
    if not isinstance(data, _DATA_TYPES[name]):
        raise _OtherShape
    return printable(data, lines=name == "message") if isinstance(data, str) else data


def _id(value: Value, name: str) -> str:
    data = _get(value, name).data
    if not isinstance(data, bytes) or len(data) != SIZE:
        raise _OtherShape
    return to_text(data)


def _paths(value: Value) -> str:
    inner = t.inner_of(value.type)
    if inner is None or t.inner_of(inner) is not t.STRING:
        raise _OtherShape
    return printable(",".join(".".join(path) or "this" for path in value.data or ()))


def _elements(value: Value) -> Iterator[Value]:
    inner = t.inner_of(value.type)
    if inner is None or value.data is None:
        raise _OtherShape
    return (Value(inner, data).under() for data in value.data)


# ---- text in lines

_TOO_LONG = 100_000
"""The cost of a line that exceeds the width because of a long word."""


def wrap_paragraphs(text: str, width: int, indent: str = "") -> str:
    """Wrap each paragraph and indent every line. Blank lines separate paragraphs and are dropped at both ends."""
    paragraphs = (wrap(paragraph.strip(), width) for paragraph in text.split("\n\n"))
    lines = "\n\n".join(paragraphs).strip("\n").split("\n")
    return "\n".join(f"{indent}{line}" if line else "" for line in lines)


def wrap(text: str, width: int) -> str:
    """Wrap one paragraph so that the sum of the squares of the free space at the line ends is minimal.

    >>> print(wrap("to be or not to be, that is the question", 16))
    to be or not to
    be, that is the
    question
    """
    words = text.replace("\n", " ").split(" ")
    costs, breaks = [0] * len(words), [len(words)] * len(words)
    for first in range(len(words) - 1, -1, -1):
        costs[first], breaks[first] = _best_line(words, first, width, costs)
    lines, at = [], 0
    while at < len(words):
        lines.append(" ".join(words[at : breaks[at]]))
        at = breaks[at]
    return "\n".join(lines)


def _best_line(words: list[str], first: int, width: int, costs: list[int]) -> tuple[int, int]:
    """The least cost of the text from a word on, and the end of its first line at that cost."""
    best = None
    length = -1
    for end in range(first + 1, len(words) + 1):
        length += 1 + len(words[end - 1])
        if best is not None and length > width:
            break
        if end == len(words):
            cost = 0 if length <= width else _TOO_LONG
        else:
            cost = (width - length) ** 2 + (_TOO_LONG if length > width else 0) + costs[end]
        if best is None or cost < best[0]:
            best = cost, end
    return best or (0, len(words))
