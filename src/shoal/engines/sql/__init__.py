"""From plans to SQL trees: what has a typed columnar form, shape by shape."""
