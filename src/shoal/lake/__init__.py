"""Journals, commits, branches, objects: the lake itself."""
