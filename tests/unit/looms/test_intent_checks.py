"""The checks of the Loom ``intent``: which programs may run, and that none outstays its time."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.looms.intent_loom import checks, schemas, workspace

#: Holds a lock for as long as it lives, says so, and would live for long.
CHILD = (
    "import fcntl,time; f=open('lock','w'); fcntl.flock(f,fcntl.LOCK_EX); print('locked',flush=True); time.sleep(600)"
)
#: Starts CHILD, which keeps this process's output, and waits until it holds the lock.
PARENT = """
import os, subprocess, sys, time
read, write = os.pipe()
child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=write, start_new_session=ESCAPES)
os.read(read, 100)
print("child", child.pid, flush=True)
THEN
"""


def run(
    folder: Path, code: str, *arguments: str, seconds: float = 60, is_cancelled: Callable[[], bool] = lambda: False
) -> Any:
    check = schemas.Check(command=["python", "-c", "pass"], purpose="A test.")
    command = ["python", "-c", code, *arguments]
    # Longer than an argument of a plan may be, so past the model.
    check = check.model_copy(update={"command": command})
    return checks.run_check(check, sys.executable, folder=folder, seconds=seconds, is_cancelled=is_cancelled)


def parent(then: str, *, escapes: bool = False) -> str:
    return PARENT.replace("CHILD", repr(CHILD)).replace("ESCAPES", str(escapes)).replace("THEN", then)


def await_the_childs_end(folder: Path) -> None:
    """The lock is free when the child is gone; the test's own timeout ends a wait in vain."""
    with open(folder / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def test_a_check_passes_with_exit_code_0_only(tmp_path: Path) -> None:
    passed = run(tmp_path, "print('fine')")
    assert (passed.ended, passed.exit_code, passed.output, passed.left_out) == ("passed", 0, "fine\n", 0)
    assert passed.has_passed
    failed = run(tmp_path, "import sys; print('out', flush=True); sys.exit('err')")
    assert (failed.ended, failed.exit_code, failed.output) == ("failed", 1, "out\nerr\n")
    killed = run(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert (killed.ended, killed.exit_code) == ("failed", -9)
    assert not (failed.has_passed or killed.has_passed)


def test_there_is_no_shell_and_the_folder_is_the_working_folder(tmp_path: Path) -> None:
    words = ["$(touch a)", "; touch b", "*", "", "a b", "> c"]
    result = run(tmp_path, "import os, sys; print(os.getcwd()); print(sys.argv[1:])", *words)
    assert result.output == f"{tmp_path.resolve()}\n{words}\n"
    assert os.listdir(tmp_path) == []


def test_what_is_typed_at_the_service_does_not_reach_a_check(tmp_path: Path) -> None:
    (tmp_path / "typed").write_text("typed")
    terminal = os.dup(0)
    try:
        with open(tmp_path / "typed") as typed:
            os.dup2(typed.fileno(), 0)
        result = run(tmp_path, "import os, sys; print(repr(sys.stdin.read()), os.getsid(0) == os.getpid())")
    finally:
        os.dup2(terminal, 0)
        os.close(terminal)
    assert result.output == "'' True\n"


@pytest.mark.rule("K18")
def test_the_environment_holds_nothing_of_the_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOMSVC_SECRET_KEY", "DATABASE_URL", "LOOM_INTENT_COMMANDS", "PYTHONPATH", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "sentinel")
    result = run(tmp_path, "import os; [print(name, value) for name, value in os.environ.items()]")
    shown = dict(line.split(" ", 1) for line in result.output.splitlines())
    assert shown.keys() - {"LC_CTYPE"} == {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONDONTWRITEBYTECODE"}
    assert "sentinel" not in result.output
    assert shown["HOME"] == shown["TMPDIR"] != os.environ["HOME"]
    assert not Path(shown["HOME"]).exists()


def test_no_descriptor_of_the_service_is_handed_on(tmp_path: Path) -> None:
    with open(tmp_path / "open", "w") as file:
        os.set_inheritable(file.fileno(), True)
        result = run(tmp_path, "import os; print(sorted(map(int, os.listdir('/dev/fd')))[:-1])")
    assert result.output == "[0, 1, 2]\n"


def test_a_check_past_its_time_ends_with_all_that_it_started(tmp_path: Path) -> None:
    result = run(tmp_path, parent("time.sleep(600)"), seconds=5)
    assert (result.ended, result.exit_code) == ("timed_out", -signal.SIGKILL)
    assert result.output.startswith("child ")
    assert 5 <= result.seconds < 30
    await_the_childs_end(tmp_path)


def test_a_check_that_goes_on_without_output_is_past_its_time_too(tmp_path: Path) -> None:
    code = "import os, time; print('bye', flush=True); os.close(1); os.close(2); time.sleep(600)"
    result = run(tmp_path, code, seconds=3)
    assert (result.ended, result.output) == ("timed_out", "bye\n")


def test_a_check_that_ends_leaves_no_child_behind(tmp_path: Path) -> None:
    result = run(tmp_path, parent("sys.exit(3)"))
    assert (result.ended, result.exit_code) == ("failed", 3)
    await_the_childs_end(tmp_path)


def test_a_child_that_has_left_the_group_holds_nobody_up(tmp_path: Path) -> None:
    result = run(tmp_path, parent("sys.exit(0)", escapes=True).replace("stdout=write", "stderr=None, stdout=write"))
    assert result.has_passed
    assert result.seconds < 30
    os.kill(int(result.output.split()[1]), signal.SIGKILL)
    await_the_childs_end(tmp_path)


def test_a_flood_of_output_is_read_and_only_its_end_kept(tmp_path: Path) -> None:
    megabytes = 40
    code = f"import sys; [sys.stdout.write('x' * 1023 + chr(10)) for _ in range({megabytes} * 1024)]; print('the end')"
    result = run(tmp_path, code)
    assert result.has_passed
    assert result.output.endswith("x\nthe end\n")
    assert len(result.output) == checks.MAX_OUTPUT
    assert result.left_out == megabytes * 1024 * 1024 + len("the end\n") - checks.MAX_OUTPUT


def test_what_is_printed_last_is_kept_even_if_nobody_has_looked_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looks_away(process: Any, printed: Any, **_: Any) -> bool:
        os.set_blocking(process.stdout.fileno(), False)
        process.wait()
        return False

    monkeypatch.setattr(checks, "_watch", looks_away)
    assert run(tmp_path, "print('the only word')").output == "the only word\n"


def test_an_endless_flood_is_past_its_time(tmp_path: Path) -> None:
    result = run(tmp_path, "while True: print('y' * 1000)", seconds=3)
    assert result.ended == "timed_out"
    assert len(result.output) <= checks.MAX_OUTPUT
    assert result.left_out > 0


def test_what_is_printed_can_be_stored_and_read(tmp_path: Path) -> None:
    code = r"import os; os.write(1, b'\x1b[31mred\x1b[0m\r\n\0\x07\xff\xed\xa0\x80 \xe2\x80\xae ok\n')"
    assert run(tmp_path, code).output == "red\n\ufffd\ufffd\ufffd\ufffd  ok\n"
    binary = run(tmp_path, "import os; os.write(1, bytes(200 for _ in range(60000)))")
    assert len(binary.output.encode()) <= checks.MAX_OUTPUT


@pytest.mark.rule("R11")
def test_a_check_that_is_no_longer_wanted_is_ended(tmp_path: Path) -> None:
    code = parent("open('started', 'w'); time.sleep(600)")
    result = run(tmp_path, code, seconds=100, is_cancelled=(tmp_path / "started").exists)
    assert result.ended == "failed"
    assert result.seconds < 60
    await_the_childs_end(tmp_path)


def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    check = schemas.Check(command=["tool"], purpose="A test.")
    (tmp_path / "tool").write_text("no program")
    result = checks.run_check(check, str(tmp_path / "tool"), folder=tmp_path, seconds=9, is_cancelled=lambda: False)
    assert (result.ended, result.exit_code, result.output) == ("not_started", None, "Permission denied")
    assert not result.has_passed


def test_python_is_the_one_that_runs_the_service() -> None:
    assert checks.program("python", "python") == sys.executable


def test_programs_are_told_by_the_names_that_checks_call_them_by() -> None:
    assert list(checks.programs(os.pathsep.join(["/opt/bin/other", "", "tool"]))) == ["other", "tool"]
    assert checks.programs("") == {}


def test_a_program_is_found_by_its_name_or_where_the_operator_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tool", "other"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checks.program("tool", f"make{os.pathsep}tool") == str(tmp_path / "tool")
    assert checks.program("other", f"{tmp_path}/other{os.pathsep}tool") == str(tmp_path / "other")


@pytest.mark.parametrize(
    ("name", "commands", "why"),
    [
        ("sh", "", "allowed: none"),
        ("sh", "python", "allowed: python"),
        ("/bin/sh", "sh", "does not allow"),
        ("/bin/sh", "/bin/sh", "does not allow"),
        ("./sh", "sh", "does not allow"),
        ("../sh", "sh", "does not allow"),
        ("", "sh", "does not allow"),
        ("", f"sh{os.pathsep}{os.pathsep}", "does not allow"),
        ("sh ", "sh", "does not allow"),
        ("no-such-program", "no-such-program", "not installed"),
        ("sh", "bin/sh", "not installed"),
    ],
)
def test_no_other_program_is(
    name: str, commands: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(workspace.Refused, match=why):
        checks.program(name, commands)


@pytest.mark.parametrize("argument", ["a\nb", "a\0b", "a\u202eb", "\x1b[2J"], ids=ascii)
def test_an_argument_looks_to_the_person_as_it_is(argument: str) -> None:
    with pytest.raises(ValueError, match="printable characters"):
        schemas.Check(command=["python", argument], purpose="A test.")
