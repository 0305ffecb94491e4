"""Transactions of the user's own that cronce joins."""
