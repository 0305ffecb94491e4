"""How right the auditor is about public applications that nobody here wrote.

`seen.json` and `unseen.json` say of each, by reading and, but for twenty-six labels of the first, before the auditor
was run on it, what must, may and must not be said where. Their files are not kept here: `python -m tests.audit.corpus
FOLDER` scores a folder of checkouts, each in `owner+name`, at the commit that is written down. `hazards.json` says
which rules are about which hazard.

All that was labelled before 18 November 2026 belongs to the seen half. What came later is split by the first digit of
sha256(owner/name in lower case): odd digits are the unseen half. Who changes rules looks at nothing of that half,
neither at its labels nor at its files.
"""
