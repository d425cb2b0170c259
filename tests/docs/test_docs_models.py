"""The pages about models say what the code says: keys of the file, reasons of failures, bounds."""

from __future__ import annotations

import re

import pytest
from docs_pages import ROOT, blocks, prose, table

from apps.agent_sessions.runtime import failing, models
from apps.agent_sessions.runtime.ended import Limits
from apps.agent_sessions.runtime.models import read_catalogue
from apps.agent_sessions.runtime.scripts import read_scripts

DOCS = ROOT / "docs"
PROVIDERS = DOCS / "how-to" / "add-a-provider.md"
EXPLAINED = DOCS / "explanation" / "models-of-the-service.md"


def test_the_table_of_the_file_has_every_key() -> None:
    shown = [row["key"] for row in table(PROVIDERS, "key", "default", "says")]
    providers = [f"providers.NAME.{name}" for name in models._ProviderShape.model_fields]
    assert shown == [*providers, *(name for name in models._FileShape.model_fields if name != "providers")]
    row = next(row for row in table(PROVIDERS, "key", "default", "says") if row["key"] == "providers.NAME.models")
    assert all(name in row["says"] for name in models._ModelShape.model_fields)


@pytest.mark.parametrize("number", range(2))
def test_the_files_of_models_that_are_shown_are_taken(number: int) -> None:
    shown = [block for block in blocks(PROVIDERS) if block.language == "yaml"]
    assert len(shown) == 2
    assert len(read_catalogue(shown[number].text, "models.yaml").models) > 1


def test_the_script_that_is_shown_is_taken() -> None:
    shown = {block.file: block.text for block in blocks(DOCS / "how-to" / "script-the-offline-model.md")}
    assert list(read_scripts(shown["looms/greeting/offline.yaml"], "offline.yaml")) == ["greeter"]


def test_the_table_of_reasons_is_that_of_the_code() -> None:
    source = (ROOT / "apps/agent_sessions/runtime/failing.py").read_text()
    given = set(re.findall(r'Fault\(\s*"([a-z_]+)"', source))
    shown = [row["reason"] for row in table(EXPLAINED, "reason", "what happened")]
    assert len(shown) == len(set(shown))
    assert set(shown) == given
    assert failing.MODEL_REQUEST_FAILED.upper() in prose(EXPLAINED)


def test_the_bounds_that_are_told_are_those_of_the_code() -> None:
    limits = Limits()
    assert (limits.turns, limits.tool_calls, limits.request_seconds, limits.seconds) == (40, 256, 300, 1800)
    assert (limits.output_repairs, limits.request_retries, limits.retry_seconds) == (3, 2, 1)
    assert "40 responses, 256 Tool calls, five minutes for a request" in prose(EXPLAINED)
