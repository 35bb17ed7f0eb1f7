"""The built-in functions, by topic: plain functions over values that never raise."""
