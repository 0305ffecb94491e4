"""What happened already, read from tables: rows that stand there twice. Nothing here writes; nothing needs a store."""
