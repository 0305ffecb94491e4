"""Jobs that live in the store: how they are defined there, and which of them a process runs."""
