"""One process that is the whole service: web server, worker threads, pulse and sweep.

Used by ``loomsvc up``.  Everything is started before the first request is taken and stopped within two
seconds; a Step that still runs then is left to the next opening, which interrupts it (R13).
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import uvicorn
from celery import current_app
from django.conf import settings as django_settings
from django.db import connections

from apps.core import conf
from apps.ledger.domain.instances import Instance
from apps.runs.embedded.worker import EmbeddedWorker
from apps.runs.services import worker
from apps.runs.services.pulse import Pulse

logger = logging.getLogger("loomsvc.service")

#: Open requests get this long, then running Steps; together under the two seconds that are promised.
_REQUEST_GRACE_SECONDS = 1
_STEP_GRACE_SECONDS = 0.5
#: A client that takes nothing of what is sent to it for this long has its connection closed (FR-F15).
_STALLED_MILLISECONDS = 60_000


@dataclass(frozen=True)
class Listening:
    """A bound socket and the address that clients use."""

    socket: socket.socket
    url: str


def listen(host: str, port: int) -> Listening:
    """Bind before anything else is promised; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's delay off only where it is; each answer would take 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # No application can close a connection whose answer is stuck half-way; the system can.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STALLED_MILLISECONDS)
    bound.bind((host, port))
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    return Listening(bound, f"http://{shown}:{bound.getsockname()[1]}")


class _Server(uvicorn.Server):
    """uvicorn's server that says when it listens."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_listening()


def serve(*, listening: Listening, instance: Instance, on_ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM, then end the process: within two seconds, whatever its threads do."""
    # First, because with it comes the Celery application that the worker serves.
    application = _application()
    worker.begin(instance.id)
    embedded = EmbeddedWorker(current_app._get_current_object(), threads=conf.settings().threads)
    pulse = Pulse(instance_id=instance.id, owners=worker.owners, on_ended=_ended, sweeps=True)
    embedded.start()
    pulse.start()
    config = uvicorn.Config(
        application,
        lifespan="on",
        # Bounds the head of a request at 64 KiB; the faster parser takes one of any size, from anybody.
        http="h11",
        log_config=None,
        access_log=False,
        # Loopback callers are never proxies: a forwarded address would be the client's own claim.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_REQUEST_GRACE_SECONDS,
        ws="none",
    )
    server = _Server(config, on_ready)
    # The server obeys a signal and then raises it again, which would end the process before its worker is stopped.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    code = 0
    try:
        server.run(sockets=[listening.socket])
    except Exception:
        logger.exception("the web server failed")
        code = 1
    worker.stop_taking()
    pulse.stop()
    if not embedded.stop(_STEP_GRACE_SECONDS):
        logger.warning(
            "stopped while a Step was running: the next start fails its Run as RUN_INTERRUPTED, unless the Step says "
            "`on_interrupt: rerun`. To stop without that, pause the Runs first (loomsvc pause_run) and wait for them"
        )
    connections.close_all()
    sys.stdout.flush()
    sys.stderr.flush()
    # An orderly end would wait for threads that Code holds, and takes a second where there are none.
    os._exit(code)


def _application() -> Any:
    from django.utils.module_loading import import_string

    return import_string(django_settings.ASGI_APPLICATION)


def _ended() -> None:
    logger.error("another service was opened on this ledger; stopping")
    os._exit(1)
