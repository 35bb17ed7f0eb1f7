"""ETL: records of a raw pool, gathered and transformed into others, each exactly once. See `docs/etl.md`."""

from shoal.connect.etl.config import EtlConfig, parse_etl, read_etl
from shoal.connect.etl.job import Done, Etl

__all__ = ["Done", "Etl", "EtlConfig", "parse_etl", "read_etl"]
