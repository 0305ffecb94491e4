"""Numbers for Prometheus: a fixed set (`catalogue`), counted (`metrics`), written as text (`exposition`)."""
