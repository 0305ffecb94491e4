"""A clustered scheduler: start it as often as you like."""
