"""`python -m tools.golden_lake FILE`: writes a small lake that uses every part of the format, as a tar file.

`tests/compat` has such a lake for each version of the format, and every later version must read it.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

import shoal
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


def main() -> None:
    """Write the tar file."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        with tarfile.open(sys.argv[1], "w:xz") as tar:
            for path in sorted(p for p in Path(folder).rglob("*") if p.is_file() and not p.name.startswith(".")):
                tar.add(path, path.relative_to(folder), filter=_plain)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o600
    return info


if __name__ == "__main__":
    main()
