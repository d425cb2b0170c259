"""A provider on loopback that speaks the OpenAI and the Anthropic wire, streamed and not, and fails on demand.

Its answers come in the order given, the last one again and again; what was asked is kept in ``requests``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Else they are loaded with a process's first request, which takes longer than the time that some tests give it.
import pydantic_ai.models.anthropic
import pydantic_ai.models.openai  # noqa: F401

INPUT_TOKENS, OUTPUT_TOKENS = 11, 7
#: Stands in every error body and must never be seen again.
SENTINEL = "body-of-the-provider-9f27c1"


@dataclass(frozen=True)
class Answer:
    """What one request gets.  ``calls``: Tool calls as (name, arguments); arguments as a text are sent as they are."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    #: Sent in place of an answer of the protocol.
    body: str | None = None
    #: Waited before anything is sent.
    seconds: float = 0.0
    #: Only this part of the response is sent, then the connection is closed.
    part: float = 1.0
    stop: str = "stop"
    error_type: str = "error"


def says(text: str, **more: Any) -> Answer:
    return Answer(text=text, **more)


def calls(name: str, arguments: Any, **more: Any) -> Answer:
    return Answer(calls=((name, arguments),), **more)


def hands_in(output: Any, **more: Any) -> Answer:
    """The output, through the Tool that takes it."""
    return calls("submit_result", output, **more)


def fails(status: int, error_type: str = "error", **headers: str) -> Answer:
    return Answer(status=status, error_type=error_type, headers={k.replace("_", "-"): v for k, v in headers.items()})


def redirects(url: str) -> Answer:
    return Answer(status=307, headers={"Location": url})


#: Ways in which a provider fails: its answers, and of the end that follows the reason, the recovery and the requests.
FAILURES: list[tuple[str, list[Answer], str, str | None, int]] = [
    ("401", [fails(401, "authentication_error")], "provider_key_refused", "configure_provider_key", 1),
    ("403", [fails(403, "permission_error")], "provider_key_refused", "configure_provider_key", 1),
    ("404 model", [fails(404, "not_found_error")], "model_not_found", "choose_model", 1),
    ("400", [fails(400, "invalid_request_error")], "request_rejected", None, 1),
    ("402", [fails(402, "billing_error")], "quota_exhausted", "configure_provider_key", 1),
    ("500", [fails(500, "api_error")], "provider_error", None, 1),
    ("503 thrice", [fails(503)], "provider_unavailable", "retry_later", 3),
    (
        "429, come back in an hour",
        [fails(429, "rate_limit_error", Retry_After="3600")],
        "rate_limited",
        "retry_later",
        1,
    ),
    ("truncated", [hands_in({"answer": 5}, part=0.5)], "connection_lost", None, 1),
    ("no JSON", [Answer(body=f"<html>{SENTINEL}</html>")], "response_broken", None, 1),
    ("another JSON", [Answer(body='{"hello": "body-of-the-provider-9f27c1"}')], "response_broken", None, 1),
    ("content filter", [says("", stop="content_filter")], "content_filtered", None, 1),
    ("cut off by tokens", [says("It is", stop="length")], "response_truncated", None, 1),
    ("redirect", [redirects("http://169.254.169.254/latest")], "redirect_refused", None, 1),
]


@dataclass
class Seen:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def is_streamed(self) -> bool:
        return bool(self.body.get("stream"))


