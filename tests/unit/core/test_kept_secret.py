"""Secrets that are made once and kept in a file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from apps.core.conf import kept_secret


@pytest.mark.rule("K17")
def test_all_who_begin_at_once_keep_the_same_secret(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret"
    gate = threading.Barrier(16)
    found: list[str] = []

    def begin() -> None:
        gate.wait()
        found.append(kept_secret(path))

    threads = [threading.Thread(target=begin) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {kept_secret(path)}
    assert len(found) == 16
    assert len(found[0]) > 64
    assert os.listdir(path.parent) == ["secret"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.rule("K17")
def test_a_file_without_a_secret_is_none(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch()
    made = kept_secret(path)
    assert made
    assert kept_secret(path) == made


@pytest.mark.rule("K17")
def test_a_secret_is_kept_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    made = kept_secret(tmp_path / "secret")
    assert made
    assert kept_secret(tmp_path / "secret") == made
    assert os.listdir(tmp_path) == ["secret"]
