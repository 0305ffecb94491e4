"""The demo behind `cronce demo`: six real processes, two ledger files, a kill, a pause and a verdict.

`stage` starts the processes (`worker`) and sends the signals; `book` is the ledger files, `verdict` counts them, and
`picture` says what a table of slots and processes shows.
"""
