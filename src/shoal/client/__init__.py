"""The verbs of a lake behind a service."""
