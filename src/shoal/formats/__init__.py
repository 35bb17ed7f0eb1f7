"""Bytes to values and columns, and back; found by name and media type in `registry`."""
