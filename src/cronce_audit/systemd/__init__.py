"""Units of systemd, and programs of supervisor."""
