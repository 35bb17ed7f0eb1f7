"""The verbs of a lake, with their requests and responses."""
