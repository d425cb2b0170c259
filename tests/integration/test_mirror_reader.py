"""The second reader of the format, made from its page alone, reads what the service exports."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from django.core.management import call_command
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conftest import Service
from tests.integration.agent_work import waiting_agent
from tests.integration.diverging_runs import add_keeper, creates, paused, removes, resume, somebody
from tests.integration.mirror_work import RICH, mirrors_folder
from tests.tools import mirror_reader
from tests.tools.mirror_reader import Damaged, open_mirror

__all__ = ["mirrors_folder"]


def exported(run: dict[str, Any], place: Path) -> Path:
    call_command("mirror_export", run["traceId"], "--project", "trials", "--to", str(place), "--json")
    return place


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("mirrors_folder")
@pytest.mark.rule("M1", "M3")
@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_the_second_reader_verifies_what_the_service_exports(
    service: Service, loom_paths: Path, tmp_path: Path, name: str
) -> None:
    add_keeper(loom_paths)
    somebody(service, "other/main", creates("a", 1))
    reads = {"read": [["other", "main"]]}
    keeper = paused(service, [reads, {"put": "mine", "record": "kept"}, {"remove": True}, reads, {}], steps=3)
    somebody(service, "other/main", removes("a", 1))
    somebody(service, "other/main", creates("b", 2))
    resume(service, keeper, abandonMirror=True)
    source = service.finish(do=RICH)
    fork = service.operate("fork_run", runId=source["runId"], boundary=1)["run"]
    agent = waiting_agent(service)
    agent.tool("add", line="noted")
    agent.complete(outcome="written", text="said")
    service.work()
    for number, run in enumerate([fork, agent.run(), service.run(keeper["runId"])]):
        with open_mirror(exported(run, tmp_path / f"{number}-{name}")) as mirror:
            [line] = mirror.lines("run.jsonl")
            assert (line["runId"], line["held"]["boundary"]) == (run["runId"], run["boundary"])
            files = service.call("list_looms")["looms"]
            assert line["releaseDigest"] in {loom["releaseDigest"] for loom in files}
            assert b"loom:" in mirror.release_file("loom.yaml")
            events = service.call("list_run_events", runId=run["runId"], limit=200)["events"]
            told = [(one["seq"], one["type"]) for one in mirror.lines("events.jsonl")]
            assert told == [(one["seq"], one["type"]) for one in events][: len(told)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("mirrors_folder")
@pytest.mark.rule("M3", "M7")
def test_the_second_reader_finds_every_byte_that_is_another(service: Service, tmp_path: Path) -> None:
    bundle = exported(service.finish(do=RICH), tmp_path / "bundle.zip")
    # Alone, without anything that is installed.
    alone = [sys.executable, "-I", "-S", mirror_reader.__file__, str(bundle)]
    done = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "verified"), done
    content = bundle.read_bytes()
    chance = random.Random("flipped")
    for _ in range(40):
        at, bit = chance.randrange(len(content)), 1 << chance.randrange(8)
        damaged = tmp_path / "damaged.zip"
        damaged.write_bytes(content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :])
        with pytest.raises(Damaged), open_mirror(damaged):
            pass
    for shorter in (content[:-1], content[1:], content + b"\0", b"", b"PK\x05\x06" + bytes(18)):
        damaged.write_bytes(shorter)
        with pytest.raises(Damaged), open_mirror(damaged):
            pass
    done = subprocess.run([*alone[:-1], str(damaged)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split()[0]) == (1, "damaged"), done


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("mirrors_folder")
@pytest.mark.rule("M3", "M7", "K20")
def test_the_second_reader_finds_what_is_odd_in_a_folder(service: Service, tmp_path: Path) -> None:
    bundle = exported(service.finish(do=RICH), tmp_path / "bundle")

    def check(says: str) -> None:
        with pytest.raises(Damaged, match=says), open_mirror(bundle):
            pass

    log = bundle / "log.jsonl"
    (bundle / "more").write_text("")
    check("only the manifest, or only the folder, has it")
    (bundle / "more").unlink()
    (bundle / "linked").symlink_to(log)
    check("neither a folder nor a plain file")
    (bundle / "linked").unlink()
    (bundle / "linked").hardlink_to(log)
    check("neither a folder nor a plain file")
    (bundle / "linked").unlink()
    kept = log.read_bytes()
    log.unlink()
    check("only the manifest, or only the folder, has it")
    log.write_bytes(kept + b"\n")
    check("its size is another")
    log.write_bytes(kept)
    with open_mirror(bundle):
        pass


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.rule("M1")
@given(JSON)
@example([1e21, 1e-6, 1e-7, 123456789012345680000.0, 0.1, -0.0, 5e-324, 1.7976931348623157e308, 9007199254740992.0])
@example({"\ufb33": 1, "\U0001f600": 2, "\r": 3, "1": 4})
def test_the_second_reader_writes_json_as_the_rfc_has_it(value: Any) -> None:
    assert mirror_reader.canonical(value) == rfc8785.dumps(value)
