"""A model of a disk that may lose power: the states that may be left after each call.

A synced file can be gone, because its name is data of its directory and is durable only after a sync of that. A sync
that succeeds after one that failed proves nothing about data written before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, product
from math import prod
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, assert_never

TOP = 0
"""The node of the directory that existed before."""


class Named(NamedTuple):
    """An entry of a directory was set: by creating a file, making a directory, linking, or renaming to it."""

    folder: int
    name: str
    node: int
    is_folder: bool


class Unnamed(NamedTuple):
    """An entry of a directory was removed."""

    folder: int
    name: str


class Written(NamedTuple):
    """Bytes were added to a file."""

    node: int
    data: bytes


class Synced(NamedTuple):
    """All changes to a file or a directory are on the disk."""

    node: int


class SyncFailed(NamedTuple):
    """Changes to a file or a directory since its last sync may never reach the disk."""

    node: int


Event = Named | Unnamed | Written | Synced | SyncFailed
Tree = dict[str, bytes | None]
"""The contents of a directory by path; None is a directory."""


class Recorder:
    """Replaces the module `os`: executes calls, and records those that change the disk.

    `before` is called before each of them with the names of all calls so far, this one last. It may raise.
    """

    def __init__(self, top: Path, note: Callable[[Event], None], chunk: int = 1 << 30) -> None:
        self.before: Callable[[list[str]], None] = lambda calls: None
        self.calls: list[str] = []
        self._note = note
        self._chunk = chunk
        self._nodes = {str(top): TOP}
        self._folders = {TOP}
        self._unused = count(TOP + 1)
        self._open: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str | Path, flags: int, mode: int = 0o777) -> int:
        if not flags & (os.O_CREAT | os.O_DIRECTORY):
            return os.open(path, flags, mode)  # to read
        self._call("open")
        file = os.open(path, flags, mode)
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL, "a file that may have existed before is not recorded"
            self._name(path, next(self._unused))
        self._open[file] = self._nodes[str(path)]
        return file

    def close(self, file: int) -> None:
        os.close(file)  # even if it fails the descriptor is gone, as on Linux
        if self._open.pop(file, None) is not None:
            self._call("close")

    def write(self, file: int, data: bytes | memoryview) -> int:
        self._call("write")
        written = os.write(file, data[: self._chunk])
        self._note(Written(self._open[file], bytes(data[:written])))
        return written

    def fsync(self, file: int) -> None:
        node = self._open[file]
        try:
            self._call("fsync")
            os.fsync(file)
        except OSError:
            self._note(SyncFailed(node))
            raise
        self._note(Synced(node))

    def link(self, source: str | Path, target: str | Path) -> None:
        self._call("link")
        os.link(source, target)
        self._name(target, self._nodes[str(source)])

    def rename(self, source: str | Path, target: str | Path) -> None:
        """Either of the two changed entries may reach the disk alone, which is worse than on most disks."""
        self._call("rename")
        os.rename(source, target)
        self._name(target, self._nodes[str(source)])
        self._unname(source)

    def unlink(self, path: str | Path) -> None:
        self._call("unlink")
        os.unlink(path)
        self._unname(path)

    def mkdir(self, path: str | Path, mode: int = 0o777) -> None:
        self._call("mkdir")
        os.mkdir(path, mode)
        node = next(self._unused)
        self._folders.add(node)
        self._name(path, node)

    def is_folder(self, file: int) -> bool:
        """Whether an open file is a directory."""
        return self._open[file] in self._folders

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.before(self.calls)

    def _name(self, path: str | Path, node: int) -> None:
        folder, name = os.path.split(path)
        self._nodes[str(path)] = node
        self._note(Named(self._nodes[folder], name, node, node in self._folders))

    def _unname(self, path: str | Path) -> None:
        folder, name = os.path.split(path)
        del self._nodes[str(path)]
        self._note(Unnamed(self._nodes[folder], name))


@dataclass(slots=True)
class _File:
    content: bytes = b""
    synced: int = 0
    """Number of bytes on the disk."""
    is_broken: bool = False

    def may_be(self, random: Random) -> list[bytes]:
        """The possible contents: the synced bytes, then some of the others, then the end or zeros."""
        end = len(self.content)
        ends = {self.synced, end, random.randint(self.synced, end)}
        cut = {self.content[:n] for n in ends}
        return sorted(cut | {part.ljust(end, b"\0") for part in cut})


@dataclass(slots=True)
class _Folder:
    synced: dict[str, int] = field(default_factory=dict)
    pending: dict[str, list[int | None]] = field(default_factory=dict)
    """Changes since the last sync, None for removed. Any of them may be the last to reach the disk."""
    doubtful: dict[str, list[int | None]] = field(default_factory=dict)
    """Changes that were pending when a sync failed. No later sync proves that they are on the disk."""

    def set(self, name: str, node: int | None) -> None:
        self.pending.setdefault(name, []).append(node)

    def sync(self) -> None:
        for name, nodes in self.pending.items():
            self.doubtful.pop(name, None)
            self.synced.pop(name, None)
            if (last := nodes[-1]) is not None:
                self.synced[name] = last
        self.pending = {}

    def fail(self) -> None:
        for name, nodes in self.pending.items():
            self.doubtful.setdefault(name, []).extend(nodes)
        self.pending = {}

    def may_have(self) -> Iterator[tuple[str, list[int | None]]]:
        """Each name, with its possible nodes."""
        for name in {**self.synced, **self.doubtful, **self.pending}:
            nodes = (self.synced.get(name), *self.doubtful.get(name, ()), *self.pending.get(name, ()))
            yield name, list(dict.fromkeys(nodes))


_Entry = tuple[int, str]


class Disk:
    """The certain and the possible contents of a disk."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._folders = {TOP: _Folder()}

    def apply(self, event: Event) -> None:
        """Apply an event."""
        match event:
            case Named(folder, name, node, is_folder):
                if is_folder:
                    self._folders.setdefault(node, _Folder())
                else:
                    self._files.setdefault(node, _File())
                self._folders[folder].set(name, node)
            case Unnamed(folder, name):
                self._folders[folder].set(name, None)
            case Written(node, data):
                self._files[node].content += data
            case Synced(node):
                self._sync(node)
            case SyncFailed(node):
                if node in self._folders:
                    self._folders[node].fail()
                else:
                    self._files[node].is_broken = True
            case _:
                assert_never(event)

    def _sync(self, node: int) -> None:
        if node in self._folders:
            self._folders[node].sync()
        elif not self._files[node].is_broken:
            self._files[node].synced = len(self._files[node].content)

    def losses(self, limit: int, random: Random) -> Iterator[Tree]:
        """The possible states after a power loss now: all of them, or `limit` samples if there are more."""
        entries, contents = self._choices(random)
        options: list[list[Any]] = [*entries.values(), *contents.values()]
        if prod(map(len, options)) <= limit:
            picks: Iterator[tuple[Any, ...]] = product(*options)
        else:
            picks = (tuple(map(random.choice, options)) for _ in range(limit))
        for pick in picks:
            names, bytes_ = pick[: len(entries)], pick[len(entries) :]
            yield self._tree(dict(zip(entries, names, strict=True)), dict(zip(contents, bytes_, strict=True)))

    def _choices(self, random: Random) -> tuple[dict[_Entry, list[int | None]], dict[int, list[bytes]]]:
        """The possible entries and contents of everything below the top."""
        entries: dict[_Entry, list[int | None]] = {}
        contents: dict[int, list[bytes]] = {}
        folders = [TOP]
        for folder in folders:
            for name, nodes in self._folders[folder].may_have():
                entries[folder, name] = nodes
                for node in nodes:
                    if node in self._folders:
                        folders.append(node)
                    elif node is not None and node not in contents:
                        contents[node] = self._files[node].may_be(random)
        return entries, contents

    def _tree(self, entries: dict[_Entry, int | None], contents: dict[int, bytes]) -> Tree:
        paths = {TOP: ""}
        tree: Tree = {}
        for (folder, name), node in entries.items():  # those of a folder come after its own
            if node is None or folder not in paths:
                continue
            path = f"{paths[folder]}{name}"
            tree[path] = contents.get(node)
            if node in self._folders:
                paths[node] = path + "/"
        return tree


class Image:
    """A directory that shows one tree after another; only differences are written."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._tree: Tree = {}

    def show(self, tree: Tree) -> None:
        """Show this tree."""
        for path in sorted(self._tree, reverse=True):
            if path in tree and tree[path] == self._tree[path]:
                continue
            if self._tree[path] is None:
                (self.top / path).rmdir()
            else:
                (self.top / path).unlink()
        for path in sorted(tree):
            content = tree[path]
            if path in self._tree and self._tree[path] == content:
                continue
            if content is None:
                (self.top / path).mkdir()
            else:
                (self.top / path).write_bytes(content)
        self._tree = tree
