"""The commands of `shoal`: one module per verb, with its `VERB` and a function `run`. A file here is a command."""
