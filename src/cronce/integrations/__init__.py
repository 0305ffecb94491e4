"""Where other programs meet cronce. One file or folder each, deletable: other schedulers (`apscheduler`, `celery`,
`django`), queues (`rq`, `dramatiq`), agents (`langchain`, `autogen`), any command (`command`), and what is
written for cron, systemd and Kubernetes (`crontab`, `systemd`, `manifests`; `guide` says which). `deliveries` and
`tools` are shared."""
