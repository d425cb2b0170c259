"""The Celery application: the bell that wakes workers.  ``celery -A loomsvc.celery worker`` scales out."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "loomsvc.settings.development")

app = Celery("loomsvc")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
