"""Where lake, language and engines meet: catalog, pruning, scan units, the choice of an engine, physical plans."""
