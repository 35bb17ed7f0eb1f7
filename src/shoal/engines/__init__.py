"""What runs a plan: interpreter, DuckDB, Spark."""
