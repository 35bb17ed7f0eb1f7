"""`python -m tools.golden_lake [changes | history] FILE`: writes a small lake with every part of the format, as a tar.

`tests/compat` has such lakes for each version of the format, and every later version must read them. With `changes` it
is one of pools whose records were changed: masks, data in commits, primary keys, partitions, merge policies. With
`history` it is one of transactions over several pools, also of writers that died, and of rows that compactions moved.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import shoal
from shoal.api.lake import Lake
from shoal.lake import pool_transactions
from shoal.lake.decisions import Decisions
from shoal.model.parse import parse_value

KINDS = """
{k:1,s:"text",b:true,f:1.5,t:2024-03-01T10:00:00.123456789Z,d:1h2.5s,ip:10.0.0.1,net:10.0.0.0/8}
{k:2,port:80(port=uint16),list:[1,2],set:|["x"]|,map:|{1:"one"}|,typ:<{a:int64}>,bytes:0x0102}
{k:3,u:"a"((int64,string)),e:%up(enum(up,down)),err:error("missing"),none:null(ip),deep:{er:{est:1}}}
{k:null(int64),s:"the key is null"}
{s:"there is no key"}
"just a string"
"""


def write(folder: Path) -> None:
    """Write the lake."""
    lake = shoal.create(str(folder))
    kinds = lake.create("kinds", key="k", seek_stride=40)
    kinds.load(KINDS.encode(), format="zson", author="ada", message="one of each", meta=parse_value('{a:1,b:|["x"]|}'))
    kinds.create_tag("v1")
    many = lake.create("many", key=["a", "b"], order="desc", object_size=1000)
    for i in range(40):
        many.load([{"a": i % 7, "b": i}, {"a": i}], author="ada", message=f"load {i}")
    many.compact([o.id for o in list(many.objects())[:10]], author="ada")
    many.create_branch("side")
    many.branch("side").delete(where="b == 3", author="ada")
    many.load([{"a": 100}], author="ada")
    many.merge("side", author="ada")
    many.branch("side").revert(next(iter(many.log("side"))).id, author="ada")
    gone = lake.create("gone", key="k")
    first = gone.load([{"k": 1}], author="ada")
    gone.load([{"k": 2}], author="ada")
    gone.delete([first], author="ada")
    gone.purge([first])
    gone.vacate("main")
    lake.create("dropped")
    lake.drop("dropped")
    lake.create("old-name", key="this")
    lake.rename("old-name", "new-name")


def write_changes(folder: Path) -> None:
    """Write the lake whose records were changed."""
    lake = shoal.create(str(folder))
    small = lake.create("small", key="k")  # within commits, and some of it moved into objects
    for i in range(20):
        small.load([{"k": i, "s": f"s{i}"}], author="ada")
    small.delete(where="k == 3", author="ada")
    rows = lake.create("rows", key="k", inline=0)
    rows.load([{"k": i, "n": i % 10 if i % 3 else str(i)} for i in range(60_000)], author="ada")
    rows.delete(where="k % 97 == 5", author="ada")  # a mask within its description
    rows.create_tag("few")
    rows.delete(where="k % 7 == 3 or k % 11 == 4 or k % 13 == 6", author="ada")  # a mask of its own
    keyed = lake.create("keyed", key="id", primary="id", inline=0)
    keyed.load([{"id": i, "v": "old"} for i in range(10)], author="ada")
    keyed.create_branch("side")
    keyed.upsert([{"id": 3, "v": "new"}, {"id": "x", "v": "text"}], author="ada")
    keyed.branch("side").delete(keys=[7], author="ada")
    keyed.merge("side", author="ada")
    keyed.update("id == 4", "put v := 'updated'", author="ada")
    altered = lake.create("altered", key="ts")
    altered.load([{"ts": 1, "id": 1}, {"ts": 2, "id": 2}], author="ada")
    altered.alter(primary="id")
    days = lake.create("days", key="k", partition="bucket(ts,1d)", inline=0)
    days.load(b"".join(b"{k:%d,ts:2024-01-0%dT10:00:00Z}" % (i, 1 + i % 3) for i in range(9)), author="ada")
    days.delete(partition="2024-01-02T00:00:00Z", author="ada")
    sums = lake.create("sums", key="host", policy="aggregate sum(n) by host", inline=0)
    for i in range(4):
        sums.load([{"host": f"h{i % 2}", "n": i}], author="ada")
    sums.compact([o.id for o in list(sums.objects())[:2]], author="ada")


class Died(BaseException):
    """The process ends here."""


def write_history(folder: Path) -> None:
    """Write the lake of transactions, and of rows that were moved."""
    lake = shoal.create(str(folder))
    lake.create("orders", key="id")
    items = lake.create("items", key="id", primary="id")
    items.load([{"id": i, "stock": 10} for i in range(4)], author="ada")
    for order in range(2):
        with lake.transaction(["orders", "items"], author="ada", message=f"order {order}") as t:
            t.load("orders", [{"id": order, "item": order}])
            t.upsert("items", [{"id": order, "stock": 9}])
    moved = lake.create("moved", key="k", inline=0)
    for number in range(3):
        moved.load([{"k": k, "load": number} for k in range(number, 30_000, 3)], author="ada")
    moved.delete(where="k % 1000 == 7", author="ada")
    moved.create_branch("before", "main")
    moved.compact([o.id for o in moved.objects()], author="ada")
    moved.delete(where="k % 1000 == 8", author="ada")
    sums = lake.create("sums", key="host", policy="aggregate sum(n) by host", inline=0)
    for i in range(4):
        sums.load([{"host": f"h{i % 2}", "n": i}], author="ada")
    sums.compact([o.id for o in sums.objects()], author="ada")
    # Of two writers that died, one had decided; the other had only told both pools what it was about to do.
    _die(lake, pool_transactions, "settle", {"id": 7, "item": 3}, {"id": 3, "stock": 9})
    _die(lake, Decisions, "decide", {"id": 8, "item": 2}, {"id": 2, "stock": 0})


def _die(lake: Lake, where: object, at: str, order: dict[str, int], item: dict[str, int]) -> None:
    """A transaction whose writer dies at a call."""

    def die(*args: object) -> None:
        raise Died

    t = lake.begin(["orders", "items"])
    t.load("orders", [order])
    t.upsert("items", [item])
    with patch.object(where, at, die), suppress(Died):
        t.commit(author="ada", message=f"died with order {order['id']}")


KINDS_OF_LAKES = {"changes": write_changes, "history": write_history}


def main() -> None:
    """Write the tar file."""
    *kind, target = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        (KINDS_OF_LAKES[kind[0]] if kind else write)(Path(folder))
        with tarfile.open(target, "w:xz") as tar:
            for path in sorted(p for p in Path(folder).rglob("*") if p.is_file() and not p.name.startswith(".")):
                tar.add(path, path.relative_to(folder), filter=_plain)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o600
    return info


if __name__ == "__main__":
    main()
