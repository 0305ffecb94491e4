"""Duplicate rows in a table: the same key, again within a window. The database is only read, and no store is needed.

    names ─► looked up in the catalogue ─► one statement ─► rows ─► keys, counts and gaps
             search                        statement       postgres, mysql, sqlite

Names reach a statement only as the catalogue spells them, and quoted; everything else is bound.
"""
