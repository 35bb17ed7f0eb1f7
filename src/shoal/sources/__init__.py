"""What is read from outside a lake: files, standard input, URLs, and the policy on which of them a query may read."""
