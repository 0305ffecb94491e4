"""What jobs write."""

from django.db import models


class Report(models.Model):  # type: ignore[misc]  # Django has no types
    key = models.CharField(max_length=100)
    pid = models.IntegerField(default=0)
