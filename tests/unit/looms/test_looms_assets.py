"""Files of Skills, as every agent reads them."""

from __future__ import annotations

import base64
import hashlib

import pytest

from apps.looms.loaded import Asset


@pytest.mark.rule("A7")
@pytest.mark.parametrize(
    ("content", "encoding"),
    [(b"", "utf8"), ("Größe".encode(), "utf8"), (b"\xff\xfe", "base64"), (b"a\x00b", "base64")],
)
def test_a_file_is_text_where_json_can_hold_it_and_else_base64(content: bytes, encoding: str) -> None:
    asset = Asset("counting/table.txt", "table.txt", content)
    found, text = asset.encoded()
    assert found == encoding
    assert (text.encode() if found == "utf8" else base64.b64decode(text)) == content
    assert (asset.size, asset.sha256) == (len(content), hashlib.sha256(content).hexdigest())
