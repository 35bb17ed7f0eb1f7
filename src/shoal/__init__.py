"""Shoal: a Git-like data lake for data of any shape."""

from shoal import version

__version__ = version.VERSION
