"""Expressions as closures: each file knows one kind of them, `compiler` puts them together."""
