"""This machine, now: what its crontabs and timers fire, which schedulers run, who holds a job store, its clock.

A machine is read as a tree is, from `/proc`, `/etc` and `/var/spool`, below a root that tests can set; so its crontabs
and units go through the same readers and rules as those of a repository.
"""
