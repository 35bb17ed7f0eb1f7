"""Kafka topics and Zarr arrays on a lake."""
