"""The same faults for cronce and for the tools people pick instead; a file that knows none of them counts the runs.

    python -m bench.peers                        # the cells that have no result yet
    python -m bench.peers --only scheduler calm  # cells whose peer, scenario or store is named
    python -m bench.peers --docs                 # write the page again, run nothing

`peers` lists the tools and `scenarios` the faults. `cell` plays one of each: three hosts, a server of their own, the
fault, the count. A file of `adapters` starts one host of a tool, as its own documentation recommends. `results` keeps
each cell with its date, versions and load; `page` writes docs/explain/peers.md from that.
"""
