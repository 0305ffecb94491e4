"""Where other programs meet cronce. One file or folder each, deletable: other schedulers (`apscheduler`, `celery`,
`django`), queues (`rq`, `dramatiq`), agents (`langchain`, `autogen`), any command (`command`, `process`), and in
`deploy` what is written for cron, systemd and Kubernetes. `names`, `deliveries`, `patience` and `tools` are shared."""
