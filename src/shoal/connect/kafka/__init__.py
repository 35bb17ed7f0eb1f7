"""Kafka topics: their records as values, and values as their records."""
