"""``GET /health``: whether this process and its database answer; nothing else is said (K9)."""

from __future__ import annotations

import threading
import time

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.core.database import DATABASE_TROUBLE

#: Seconds after which a database counts as not answering.
PATIENCE = 2.0

#: One probe at a time: a database that hangs costs one thread, however many ask.
_probing = threading.Lock()


@never_cache
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """200 ``{"status": "ok"}``, or 503 when the database does not answer in time."""
    if database_answers(PATIENCE):
        return JsonResponse({"status": "ok"})
    return JsonResponse({"status": "unavailable"}, status=503)


def database_answers(seconds: float) -> bool:
    """Whether a trivial statement comes back within ``seconds``."""
    deadline = time.monotonic() + seconds
    if not _probing.acquire(timeout=seconds):
        return False
    answered, done = threading.Event(), threading.Event()
    # A daemon: a thread that hangs in the driver must not keep the process from ending.
    threading.Thread(target=_probe, args=(answered, done), name="health", daemon=True).start()
    done.wait(max(0.0, deadline - time.monotonic()))
    return answered.is_set()


def _probe(answered: threading.Event, done: threading.Event) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        answered.set()
    except (DatabaseError, *DATABASE_TROUBLE):
        pass
    finally:
        connection.close()
        _probing.release()
        done.set()
