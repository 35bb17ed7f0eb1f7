"""Fragments and exchanges in this process, by DuckDB."""
