"""The command `shoal`, one file a verb."""
