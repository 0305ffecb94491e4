"""The demo behind `cronce demo`: six real processes, two ledger files, a kill, a pause and a verdict.

`harness` starts the processes (`worker`) and sends the signals; `verdict` counts the ledger files
(`testing.ledger_file`); `picture` says what a table of slots and processes shows.
"""
