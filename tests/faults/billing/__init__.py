"""The seeds' story, tried out: three processes bill 500 invoices, and everything goes wrong that can.

    python -m tests.faults.billing --variant key

`receiver` is the payment service with its books, `worker` one of the three processes, `plain_lock` what the seeds would
have put around its body, `plan` what goes wrong and when, `harness` does it, and counts in the receiver's own books.
"""
