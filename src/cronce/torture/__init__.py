"""The harness behind `cronce torture`: real processes on a real store, everything that can go wrong on purpose, and a
verdict from two sides.

`plan` says what will go wrong and when, from a seed. `harness` starts the processes, which call guards (`worker`) or
are schedulers (`scheduling`), each behind a `proxy` of its own where the store is reached by TCP (`route`), does to
them what the plan says (`faults`, by `fault_actions`), and waits until every slot is closed. The job functions write a
ledger file that knows nothing of cronce (`testing.ledger_file`); `verdict` compares it with what the store has on
record (`store_contents`); `picture` draws both.
"""
