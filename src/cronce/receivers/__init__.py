"""Where effects land: what the other side does with the key and the fence of a run. One file each, deletable."""
