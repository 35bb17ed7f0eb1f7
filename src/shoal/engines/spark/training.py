"""The run that an archive of classes is made of: `python -m shoal.engines.spark.training FILE`.

It does a little of all that sessions do, and waits for the JVM, which writes the classes that it met when it ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from shoal.engines.spark import jvm
from shoal.engines.spark.installation import find_java, scratch_directory
from shoal.engines.spark.opening import open_session
from shoal.engines.spark.settings import configuration

_MASTER = "local[2]"


def main(target: str) -> int:
    """Run, and return the exit status of the JVM."""
    conf = configuration(_MASTER)
    booting = jvm.start(find_java(), _MASTER, conf, [f"-XX:ArchiveClassesAtExit={target}"])
    session = open_session(_MASTER, conf, booting)
    exercise(session, scratch_directory() / "training")
    session.stop()
    booting.process.communicate()
    return booting.process.returncode


def exercise(session: SparkSession, directory: Path) -> None:
    """Read and write columns, filter, aggregate, join, sort, and go through Python and back."""
    table = pa.table({"id": range(1000), "name": [f"n{i % 7}" for i in range(1000)], "part": [{"x": 0.5}] * 1000})
    session.createDataFrame(table).write.parquet(str(directory))
    rows = session.read.parquet(str(directory))
    rows.createOrReplaceTempView("rows")
    counted = rows.where("id > 10 and name like 'n%'").groupBy("name").count()
    for frame in (
        session.sql("select 1"),
        session.sql("select name, sum(part.x), max(id), count(distinct id) from rows group by name order by 2 limit 5"),
        rows.join(counted, "name").orderBy("id"),
        rows.selectExpr("*", "row_number() over (partition by name order by id) as n", "explode(array(1, 2)) as e"),
        rows.select("id").unionByName(session.range(10)).distinct(),
        rows.select("id").mapInArrow(_same, "id bigint").repartition(2),
    ):
        frame.toArrow()
        frame.limit(3).collect()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
