"""The names of APScheduler, and of the packages that put it into Flask, Django and NoneBot."""

from typing import Final

SCHEDULERS_3: Final = frozenset({
    *(
        f"apscheduler.schedulers.{module}.{name}Scheduler"
        for module, name in (
            ("base", "Base"), ("background", "Background"), ("blocking", "Blocking"), ("asyncio", "AsyncIO"),
            ("gevent", "Gevent"), ("tornado", "Tornado"), ("twisted", "Twisted"), ("qt", "Qt"),
        )
    ),
    "apscheduler.scheduler.Scheduler",
})  # fmt: skip
FLASK: Final = frozenset({"flask_apscheduler.APScheduler", "flask_apscheduler.scheduler.APScheduler"})
FLASK_KINDS: Final = frozenset(name.rpartition(".")[2] for name in FLASK)
"""As a Scheduler calls its kind."""
SCHEDULERS_4: Final = frozenset({
    "apscheduler.Scheduler", "apscheduler.AsyncScheduler",
    "apscheduler.schedulers.sync.Scheduler", "apscheduler.schedulers.async_.AsyncScheduler",
})  # fmt: skip
SCHEDULERS: Final = SCHEDULERS_3 | FLASK | SCHEDULERS_4
INSTANCES: Final = frozenset({"nonebot_plugin_apscheduler.scheduler"})
"""Schedulers that a package makes: how they are set up stands in a file that is not Python."""

MEMORY: Final = frozenset({"apscheduler.jobstores.memory.MemoryJobStore", "memory"})
PERSISTENT: Final = {
    **{
        f"apscheduler.jobstores.{module}.{name}JobStore": f"{name}JobStore"
        for module, name in (
            ("sqlalchemy", "SQLAlchemy"), ("redis", "Redis"), ("mongodb", "MongoDB"), ("zookeeper", "ZooKeeper"),
            ("rethinkdb", "RethinkDB"), ("etcd", "Etcd"), ("shelve", "Shelve"),
        )
    },
    "django_apscheduler.jobstores.DjangoJobStore": "DjangoJobStore",
    "sqlalchemy": "SQLAlchemyJobStore", "redis": "RedisJobStore", "mongodb": "MongoDBJobStore",
    "zookeeper": "ZooKeeperJobStore", "rethinkdb": "RethinkDBJobStore", "etcd": "EtcdJobStore",
    "apscheduler.datastores.sqlalchemy.SQLAlchemyDataStore": "SQLAlchemyDataStore",
    "apscheduler.datastores.mongodb.MongoDBDataStore": "MongoDBDataStore",
}  # fmt: skip
"""Job stores that outlive the process, by class or by the alias of their plugin."""
MEMORY_4: Final = "apscheduler.datastores.memory.MemoryDataStore"

CRON: Final = "apscheduler.triggers.cron.CronTrigger"
TRIGGERS: Final = {
    CRON: "cron",
    f"{CRON}.from_crontab": "crontab",
    "apscheduler.triggers.interval.IntervalTrigger": "interval",
    "apscheduler.triggers.date.DateTrigger": "date",
}

ADD_JOB: Final = (
    "func", "trigger", "args", "kwargs", "id", "name", "misfire_grace_time", "coalesce", "max_instances",
    "next_run_time", "jobstore", "executor", "replace_existing",
)  # fmt: skip
"""The positional parameters of add_job; scheduled_job has the same without the first and the last."""
ADD_SCHEDULE: Final = ("func_or_task_id", "trigger")
REGISTER_JOB: Final = frozenset({"django_apscheduler.jobstores.register_job"})
