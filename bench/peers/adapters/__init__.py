"""One host of each tool. `python -m bench.peers.adapters.NAME` runs until it is ended; with `setup` it prepares the
store."""
