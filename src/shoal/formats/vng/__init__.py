"""VNG, the columnar format of Zed."""
