"""A real schema registry."""

NEEDED = 21
