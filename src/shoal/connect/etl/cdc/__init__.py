"""Change data capture: events of Debezium, applied to keyed pools transaction by transaction. See `docs/etl.md`."""

from shoal.connect.etl.cdc.config import CdcConfig, is_cdc, parse_cdc
from shoal.connect.etl.cdc.job import Cdc, Done
from shoal.connect.etl.cdc.positions import commit_at, parse_lsn

__all__ = ["Cdc", "CdcConfig", "Done", "commit_at", "is_cdc", "parse_cdc", "parse_lsn"]
