"""Dockerfiles, compose files, Procfiles and package.json: what is process 1, how many there are, and in which zone."""
