"""Operators as streams: each file knows one kind of them, `compiler` puts them together."""
