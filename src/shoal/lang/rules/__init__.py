"""Rewrites of a plan, one file each; `shoal.lang.compile` lists them in order."""
