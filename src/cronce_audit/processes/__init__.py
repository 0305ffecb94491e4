"""How many processes run what: web servers and their workers, replicas, Celery; and the schedulers that
start in each of them.

`commands` and `servers` make servers and programs of commands, `starts` finds what fires by itself in Python code and
when it is started, `launches` joins both.
"""
