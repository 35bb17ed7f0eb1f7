"""The aggregate functions, one class each; `table` has them by name."""
