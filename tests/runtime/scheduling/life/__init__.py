"""Schedulers in processes of their own, and the book that their bodies write into."""
