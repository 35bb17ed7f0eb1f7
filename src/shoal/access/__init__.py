"""Grants, tokens, the view of a lake that a caller gets, and limits."""
