"""The object store seam: where a lake's objects lie."""
