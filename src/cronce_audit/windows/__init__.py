"""Tasks of Windows' Task Scheduler."""
