"""loom_check, loom_graph and loom_test need no database; loom_list does."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.unit.looms.loom_folders import YAML, write_loom
from tests.unit.looms.test_looms_testing import SCRIPT


class Terminal(io.StringIO):
    """A stdout that somebody looks at."""

    def isatty(self) -> bool:
        return True


def run(name: str, *arguments: object, out: io.StringIO | None = None) -> tuple[int, str]:
    """Exit code and what was written to stdout, a file unless ``out`` is something else."""
    out = out or io.StringIO()
    try:
        call_command(name, *map(str, arguments), stdout=out, stderr=io.StringIO())
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue()
    return 0, out.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_loom(tmp_path / "notes", {"tests/revise.yaml": SCRIPT})


def test_a_sound_loom_is_ready(folder: Path) -> None:
    code, out = run("loom_check", folder)
    assert code == 0
    assert "notes is ready" in out


def test_a_broken_one_is_shown_with_places_and_the_exit_code_says_so(folder: Path) -> None:
    text = (folder / "loom.yaml").read_text()
    (folder / "loom.yaml").write_text(text.replace("revise: write", "revise: wrte"))
    code, out = run("loom_check", folder)
    assert code == 1
    assert "loom.yaml:31: error" in out
    assert "Did you mean `write`?" in out
    code, out = run("loom_check", "--json", folder)
    assert code == 1
    (report,) = json.loads(out)["looms"]
    assert report["diagnostics"][0]["line"] == 31
    assert run("loom_graph", folder)[0] == 1
    assert run("loom_test", folder)[0] == 1


def test_what_a_loom_prints_stays_out_of_the_result(folder: Path) -> None:
    with (folder / "steps.py").open("a") as file:
        file.write('\nprint("hello from the import")\n')
    for name in ("loom_check", "loom_graph", "loom_test"):
        code, out = run(name, "--json", folder)
        assert code == 0
        json.loads(out)


def test_a_graph_is_drawn(folder: Path) -> None:
    assert "Stage draft (entry)" in run("loom_graph", folder)[1]
    assert run("loom_graph", "--mermaid", folder)[1].startswith("flowchart TD")
    assert json.loads(run("loom_graph", "--json", folder)[1])["graph"]["entry"] == "draft"


@pytest.mark.parametrize("width", [80, 120])
def test_a_graph_is_drawn_whole_whether_or_not_a_terminal_shows_it(
    folder: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = "timeout 30s; retry 3 attempts on ConnectionError, backoff 1s; on_interrupt rerun; max_visits 5"
    monkeypatch.setenv("COLUMNS", str(width))
    assert f"├── {declared}\n" in run("loom_graph", folder)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", run("loom_graph", folder, out=Terminal())[1])
    assert max(len(line) for line in shown.splitlines()) <= width
    words = " ".join(line.strip("│├└─ ") for line in shown.splitlines())
    assert declared in words


def test_scripts_are_played_and_state_is_shown_after_each_step(folder: Path) -> None:
    code, out = run("loom_test", folder)
    assert code == 0
    assert "draft.review asked" in out
    assert "'text': 'one two three'" in out
    assert "passed completed: done" in out


def test_a_script_that_fails_is_told_and_the_exit_code_says_so(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(SCRIPT.replace("outcome: done", "outcome: empty"))
    code, out = run("loom_test", folder, "--script", tmp_path / "other.yaml")
    assert code == 1
    assert "outcome: expected 'empty', the Run ended with 'done'" in out
    code, out = run("loom_test", folder, "--json", "--script", tmp_path / "other.yaml")
    (report,) = json.loads(out)["scripts"]
    assert (code, report["passed"], report["outcome"]) == (1, False, "done")


def test_until_stops_early(folder: Path) -> None:
    code, out = run("loom_test", folder, "--until", "write")
    assert code == 0
    assert "draft.write written" in out
    assert "draft.review" not in out


@pytest.mark.parametrize(
    ("until", "hint"), [("wrte", "Did you mean `write`?"), ("draft.wrte", "Did you mean `draft.write`?")]
)
def test_until_must_name_a_step(folder: Path, until: str, hint: str) -> None:
    code, out = run("loom_test", folder, "--until", until)
    assert code == 1
    assert f"failed notes has no Step {until}. {hint}" in out


def test_the_debugger_opens_where_code_raised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "steps.py").open("a") as file:
        file.write("\ndef collect(step):\n    helper = 7\n    1 / 0\n")
    seen: list[object] = []
    monkeypatch.setattr(
        "apps.looms.management.commands.loom_test.pdb.Pdb.interaction",
        lambda self, frame, tb: seen.append(tb),
    )
    code, out = run("loom_test", folder, "--pdb")
    assert code == 1
    assert "ZeroDivisionError" in out
    assert len(seen) == 1


@pytest.mark.parametrize("name", ["loom_check", "loom_graph", "loom_test"])
def test_what_is_no_folder_is_wrong_use(name: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        run(name, tmp_path / "missing")
    assert caught.value.returncode == 2


@pytest.mark.parametrize("name", ["loom_check", "loom_graph", "loom_test"])
def test_for_the_file_in_it_the_folder_is_named(name: str, folder: Path) -> None:
    with pytest.raises(CommandError, match=f"name its folder, {folder}"):
        run(name, folder / "loom.yaml")


def test_a_graph_that_cannot_be_drawn_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "loom.yaml").write_text("loom: notes\n")
    assert run("loom_graph", folder) == (1, "")
    assert "loom.yaml:1: error The Loom lacks the key `title`." in capsys.readouterr().err


def test_a_script_that_cannot_be_read_is_wrong_use(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"description: \xff")
    for file, reason in ((tmp_path / "none.yaml", "No such file or directory."), (tmp_path / "latin.yaml", "UTF-8")):
        with pytest.raises(CommandError, match=reason) as caught:
            run("loom_test", folder, "--script", file)
        assert caught.value.returncode == 2


def test_a_folder_without_scripts_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--script"):
        run("loom_test", write_loom(tmp_path / "notes"))


def test_data_is_an_option_of_every_command(folder: Path, tmp_path: Path) -> None:
    assert run("loom_check", folder, "--data", tmp_path)[0] == 0


@pytest.mark.django_db
def test_looms_are_listed() -> None:
    code, out = run("loom_list")
    assert code == 0
    assert out.split()[:4] == ["STATUS", "LOOM", "TITLE", "RELEASE"]
    assert re.search(r"^✓ ready +capture +Capture a note +[0-9a-f]{12} *$", out, re.MULTILINE)
    assert "inventory" in json.loads(run("loom_list", "--json")[1])["looms"][2]["loomName"]


@pytest.mark.django_db(transaction=True)
def test_a_list_cuts_no_name_and_obeys_no_control_characters(loom_paths: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "n" * 64
    text = YAML.replace("loom: notes", f"loom: {name}").replace("title: Notes", 'title: "\\e]0;x\\a[red]Notes"')
    write_loom(loom_paths / "long", {"loom.yaml": text})
    write_loom(loom_paths / "broken", {"loom.yaml": "loom: broken"})
    out = run("loom_list")[1]
    assert name in out
    assert "\\x1b]0;x\\x07[red]Notes" in out
    assert "✗ invalid" in out
    assert "loom.yaml:1: error The Loom lacks the key `title`." in out
    monkeypatch.setenv("COLUMNS", "80")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", run("loom_list", out=Terminal())[1]).partition("\n\n")[0]
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    assert shown.count("n" * 10) > 1
    assert "…" not in shown
    assert "\x1b" not in shown + run("loom_graph", loom_paths / "long")[1]
