"""ZNG, the binary row format of Zed."""
