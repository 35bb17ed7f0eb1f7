"""Contract suites, strategies and samples for tests, ours and others'."""
