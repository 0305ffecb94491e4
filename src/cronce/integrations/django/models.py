"""Names for the admin: what it lists, and who may see it. There are no tables; all of it is read from the store."""

from django.db import models


class Job(models.Model):  # type: ignore[misc]  # Django has no types
    class Meta:
        managed = False
        default_permissions = ("view",)


class Run(models.Model):  # type: ignore[misc]
    class Meta:
        managed = False
        default_permissions = ("view",)
