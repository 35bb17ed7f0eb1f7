"""Pools as tables of SQL: columns in the types that its users expect, statements, and values out of their answers."""
