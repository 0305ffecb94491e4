"""Java: Spring's scheduled methods, ShedLock and Quartz on several instances."""
