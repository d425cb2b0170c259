"""Secrets stay out of logs and stored JSON, and a log record stays on its line."""

from __future__ import annotations

import base64
import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from django.apps import apps
from hypothesis import given
from hypothesis import strategies as st

from apps.access.domain import tokens
from apps.core import redaction
from apps.core.caller import Source
from apps.core.redaction import REDACTED, OneLineFormatter, RedactingFilter, redact, redact_text, register_secret

SENTINEL = "S3nt!nel/va+lue?&é"


@pytest.fixture(autouse=True)
def _fresh_registry() -> Iterator[None]:
    before = redaction._registered, redaction._registered_pattern
    yield
    redaction._registered, redaction._registered_pattern = before


@pytest.fixture
def log() -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RedactingFilter())
    handler.setFormatter(OneLineFormatter())
    logger = logging.Logger("loomsvc.sample")
    logger.addHandler(handler)
    return logger, stream


@pytest.mark.rule("E6", "K18")
@pytest.mark.parametrize("source", [Source.AGENT_IDE, Source.CLI, Source.STUDIO])
def test_a_credential_keeps_its_public_id_and_loses_its_secret(source: Source) -> None:
    token = tokens.mint(source)
    out = redact_text(f"GET /?x={token.text}&y=1 from {token.text}. old_{token.text}x")
    assert token.public_id in out
    assert not any(token.secret[at : at + 8] in out for at in range(len(token.secret) - 8))


