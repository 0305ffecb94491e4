"""Numbers for Prometheus: a fixed set, written as text (`exposition`), and how they are counted (`metrics`)."""
