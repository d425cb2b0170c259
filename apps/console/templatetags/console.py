"""What templates of the console share: badges, moments, ages, values and the hidden fields of a write."""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from typing import Any

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from apps.access.selectors.listing import CredentialEntry
from apps.console.principals import CREDENTIAL
from apps.console.sentences import LOOKS, SOURCES, clock_text, duration_text
from apps.core import clock

register = template.Library()

#: A longer value is cut, and the page says so.
MOST_CHARACTERS = 20_000


@register.filter
def status(word: str) -> SafeString:
    """A badge: the sign and the word say what the colour says."""
    look, sign = LOOKS.get(word, ("idle", "·"))
    return format_html('<span class="status status-{}"><span aria-hidden="true">{}</span> {}</span>', look, sign, word)


def _moment(value: dt.datetime | str | None) -> dt.datetime | None:
    return parse_datetime(value) if isinstance(value, str) else value


@register.filter
def moment(value: dt.datetime | str | None) -> SafeString | str:
    """A moment to the second, its microseconds for machines."""
    at = _moment(value)
    return "–" if at is None else format_html('<time datetime="{}">{}</time>', clock.to_wire(at), clock_text(at))


@register.filter
def age(value: dt.datetime | str | None) -> SafeString | str:
    """How long ago, the moment itself beside it for whoever points at it."""
    at = _moment(value)
    if at is None:
        return "–"
    told = duration_text((clock.now() - at).total_seconds())
    return format_html('<time datetime="{}" title="{}">{}</time>', clock.to_wire(at), clock_text(at), told)


@register.filter
def took(begin: dt.datetime | None, end: dt.datetime | None) -> str:
    """How long something took, to a hundredth of a second where that is readable."""
    if begin is None or end is None:
        return "–"
    seconds = max(0.0, (end - begin).total_seconds())
    return f"{seconds:.2f} s" if seconds < 120 else duration_text(seconds)


@register.filter
def value(data: Any) -> SafeString:
    """JSON to read, its keys in order, cut where it is long; the page says so."""
    text = json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True)
    if len(text) <= MOST_CHARACTERS:
        return format_html('<pre tabindex="0">{}</pre>', text)
    return format_html(
        '<pre tabindex="0">{}</pre><p class="dim">The first {} of {} characters.</p>',
        text[:MOST_CHARACTERS],
        f"{MOST_CHARACTERS:,}",
        f"{len(text):,}",
    )


@register.filter
def brief(data: Any) -> str:
    """JSON on one line, at most 120 characters."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return text if len(text) <= 120 else text[:119] + "…"


@register.filter
def short(identifier: object) -> str:
    """The end of an id: its beginning is a time that neighbours share."""
    return "…" + str(identifier)[-8:]


@register.filter
def source(word: str) -> str:
    """Where a call came from, in words."""
    return f"{SOURCES[word]} ({word})" if word in SOURCES else word


@register.filter
def readable(text: str) -> SafeString:
    """A person's text with a little of Markdown shown: headings, bold, code and points; all else stays as it is."""
    return mark_safe("\n".join(_line(line) for line in escape(text).split("\n")))  # noqa: S308 (escaped before)


def _line(line: str) -> str:
    if heading := re.fullmatch(r"#{1,6} +(.+?)(?: +#+)? *", line):
        return f"<strong>{heading[1].replace('**', '')}</strong>"
    line = re.sub(r"^( *)[-*] +", r"\1• ", line)
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(
        f"<code>{part[1:-1]}</code>"
        if len(part) > 2 and part[0] == part[-1] == "`"
        else re.sub(r"\*\*(\S(?:[^*]*\S)?)\*\*", r"<strong>\1</strong>", part)
        for part in parts
    )


@register.filter
def last_used(one: CredentialEntry) -> SafeString | str:
    """When a credential was last used; that is kept to the hour, so within it and before it was made are the same."""
    if one.last_used_at is None:
        return "never"
    at = max(one.last_used_at, one.created_at)
    if clock.now() - one.last_used_at < dt.timedelta(hours=1):
        return "within the last hour"
    return format_html("{} ago", age(at))


@register.simple_tag(takes_context=True)
def principal(context: Context, name: str) -> SafeString:
    """Who did something; of a credential what it is for as well, with the way to it (``apps.console.principals``)."""
    label = (context.get("credential_labels") or {}).get(name.removeprefix(CREDENTIAL))
    if label is None or not name.startswith(CREDENTIAL):
        return format_html("{}", name)
    if context.get("may_open_access"):
        label = format_html('<a href="{}">{}</a>', reverse("admin:console_access"), label)
    return format_html('{} <span class="dim mono">{}</span>', label, name)


@register.simple_tag(takes_context=True)
def operation(context: Context) -> SafeString:
    """The hidden fields that make a form one Operation, however often it is sent."""
    return format_html(
        '<input type="hidden" name="operationId" value="{}"><input type="hidden" name="serviceInstanceId" value="{}">',
        uuid.uuid4(),
        context["instance_id"],
    )
