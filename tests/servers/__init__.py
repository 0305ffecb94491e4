"""Real servers for tests and benchmarks, from wheels and packages, each in a directory of its own, without root."""
