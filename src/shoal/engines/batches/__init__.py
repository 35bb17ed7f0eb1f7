"""The first operators after a scan over batches of columns, in this process and without another engine."""
