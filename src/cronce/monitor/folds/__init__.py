"""One small function for each thing that can be wrong: from what a survey shows, and what was remembered."""