@pytest.mark.rule("K18", "FR-H15")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://:pw@host:6379/0 is down", f"redis://:{REDACTED}@host:6379/0 is down"),
        ("postgresql://u:p@ss@h/db", f"postgresql://u:{REDACTED}@h/db"),
        ("amqps://user:pw@host//", f"amqps://user:{REDACTED}@host//"),
        ("http://127.0.0.1:8000/runs/a@b", "http://127.0.0.1:8000/runs/a@b"),
        ("Authorization: Bearer abc.def", f"Authorization: {REDACTED} {REDACTED}"),
        ("sent bearer abc.def, then", f"sent bearer {REDACTED}, then"),
        ("host=h password=geheim dbname=d", f"host=h password={REDACTED} dbname=d"),
        ('{"apiKey": "k-1", "a": 1}', f'{{"apiKey": {REDACTED}, "a": 1}}'),
        ("/x?access_token=abc&y=2", f"/x?access_token={REDACTED}&y=2"),
        ("used input_tokens=12 of total_tokens: 40", "used input_tokens=12 of total_tokens: 40"),
        ("with tokens=abc-7 of mine", f"with tokens={REDACTED} of mine"),
        ("the token is wrong", "the token is wrong"),
        ("Run 0198 is queued", "Run 0198 is queued"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_text(text: str, expected: str) -> None:
    out = redact_text(text)
    assert out == expected or (expected.count(REDACTED) > 1 and "abc.def" not in out)


@pytest.mark.rule("K18")
def test_a_registered_secret_is_found_in_every_form_it_travels_in() -> None:
    register_secret(SENTINEL)
    raw = SENTINEL.encode()
    forms = [
        SENTINEL,
        json.dumps(SENTINEL),
        json.dumps(SENTINEL, ensure_ascii=False),
        repr(SENTINEL),
        quote(SENTINEL),
        quote(SENTINEL, safe=""),
        quote_plus(SENTINEL),
        quote(SENTINEL, safe="").lower().replace("s3nt", "S3nt"),
        *(base64.b64encode(b"x" * n + raw + b"tail").decode() for n in range(4)),
        *(base64.urlsafe_b64encode(b"x" * n + raw).decode() for n in range(4)),
    ]
    for form in forms:
        assert REDACTED in redact_text(f"before {form} after"), form


@pytest.mark.rule("K18")
@given(st.text(st.characters(codec="utf-8"), min_size=6, max_size=40), st.binary(max_size=7), st.binary(max_size=7))
def test_base64_of_any_text_around_a_registered_secret_is_found(secret: str, before: bytes, after: bytes) -> None:
    register_secret(secret)
    assert REDACTED in redact_text(base64.b64encode(before + secret.encode() + after).decode())
    assert REDACTED in redact_text(base64.urlsafe_b64encode(before + secret.encode() + after).decode())


@pytest.mark.rule("K18")
def test_a_secret_that_contains_another_is_taken_out_whole() -> None:
    register_secret("geheim")
    register_secret("geheim-und-mehr")
    assert redact_text("x geheim-und-mehr y") == f"x {REDACTED} y"


def test_a_value_too_short_to_be_a_secret_does_not_blot_out_words() -> None:
    register_secret("")
    register_secret("abc")
    assert redact_text("abc and abcd") == "abc and abcd"


@pytest.mark.rule("FR-H5", "K18")
@pytest.mark.parametrize(
    "key",
    [
        "token", "ownerToken", "OWNER_TOKEN", "session_secret", "password", "dbPassword", "passwd", "Authorization",
        "proxy-authorization", "api_key", "apiKey", "APIKEY", "x-api-key", "private_key", "privateKey", "Cookie",
        "set-cookie", "headers", "requestHeaders", "client_secret", "credentials", "csrfmiddlewaretoken",
        "secretDigest",
    ],
)  # fmt: skip
def test_what_stands_under_a_secret_name_is_taken_out_however_deep(key: str) -> None:
    value = {"a": [{"b": [{key: {"deep": "geheim"}}, [key, "geheim"], {key: ["geheim"]}]}], key: "geheim"}
    out = redact(value)
    assert "geheim" not in json.dumps(out)
    assert out["a"][0]["b"][0] == {key: REDACTED}


@pytest.mark.rule("FR-H5")
def test_other_members_stay_as_they_are() -> None:
    value = {
        "usage": {"input_tokens": 5, "total_tokens": 7.0}, "runId": "x", "keys": [1, None, True], "pair": ["a", "b"],
        "token": None, "author": "Ada", "header": "Title",
    }  # fmt: skip
    assert redact(value) == value


@pytest.mark.rule("K18", "FR-H5")
def test_log_arguments_are_redacted_by_key_and_by_value(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    register_secret(SENTINEL)
    logger.warning("sent %s with %r", [{"apiKey": "geheim"}], SENTINEL)
    logger.warning("sent %(password)s to %(host)s", {"password": "geheim", "host": "example"})
    logger.warning("asgi headers %s", [(b"authorization", b"geheim"), (b"host", b"example")])
    out = stream.getvalue()
    assert "geheim" not in out
    assert SENTINEL not in out
    assert out.count("example") == 2
    assert out.count("\n") == 3


@pytest.mark.rule("K18", "K25")
def test_a_traceback_is_redacted_and_folded_into_the_line(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    register_secret(SENTINEL)
    try:
        raise ConnectionError(f"cannot reach redis://:{SENTINEL}@host and postgresql://u:geheim@h")
    except ConnectionError:
        logger.exception("lost it", stack_info=True)
    out = stream.getvalue()
    assert "ConnectionError" in out
    assert r"\nTraceback" in out
    assert out.count("\n") == 1
    assert SENTINEL not in out
    assert "geheim" not in out


@pytest.mark.rule("K18")
def test_extra_members_of_a_record_are_redacted() -> None:
    record = logging.makeLogRecord({"msg": "x", "token": "geheim", "seen": {"cookie": "geheim", "n": 1}})
    assert RedactingFilter().filter(record)
    assert (record.token, record.seen) == (REDACTED, {"cookie": REDACTED, "n": 1})  # type: ignore[attr-defined]


def test_a_log_call_whose_arguments_do_not_fit_still_says_what_it_can(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    logger.warning("%d of %s", "many")
    logger.warning("100% fine", {"token": "geheim"})
    assert "many" in stream.getvalue()
    assert "fine" in stream.getvalue()
    assert "geheim" not in stream.getvalue()


@pytest.mark.rule("K25", "FR-D3")
@pytest.mark.parametrize(
    "payload",
    [
        "a\r\nFAKE",
        "a\nb",
        "\x1b[2J\x1b[31mred",
        "a\x00b",
        "a\x85b",
        "a\u2028b\u2029c",
        "a\u202eb",
        "a\x0b\x0cb",
        "a\tb",
        "\ud83d",
    ],
)
def test_a_record_is_one_printable_line_whatever_it_holds(
    log: tuple[logging.Logger, io.StringIO], payload: str
) -> None:
    logger, stream = log
    logger.warning("got %s", payload)
    line, end = stream.getvalue()[:-1], stream.getvalue()[-1]
    assert end == "\n"
    assert line.isprintable()
    line.encode("utf-8")


@pytest.mark.rule("K25")
@given(st.text())
def test_any_text_becomes_one_line(text: str) -> None:
    line = redaction.one_line(text)
    assert len(line.splitlines()) <= 1
    assert "\x1b" not in line


@pytest.mark.rule("K18")
@pytest.mark.parametrize(
    "unit", ["a", "a-", "a.", "token", "://", "://:", "loom_", "bearer ", "token=", '"', "https://:a"]
)
def test_a_long_hostile_line_is_redacted_in_time_that_grows_with_its_length(unit: str) -> None:
    started = time.perf_counter()
    redact_text(unit * (500_000 // len(unit)))
    assert time.perf_counter() - started < 15


@pytest.mark.rule("K18")
def test_where_a_log_call_stood_is_told_without_secrets(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    record = logger.makeRecord(
        "loomsvc.sample", logging.ERROR, "x.py", 1, "told", (), None, sinfo="in f(password=geheim)"
    )
    logger.handle(record)
    assert "in f(password=" in stream.getvalue()
    assert "geheim" not in stream.getvalue()


@pytest.mark.rule("FR-D3")
def test_a_line_starts_with_the_time_in_utc_the_level_and_the_logger(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    logger.error("größer als 1")
    at, level, name, message = stream.getvalue().rstrip("\n").split(" ", 3)
    assert at.endswith("Z")
    assert (level, name, message) == ("ERROR", "loomsvc.sample", "größer als 1")


@pytest.mark.rule("FR-H15", "K18")
def test_the_secrets_of_the_installation_are_registered_when_it_starts(settings: Any) -> None:
    settings.SECRET_KEY = "the-signing-key-of-this-installation"
    settings.REDIS_URL = "redis://:broker%2Fpassword@host:6379/0"
    apps.get_app_config("core").ready()
    for secret in (settings.SECRET_KEY, "broker/password", "broker%2Fpassword"):
        assert secret not in redact_text(f"it was {secret}")
