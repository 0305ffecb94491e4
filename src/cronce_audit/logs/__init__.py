"""Starts and ends of jobs, read from logs.

    bytes ─► sources ─► envelope ─► words ─► marks, merged by time ─► fold ─► findings
             files       who, when   start, end                       pure

A line that is not surely a start or an end is none: a check that cries wolf is soon left out. What was seen with both
ends is *certain*, what only looks so is *possible*, and the two are never mixed.
"""
