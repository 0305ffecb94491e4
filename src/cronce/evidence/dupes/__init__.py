"""Rows that stand in a table twice: the same key, again within a window. The database is only ever read.

    names ─► looked up in the catalogue ─► one statement ─► rows ─► keys, counts and gaps
             look                          statement       postgres, mysql, sqlite

Names reach a statement only as the catalogue spells them, and quoted; everything else is bound.
"""