class Provider:
    """The server's answers and what it was asked."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port = server.server_address[1]
        self.answers: list[Answer] = [says("hello")]
        self.requests: list[Seen] = []
        #: Set when a request has arrived.
        self.asked = threading.Event()
        self._lock = threading.Lock()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def base_url(self, kind: str) -> str:
        return f"http://{self.host}/v1" if kind == "openai" else f"http://{self.host}"

    def take(self, seen: Seen) -> Answer:
        with self._lock:
            self.requests.append(seen)
            self.asked.set()
            return self.answers[min(len(self.requests), len(self.answers)) - 1]


@contextmanager
def loopback_provider(port: int = 0) -> Iterator[Provider]:
    """The server, until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    server.daemon_threads = True
    provider = Provider(server)
    server.provider = provider  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

    def _answer(self, body: dict[str, Any]) -> None:
        seen = Seen(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        answer = self.server.provider.take(seen)  # type: ignore[attr-defined]
        if answer.seconds:
            time.sleep(answer.seconds)
        kind = "anthropic" if self.path.startswith("/v1/messages") else "openai"
        content = "application/json"
        if answer.body is not None:
            payload = answer.body
        elif answer.status != 200:
            payload = json.dumps(_error(kind, answer))
        elif body.get("stream"):
            content = "text/event-stream"
            payload = "".join((_openai_events if kind == "openai" else _anthropic_events)(answer))
        else:
            payload = json.dumps(body_of(kind, answer))
        self._send(answer, content, payload.encode())

    def _send(self, answer: Answer, content: str, payload: bytes) -> None:
        try:
            self.send_response(answer.status)
            for name, value in {"Content-Type": content, **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload[: int(len(payload) * answer.part)])
        except OSError:
            pass
        if answer.part < 1.0:
            self.close_connection = True


def body_of(kind: str, answer: Answer) -> dict[str, Any]:
    """What is sent of an answer that is not streamed."""
    return (_openai if kind == "openai" else _anthropic)(answer)


def _error(kind: str, answer: Answer) -> dict[str, Any]:
    error = {"type": answer.error_type, "message": SENTINEL, "code": answer.error_type}
    return {"error": error} if kind == "openai" else {"type": "error", "error": error}


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


# -- OpenAI: chat completions -----------------------------------------------------------------------


def _openai_reason(answer: Answer) -> str:
    return "tool_calls" if answer.calls and answer.stop == "stop" else answer.stop


_OPENAI_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def _openai_calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": _arguments(arguments)}}
        for n, (name, arguments) in enumerate(answer.calls)
    ]


def _openai(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = _openai_calls(answer)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "test-model",
        "choices": [{"index": 0, "message": message, "finish_reason": _openai_reason(answer)}],
        "usage": _OPENAI_USAGE,
    }


def _openai_events(answer: Answer) -> Iterator[str]:
    def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> str:
        choices = [] if more else [{"index": 0, "delta": delta, "finish_reason": reason}]
        whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test-model"}
        return f"data: {json.dumps({**whole, 'choices': choices, **more})}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for piece in (answer.text[:3], answer.text[3:]):
        if piece:
            yield chunk({"content": piece})
    for number, call in enumerate(_openai_calls(answer)):
        arguments = call["function"]["arguments"]
        first = {**call, "index": number, "function": {"name": call["function"]["name"], "arguments": arguments[:4]}}
        yield chunk({"tool_calls": [first]})
        yield chunk({"tool_calls": [{"index": number, "function": {"arguments": arguments[4:]}}]})
    yield chunk({}, _openai_reason(answer))
    yield chunk({}, usage=_OPENAI_USAGE)
    yield "data: [DONE]\n\n"


# -- Anthropic: messages ----------------------------------------------------------------------------

_ANTHROPIC_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic_reason(answer: Answer) -> str:
    return "tool_use" if answer.calls and answer.stop == "stop" else _ANTHROPIC_STOPS[answer.stop]


def _anthropic_content(answer: Answer) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    for number, (name, arguments) in enumerate(answer.calls):
        content.append({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments})
    return content


def _anthropic(answer: Answer) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test-model",
        "content": _anthropic_content(answer),
        "stop_reason": _anthropic_reason(answer),
        "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    }


def _anthropic_events(answer: Answer) -> Iterator[str]:
    def event(name: str, **more: Any) -> str:
        return f"event: {name}\ndata: {json.dumps({'type': name, **more})}\n\n"

    begun = {**_anthropic(answer), "content": [], "stop_reason": None}
    begun["usage"] = {"input_tokens": INPUT_TOKENS, "output_tokens": 1}
    yield event("message_start", message=begun)
    for index, block in enumerate(_anthropic_content(answer)):
        if block["type"] == "text":
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": block["text"]})
        else:
            yield event("content_block_start", index=index, content_block={**block, "input": {}})
            partial = _arguments(block["input"])
            for piece in (partial[:5], partial[5:]):
                delta = {"type": "input_json_delta", "partial_json": piece}
                yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    delta = {"stop_reason": _anthropic_reason(answer), "stop_sequence": None}
    yield event("message_delta", delta=delta, usage={"output_tokens": OUTPUT_TOKENS})
    yield event("message_stop")
