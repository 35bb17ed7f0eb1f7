"""ZJSON: Zed types and values in JSON."""
