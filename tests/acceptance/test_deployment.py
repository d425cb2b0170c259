"""Dockerfile, compose file and production settings: their structure, and their lines run for real."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.acceptance.conftest import needs_services
from tests.acceptance.container import ACCOUNT_COMMANDS, Image, compose_file, filled, instructions
from tests.acceptance.scaled import LOOMS, ROOT, Process, eventually, free_port, own_database

OWN = ("open", "web", "worker", "sweep")
HOST = "looms.example.org"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return compose_file()


def of(name: str) -> list[str]:
    return [arguments for instruction, arguments in instructions() if instruction == name]


@pytest.mark.rule("K27")
def test_the_image_installs_hash_pinned_packages_only_and_runs_without_root() -> None:
    installs = [line for line in of("RUN") if "install" in line]
    assert len(installs) == 1
    assert "--require-hashes -r /build/runtime.txt" in installs[0]
    requirements = re.sub(r"\\\n", " ", (ROOT / "requirements/runtime.txt").read_text()).splitlines()
    assert requirements
    assert all("==" in line and "--hash=sha256:" in line for line in requirements if not line.startswith("#"))
    assert set(of("FROM")) == {"python:3.11-slim-bookworm AS packages", "python:3.11-slim-bookworm"}
    order = [name for name, _ in instructions()]
    assert of("USER") == ["loomsvc"]
    assert order.index("USER") < order.index("CMD")
    assert "RUN" not in order[order.index("USER") :]
    assert any("--uid 10001" in line for line in of("RUN"))


@pytest.mark.rule("K27", "E6")
def test_no_secret_gets_into_the_image() -> None:
    assert not of("ARG")
    assert not re.search(r"SECRET|PASSWORD|TOKEN|_KEY|_URL", " ".join(of("ENV")))
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored[0] == "*"
    sources = {source for line in of("COPY") if not line.startswith("--from") for source in line.split()[:-1]}
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == sources


@pytest.mark.rule("K27")
def test_each_service_is_confined(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {"postgres", "redis", *OWN}
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["user"] in ("10001:10001", "postgres", "redis"), name
        assert "privileged" not in service
        assert "/tmp" in service["tmpfs"] or name == "redis"
        if name != "web":
            assert "ports" not in service, name
    assert compose["services"]["web"]["ports"] == ["127.0.0.1:${LOOMSVC_PORT:-8000}:8000"]
    assert compose["networks"]["inside"] == {"internal": True}
    for name in ("postgres", "redis"):
        assert compose["services"][name]["networks"] == ["inside"]
        assert re.fullmatch(rf"{name}:\d+-bookworm", compose["services"][name]["image"])


@pytest.mark.rule("K27", "E6")
def test_every_secret_of_the_compose_file_comes_from_outside(compose: dict[str, Any]) -> None:
    wanted = {"LOOMSVC_SECRET_KEY", "POSTGRES_PASSWORD", "REDIS_PASSWORD"}
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            if re.search("SECRET|PASSWORD|_URL", name):
                assert re.search(r"\$\{(\w+):\?", value)[1] in wanted, name
    for missing in wanted:
        given = dict.fromkeys({*wanted, "LOOMSVC_ALLOWED_HOSTS"} - {missing}, "x")
        with pytest.raises(KeyError, match=missing):
            filled(compose, given)
    # No password is an argument of a process.
    for service in compose["services"].values():
        assert not re.search(r"(?<!\$)\$\{\w*(PASSWORD|SECRET)", json.dumps(service.get("command", "")))


@pytest.mark.rule("K27")
def test_services_start_in_an_order_that_works(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["open"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["open"]["restart"] == "no"
    for name in ("web", "worker", "sweep"):
        assert services[name]["depends_on"] == {
            "open": {"condition": "service_completed_successfully"},
            "redis": {"condition": "service_healthy"},
        }
        assert services[name]["restart"] == "unless-stopped"
        assert services[name]["init"] is True
    for name in ("postgres", "redis"):
        assert services[name]["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    for name in ("open", "worker", "sweep"):
        assert services[name]["healthcheck"] == {"disable": True}, "the image's question is the web's"
    assert "healthcheck" not in services["web"]
    assert len(of("HEALTHCHECK")) == 1
    for name in OWN:
        assert services[name]["environment"]["DJANGO_SETTINGS_MODULE"] == "loomsvc.settings.production"


GOOD = {
    "LOOMSVC_SECRET_KEY": secrets.token_urlsafe(48),
    "LOOMSVC_ALLOWED_HOSTS": HOST,
    "DATABASE_URL": "postgresql://loomsvc:pw@127.0.0.1:1/none",
    "REDIS_URL": "redis://127.0.0.1:1/0",
}


def production(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in {**GOOD, **changes}.items() if value}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "loomsvc.settings.production", **environment},
    )  # fmt: skip


@pytest.mark.rule("K27")
def test_the_production_profile_passes_the_deployment_checks() -> None:
    done = production("manage.py", "check", "--deploy", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr


@pytest.mark.rule("K27")
@pytest.mark.parametrize(
    "changes",
    [
        {"LOOMSVC_DEBUG": "1"},
        {"LOOMSVC_FAILPOINT": "before_commit:kill"},
        {"LOOMSVC_EMBEDDED": "1"},
        {"LOOMSVC_SECRET_KEY": ""},
        {"LOOMSVC_SECRET_KEY": "short-but-s3cret"},
        {"LOOMSVC_SECRET_KEY": "ab" * 40},
        {"LOOMSVC_SECRET_KEY": f"django-insecure-{secrets.token_urlsafe(48)}"},
        {"LOOMSVC_ALLOWED_HOSTS": ""},
        {"LOOMSVC_ALLOWED_HOSTS": "*"},
        {"LOOMSVC_ALLOWED_HOSTS": f"{HOST},*"},
        {"LOOMSVC_ALLOWED_HOSTS": "*.example.org"},
        {"LOOMSVC_ALLOWED_HOSTS": ".example.org"},
        {"DATABASE_URL": ""},
        {"DATABASE_URL": "sqlite:////tmp/ledger"},
        {"REDIS_URL": ""},
    ],
    ids=lambda changes: "-".join(f"{name}={value[:12]}" for name, value in changes.items()),
)
def test_the_production_profile_refuses_what_is_unsafe(changes: dict[str, str]) -> None:
    (name, value) = next(iter(changes.items()))
    done = production("-c", "import loomsvc.settings.production", **changes)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "ImproperlyConfigured" in last
    assert name in last
    assert len(value) < 6 or value not in done.stderr


@pytest.mark.rule("K27")
def test_debug_is_off_and_cookies_need_tls_in_production() -> None:
    done = production(
        "-c",
        "from loomsvc.settings import production as p; print(p.DEBUG, p.SESSION_COOKIE_SECURE, p.CSRF_COOKIE_SECURE, "
        "p.SECURE_SSL_REDIRECT, p.EMBEDDED)",
    )
    assert done.stdout.split() == ["False", "True", "True", "True", "False"], done.stderr


@dataclass
class Standing:
    """The compose file's services as processes on this machine."""

    image: Image
    services: dict[str, Any]
    ports: dict[str, int]
    processes: list[Process] = field(default_factory=list)

    def moved(self, text: str) -> str:
        """``text`` with the image's places and the network's names as they are here."""
        text = self.image.placed(text).replace("@postgres:5432/loomsvc", self.services["database"])
        text = text.replace("@redis:6379", f"@127.0.0.1:{self.ports['redis']}")
        return re.sub(r"(?<=port=)8000|(?<=127.0.0.1:)8000(?=/)", str(self.ports["web"]), text)

    def environment(self, name: str) -> dict[str, str]:
        given = self.services[name]["environment"]
        return {**self.image.environment, **{key: self.moved(value) for key, value in given.items()}}

    def start(self, name: str) -> Process:
        command = [self.moved(part) for part in self.services[name]["command"]]
        if name == "redis":
            command[-1] = command[-1].replace("redis-server -", f"redis-server - --port {self.ports['redis']}")
        log = self.image.root / f"{name}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                command, cwd=self.image.root / "app", env=self.environment(name), stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.processes.append(Process(name, popen, log))
        return self.processes[-1]

    def exec(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """As ``docker compose exec`` does."""
        return subprocess.run(
            [self.moved(part) for part in command], cwd=self.image.root / "app", env=self.environment(name),
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def request(self, method: str, path: str, token: str, body: Any = None, *, tls: bool = True) -> tuple[int, Any]:
        """As the TLS proxy passes it on."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["web"], timeout=30)
        headers = {"Host": HOST, "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body),
                {**headers, **({"X-Forwarded-Proto": "https"} if tls else {})},
            )  # fmt: skip
            response = connection.getresponse()
            raw = response.read()
            return response.status, json.loads(raw) if raw.startswith((b"{", b"[")) else raw
        finally:
            connection.close()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory, compose: dict[str, Any]) -> Iterator[Standing]:
    """The image built into an empty folder, and the services of the compose file ready to be started."""
    needs_services()
    image = Image(tmp_path_factory.mktemp("image"))
    image.build()
    shutil.copytree(LOOMS / "single", image.root / "looms/single")
    passwords = {name: secrets.token_hex(16) for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD")}
    variables = {**passwords, "LOOMSVC_SECRET_KEY": secrets.token_hex(48), "LOOMSVC_ALLOWED_HOSTS": HOST}
    with own_database(os.environ["TEST_DATABASE_URL"]) as url:
        services = filled(compose, {**variables, "LOOMSVC_WORKER_SLOTS": "2"})["services"]
        parts = urlsplit(url)
        # The server of this machine has accounts of its own: only host, port and database are its.
        services["database"] = f"@{parts.hostname}:{parts.port or 5432}{parts.path}"
        account = f"{parts.username}:{parts.password or passwords['POSTGRES_PASSWORD']}@"
        for name in OWN:
            environment = services[name]["environment"]
            environment["DATABASE_URL"] = re.sub(r"//.*@", f"//{account}", environment["DATABASE_URL"])
        made = Standing(image, services, {"redis": free_port(), "web": free_port()})
        try:
            yield made
        finally:
            for process in made.processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.popen.wait(10)


@pytest.mark.rule("K27", "FR-H15")
def test_what_the_files_say_stands_up_and_runs_a_loom(standing: Standing) -> None:
    redis = standing.start("redis")
    question = standing.services["redis"]["healthcheck"]["test"][1].replace(
        "redis-cli", f"redis-cli -p {standing.ports['redis']}"
    )
    eventually(lambda: standing.exec("redis", "sh", "-c", question).returncode == 0, within=15, what="Redis is healthy")
    assert standing.services["redis"]["environment"]["REDIS_PASSWORD"].encode() not in b"".join(
        Path(f"/proc/{pid}/cmdline").read_bytes() for pid in [redis.pid, *redis.children()]
    )
    opened = standing.start("open")
    assert opened.ended(within=60) == 0, opened.text()
    assert "Opened service instance" in opened.text()

    web, worker, sweep = (standing.start(name) for name in ("web", "worker", "sweep"))
    health = standing.image.commands["HEALTHCHECK"]
    eventually(lambda: standing.exec("web", *health).returncode == 0, within=40, what="web is healthy")
    assert len(web.children()) >= 2, "several workers serve"
    worker.said(" ready.")

    assert standing.exec("web", "loomsvc", "project_create", "main").returncode == 0
    options = ["--project", "main", "--source", "studio", "--label", "test", "--json"]
    made = standing.exec("web", "loomsvc", "token_create", *options)
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)["token"]
    status, body = standing.request("GET", "/api/v1/status", token)
    assert status == 200, body
    assert standing.request("GET", "/api/v1/status", token, tls=False)[0] == 301
    identity = {"operationId": str(uuid.uuid4()), "serviceInstanceId": body["service"]["instanceId"]}
    status, body = standing.request(
        "POST", "/api/v1/runs", token, {**identity, "loomName": "single", "input": {"hold": False}}
    )
    assert status < 300, body
    path = f"/api/v1/runs/{body['run']['runId']}"

    def done() -> bool:
        return bool(standing.request("GET", path, token)[1]["run"]["status"] == "completed")

    eventually(done, within=30, what="the Run is done")
    checked = standing.exec("web", "loomsvc", "check", "--deploy", "--fail-level", "WARNING")
    assert checked.returncode == 0, checked.stderr

    for process in (web, worker, sweep):
        process.send(signal.SIGTERM)
    for process in (sweep, worker, web):
        assert process.ended(within=40) in (0, -signal.SIGTERM), process.text()[-2000:]
    assert standing.exec("web", *health).returncode != 0
    hidden = [standing.services["web"]["environment"]["LOOMSVC_SECRET_KEY"], token]
    hidden += [urlsplit(standing.services["web"]["environment"]["REDIS_URL"]).password or ""]
    for process in standing.processes:
        assert not any(secret in process.text() for secret in hidden), f"{process.name} logged a secret"


@pytest.mark.rule("K27")
def test_only_the_account_is_left_to_docker() -> None:
    skipped = [line for line in of("RUN") if line.startswith(ACCOUNT_COMMANDS)]
    assert len(skipped) == 2
    assert len(of("RUN")) > len(skipped)
