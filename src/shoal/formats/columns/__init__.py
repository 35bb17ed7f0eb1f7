"""The columnar core: batches by shape, layouts, their physical form and their fusion."""
