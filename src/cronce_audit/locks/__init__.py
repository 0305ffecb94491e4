"""Locks that people made themselves of Redis commands: where they let two in, or nobody ever again."""
