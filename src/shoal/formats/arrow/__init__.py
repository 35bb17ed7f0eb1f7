"""The Arrow IPC stream and Parquet, which shares its types."""
