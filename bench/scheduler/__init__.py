"""The scheduler beside its peers, in one run: `python -m bench.scheduler [CASE…] [--small]`.

What the other benchmarks time is short and repeats in one process. A scheduler is a process that waits for an instant,
so each one here, ours and the peers', is a child of its own (`ours`, `aps`, `beat`), and this process looks on:

- *Who ran what* is told by a file to which every body appends one line (`book`), not by anybody's own records. A slot
  of ours that ran twice, or never, is an error, whatever the figures say. Of the peers it is counted.
- *When*: all of it is one machine, so the body's wall clock compares with the slot, for the store's clock is the same.
- *Store calls* are those that the server logged.
- *Memory and CPU* are the kernel's word on the child.

The schedulers of one case stand side by side and take turns: the slots of each lie some seconds after those of the one
before, so that a machine that is slow for a while is slow for all. As elsewhere the verdict is the median of the
ratios within the cycles, or the median itself where a limit is absolute.
"""
