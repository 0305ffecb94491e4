"""Where other programs meet cronce: one file each, deletable."""
