"""The auditor: where in a repository a scheduled job can run twice, be lost or overlap. Reads only.

    sources → facts → rules → findings

`engine.files` chooses the files, a reader of each kind (`@reader`) turns a file into facts, and when all files are read
the rules (`@rule`) look at the facts together: duplicates come from the combination, four workers here and a scheduler
there. What is read is never imported or run. Nothing here knows of stores.
"""
