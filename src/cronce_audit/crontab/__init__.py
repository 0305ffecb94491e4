"""Crontabs of every kind, and what Dockerfiles say about the cron that reads them."""
