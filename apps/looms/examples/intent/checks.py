"""Running a check on this machine: a program that the operator allows, no shell, within bounds.

A check runs what an agent wrote, with the rights of the service's account.  What is done here keeps
it from going on for ever, from flooding the ledger, and from being handed the service's environment.
It is no sandbox.
"""

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from .schemas import UNWELCOME, Check, CheckResult
from .workspace import Refused

#: Bytes that are kept of what a check prints; the end says most.
MAX_OUTPUT = 4000
#: How often a silent check is looked at, and how often the Run is asked whether it is still wanted.
_LOOK_SECONDS = 0.05
_ASK_SECONDS = 1.0
_BLOCK = 65536
#: Blocks that are read after the end: more than a pipe holds.
_LAST_BLOCKS = 32
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def programs(commands: str) -> dict[str, str]:
    """What LOOM_INTENT_COMMANDS allows, by the name that a check calls it by."""
    return {Path(entry).name: entry for entry in commands.split(os.pathsep) if entry.strip()}


def program(name: str, commands: str) -> str:
    """The path of a program that is allowed.  ``python`` is the one that runs the service."""
    allowed = programs(commands)
    if name not in allowed:
        names = ", ".join(sorted(allowed)) or "none"
        raise Refused(f"LOOM_INTENT_COMMANDS does not allow the program {name!r}; allowed: {names}.")
    if allowed[name] == "python":
        return sys.executable
    found = shutil.which(allowed[name])
    if found is None or not os.path.isabs(found):
        raise Refused(f"The program {name!r} is allowed, but not installed on the service's machine.")
    return found


def run_check(
    check: Check, executable: str, *, folder: Path, seconds: float, is_cancelled: Callable[[], bool]
) -> CheckResult:
    """Run a check to its end or its timeout; what it started ends with it."""
    began = time.monotonic()
    printed = _Tail()
    with tempfile.TemporaryDirectory(prefix="loom-check-", ignore_cleanup_errors=True) as home:
        try:
            process = subprocess.Popen(  # noqa: S603 (no shell; the operator allows it and a person confirmed it)
                [executable, *check.command[1:]],
                cwd=folder,
                env=_environment(home),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            printed.add((error.strerror or type(error).__name__).encode())
            return _result(check, "not_started", None, 0.0, printed)
        try:
            is_late = _watch(process, printed, until=began + seconds, is_cancelled=is_cancelled)
        finally:
            _kill(process)
        printed.add_rest(process)
    ended: Literal["passed", "failed", "timed_out"] = "failed"
    if is_late:
        ended = "timed_out"
    elif process.returncode == 0:
        ended = "passed"
    return _result(check, ended, process.returncode, time.monotonic() - began, printed)


def _environment(home: str) -> dict[str, str]:
    """Nothing of the service's but where programs are."""
    return {
        "PATH": os.pathsep.join(os.get_exec_path()),
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


class _Tail:
    """The last bytes of what is printed."""

    def __init__(self) -> None:
        self.kept = b""
        self.left_out = 0

    def add(self, block: bytes) -> None:
        everything = self.kept + block
        self.kept = everything[-MAX_OUTPUT:]
        self.left_out += len(everything) - len(self.kept)

    def add_from(self, descriptor: int) -> bool:
        """Take one block; whether there may be more now."""
        try:
            block = os.read(descriptor, _BLOCK)
        except BlockingIOError:
            return False
        self.add(block)
        return bool(block)

    def add_rest(self, process: subprocess.Popen[bytes]) -> None:
        """Take what is in the pipe, without waiting for whoever may still hold its other end."""
        assert process.stdout is not None
        with process.stdout as pipe:
            for _ in range(_LAST_BLOCKS):
                if not self.add_from(pipe.fileno()):
                    break


def _watch(process: subprocess.Popen[bytes], printed: _Tail, *, until: float, is_cancelled: Callable[[], bool]) -> bool:
    """Take what the process prints until it ends; whether it was stopped because its time was over."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    ask_at = time.monotonic() + _ASK_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while process.poll() is None:
            now = time.monotonic()
            if now >= until:
                return True
            if now >= ask_at:
                if is_cancelled():
                    return False
                ask_at = now + _ASK_SECONDS
            if not selector.get_map():
                # It has closed its output and goes on.
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_SECONDS)
            elif selector.select(_LOOK_SECONDS) and not printed.add_from(pipe):
                selector.unregister(pipe)
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started, as far as that has stayed in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _result(
    check: Check,
    ended: Literal["passed", "failed", "timed_out", "not_started"],
    exit_code: int | None,
    seconds: float,
    printed: _Tail,
) -> CheckResult:
    text = UNWELCOME.sub("", _ESCAPES.sub("", printed.kept.decode(errors="replace")).replace("\r\n", "\n"))
    return CheckResult(
        command=check.command,
        purpose=check.purpose,
        ended=ended,
        exit_code=exit_code,
        seconds=round(seconds, 3),
        # What is no text grows when it is shown as such.
        output=text.encode()[-MAX_OUTPUT:].decode(errors="ignore"),
        left_out=printed.left_out,
    )
