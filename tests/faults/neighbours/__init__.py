"""Schedulers as people have them today, on several machines at once: runs per slot before, and with one line added."""
