"""The interpreter: value by value, and the measure of what the other engines must answer."""
