"""A server on loopback that answers as SearXNG does, or fails as such servers do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: What an endpoint must never be quoted with.
SENTINEL = "sentinel-of-the-endpoint"


class Searxng:
    """``pages`` are answered one by one; ``mode`` names how to fail instead; ``asked`` are the queries that came."""

    def __init__(self) -> None:
        self.mode = "answer"
        self.pages: list[list[Any]] = [[]]
        self.asked: list[dict[str, str]] = []
        self.released = threading.Event()
        self.url = ""
        self.host = ""

    def body(self, page: int) -> bytes:
        results = self.pages[page - 1] if page <= len(self.pages) else []
        return json.dumps({"query": "x", "number_of_results": 0, "results": results}).encode()


@contextmanager
def loopback_searxng() -> Iterator[Searxng]:
    """The server, until the block ends."""
    searxng = Searxng()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            searxng.asked.append({"path": parts.path, **asked})
            _answer(self, searxng, int(asked.get("pageno", 1)))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    searxng.host = f"127.0.0.1:{server.server_port}"
    searxng.url = f"http://{searxng.host}"
    try:
        yield searxng
    finally:
        searxng.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def configured_searxng(settings: Any) -> Iterator[Searxng]:
    """The server, as the one that this service's searches of the web go to."""
    with loopback_searxng() as searxng:
        settings.LOOMSVC = replace(settings.LOOMSVC, searxng_url=searxng.url, searxng_allow_hosts=(searxng.host,))
        yield searxng


def _answer(handler: BaseHTTPRequestHandler, searxng: Searxng, page: int) -> None:
    mode = searxng.mode
    if mode.isdigit():
        _send(handler, int(mode), f"<html>{SENTINEL}</html>".encode())
    elif mode == "redirect":
        handler.send_response(302)
        handler.send_header("Location", f"http://169.254.169.254/{SENTINEL}")
        handler.send_header("Content-Length", "0")
        handler.end_headers()
    elif mode == "html":
        _send(handler, 200, f"<html>{SENTINEL}</html>".encode())
    elif mode == "shape":
        _send(handler, 200, json.dumps({"results": SENTINEL}).encode())
    elif mode == "deep":
        _send(handler, 200, b"[" * 100_000)
    elif mode == "huge":
        _send(handler, 200, b" " * (3 * 1024 * 1024))
    elif mode == "slow":
        searxng.released.wait(10)
        handler.close_connection = True
    elif mode == "dripping":
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        while not searxng.released.is_set():
            try:
                handler.wfile.write(b" ")
                handler.wfile.flush()
            except OSError:
                return
            time.sleep(0.02)
    elif mode == "cut":
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"results": [')
        handler.close_connection = True
    elif mode == "close":
        handler.close_connection = True
    else:
        _send(handler, 200, searxng.body(page))


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
