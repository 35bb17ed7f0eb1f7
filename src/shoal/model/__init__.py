"""Types, values, their order, casting and shaping. Pure: no I/O, no clock, no library."""
