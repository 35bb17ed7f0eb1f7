"""The command `shoal`, with one file per verb."""
