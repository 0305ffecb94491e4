"""A store that goes away while jobs fall due: what each way to use cronce makes of it, slot by slot."""
