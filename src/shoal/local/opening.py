"""Lakes by their URI, with every verb implemented: importing this module loads the implementations."""

from __future__ import annotations

from shoal.local import commits, history, loads, maintenance, pools, queries, transactions
from shoal.local.lake import LocalLake, create_local, open_local

__all__ = ["IMPLEMENTATIONS", "LocalLake", "create_local", "open_local"]

IMPLEMENTATIONS = (commits, history, loads, maintenance, pools, queries, transactions)
"""The modules that implement verbs."""
