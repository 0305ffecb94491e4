"""The demo behind `cronce demo`: six real processes, two ledger files, a kill, a pause and a verdict.

`stage` starts the processes (`worker`) and sends the signals; `verdict` counts the ledger files (`testing.book`), and
`picture` says what a table of slots and processes shows.
"""
