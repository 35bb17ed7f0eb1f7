"""The states of aggregates in the interpreter, one class each; `shoal.engines.aggregates` has them by name."""
