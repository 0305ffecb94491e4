"""`make proof`: the checks that take too long for every test run, in parts, with a record of what each one showed.

`parts.py` lists the parts, `run.py` runs them, `record.py` keeps their results in docs/proof.json, and `pages.py`
writes the figures of the docs from that file.
"""
