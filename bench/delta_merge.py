"""Delta's `MERGE` on Spark, as a peer of upserts: run by a Python with the pyspark that Delta's jars are for.

    PYTHON bench/delta_merge.py FOLDER JARS

FOLDER has `large.parquet` and `changes-N.parquet`. Prints for each of the latter the seconds that a merge took, and the
bytes that it wrote. Delta 4.4 does not run on the pyspark of this project, so this file imports nothing of it.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> None:
    folder, jars = Path(sys.argv[1]), sys.argv[2]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    table = folder / "delta-spark"
    spark.read.parquet(str(folder / "large.parquet")).write.format("delta").save(str(table))
    for path in sorted(folder.glob("changes-*.parquet")):
        spark.read.parquet(str(path)).createOrReplaceTempView("changes")
        before = size_of(table)
        begin = time.perf_counter()
        spark.sql(
            f"MERGE INTO delta.`{table}` t USING changes s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        print(time.perf_counter() - begin, size_of(table) - before, flush=True)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
