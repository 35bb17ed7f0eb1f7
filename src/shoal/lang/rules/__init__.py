"""Rewrites of a plan, one file each; `shoal.lang.optimize` lists them in order."""
