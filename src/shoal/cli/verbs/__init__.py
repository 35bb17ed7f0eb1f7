"""The verbs of `shoal`: each module here is a command, with its `VERB` and a function `run`."""
