"""Schedulers on every kind of store that live through the same few seconds, each job with a policy of its own."""
