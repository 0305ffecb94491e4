"""What happened already, read from logs and tables: jobs that ran twice, at once or without an end, and rows that stand
there twice. Nothing here writes, and nothing here needs a store."""
