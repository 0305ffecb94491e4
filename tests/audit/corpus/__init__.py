"""How right the auditor is about public applications that nobody here wrote.

`seen.json` and `unseen.json` say of each, by reading and, but for twenty-one labels of the first, before the auditor
was run on it, what must, may and must not be said where. Their files are not kept here: `python -m tests.audit.corpus
FOLDER` scores a folder of checkouts, each in `owner+name`, at the commit that is written down. `hazards.json` says
which rules are about which hazard.

The halves are split by the first digit of sha256(owner/name in lower case): odd digits are the unseen half. Who changes
rules looks at nothing of it, neither at its labels nor at its files. A half that was a measure often enough joins the
seen one, as 86 repositories did on 18 November 2026, and others take its place.
"""
