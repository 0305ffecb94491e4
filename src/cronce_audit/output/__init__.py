"""An audit as programs read it. What people read is with the command."""
