"""Job functions in processes of their own: commands, and functions that can be killed."""
