"""Spark: a session that starts fast and is silent, on this machine or on a cluster."""
