"""Effects: what a run changes in the outside world, once, though the run itself may be repeated."""
