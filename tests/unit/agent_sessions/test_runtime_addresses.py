"""No provider, however it is written, leads to an address that is not public, unless an operator named its host."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from apps.agent_sessions.domain.programs import Program
from apps.agent_sessions.runtime.addresses import AddressRefused, Host, is_public, read_base_url, require_reachable
from apps.agent_sessions.runtime.ended import Access, Failed, Limits, Succeeded
from apps.agent_sessions.runtime.files import ModelsInvalid
from apps.agent_sessions.runtime.fitting import check_schema, find_misfits
from apps.agent_sessions.runtime.models import read_catalogue
from apps.agent_sessions.runtime.reasoning import reason
from apps.agent_sessions.runtime.transport import GuardedTransport
from tests.loopback_provider import Provider, loopback_provider, says

PRIVATE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "169.254.169.254",
    "172.16.0.1", "192.168.1.1", "192.0.0.192", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255",
    "168.63.129.16", "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1",
    "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::", "::ffff:0:7f00:1", "2606:4700::5efe:7f00:1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]


@pytest.mark.rule("K19")
@pytest.mark.parametrize(("text", "public"), [*((one, False) for one in PRIVATE), *((one, True) for one in PUBLIC)])
def test_an_address_is_public_or_it_is_not(text: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(text)) is public


@pytest.mark.rule("K19")
@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "ftp://example.org", "gopher://127.0.0.1", "//example.org/v1", "example.org/v1", "",
        "http://", "https:///v1", "https://user@example.org", "https://user:secret@example.org/v1",
        "https://example.org/v1?key=1", "https://example.org/v1#part", "http://[::1", "https://example.org:port",
    ],
)  # fmt: skip
def test_a_base_url_is_plain_http(url: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        read_base_url(url)
    assert "secret" not in str(refused.value)
    with pytest.raises(ModelsInvalid):
        read_catalogue(f"providers: {{p: {{kind: openai, base_url: '{url}', models: [m]}}}}", "models.yaml")


@pytest.mark.rule("K19")
def test_a_name_that_points_inside_as_well_is_refused_and_one_that_is_allowed_is_not() -> None:
    host = Host("provider.example", 8080)
    with pytest.raises(AddressRefused, match="allow_hosts"):
        require_reachable(host, ["8.8.8.8", "10.0.0.1"], allowed=["other.example", "provider.example:80"])
    for named in ("provider.example", "Provider.Example:8080"):
        assert require_reachable(host, ["10.0.0.1"], allowed=[named]) == ["10.0.0.1"]
    assert require_reachable(Host("::1", 80), ["::1"], allowed=["[::1]:80"]) == ["::1"]


FORMS = [
    "127.0.0.1", "localhost", "LOCALHOST.", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0.0.0.0",
    "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]",
]  # fmt: skip


@pytest.fixture
def provider() -> Iterator[Provider]:
    with loopback_provider() as found:
        yield found


def ask(base_url: str, kind: str = "openai", **changes: Any) -> Any:
    access = Access(kind=kind, provider="loop", model="m", base_url=base_url, api_key="key", **changes)
    return reason(
        Program("loop/m", "Say it."),
        "hello",
        tools={},
        access=access,
        limits=Limits(request_seconds=3, request_retries=0),
        before_request=lambda: True,
        report=lambda _: None,
    )


@pytest.mark.rule("K19", "FR-H1", "B6")
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("form", [*FORMS, "169.254.169.254"])
def test_the_real_clients_reach_nothing_inside_in_whatever_form(provider: Provider, form: str, kind: str) -> None:
    ended = ask(f"http://{form}:{provider.port}/v1", kind)
    assert isinstance(ended, Failed)
    assert (ended.reason, ended.usage.requests) == ("address_refused", 0)
    assert provider.requests == []


@pytest.mark.rule("K19", "B6")
def test_a_host_is_reached_once_it_is_allowed(provider: Provider) -> None:
    ended = ask(f"http://localhost:{provider.port}/v1", allowed_hosts=frozenset({f"localhost:{provider.port}"}))
    assert isinstance(ended, Succeeded)
    assert provider.requests[0].headers["host"] == f"localhost:{provider.port}"


@pytest.mark.rule("K19")
def test_the_environment_sends_nobody_through_a_proxy(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://{provider.host}")
    ended = ask("http://provider.invalid/v1")
    assert isinstance(ended, Failed)
    assert (ended.reason, provider.requests) == ("connection_failed", [])


class _Inner(httpx2.AsyncBaseTransport):
    def __init__(self) -> None:
        self.urls: list[httpx2.URL] = []
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if request.url.host == "8.8.4.4":
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200, stream=httpx2.ByteStream(b"{}"))


@pytest.mark.rule("K19")
@pytest.mark.parametrize("named", ["fa\u00df.example", "xn--fa-hia.example", "FA\u00df.example"])
def test_a_name_beyond_ascii_is_one_host_to_url_resolver_and_tls(named: str) -> None:
    asked: list[str] = []

    async def inside(name: str, port: int) -> list[str]:
        asked.append(name)
        return ["10.0.0.1"]

    async def get(allowed: list[str]) -> httpx2.Request:
        guarded, inner = GuardedTransport(allowed_hosts=allowed, resolver=inside), _Inner()
        guarded._inner = inner  # type: ignore[assignment]
        async with httpx2.AsyncClient(transport=guarded) as client:
            await client.get(f"https://{named}/v1")
        return inner.requests[-1]

    with pytest.raises(AddressRefused):
        asyncio.run(get(["fass.example"]))
    for allowed in ("fa\u00df.example", "xn--fa-hia.example"):
        reached = asyncio.run(get([allowed]))
        assert reached.headers["host"] == reached.extensions["sni_hostname"] == "xn--fa-hia.example"
    assert set(asked) == {"xn--fa-hia.example"}


@pytest.mark.rule("K19")
def test_a_name_that_turns_cannot_move_the_connection() -> None:
    answers = [["8.8.4.4", "8.8.8.8"], ["127.0.0.1"]]
    asked: list[str] = []

    async def turning(name: str, port: int) -> list[str]:
        asked.append(f"{name}:{port}")
        return answers[len(asked) - 1]

    guarded, inner = GuardedTransport(resolver=turning), _Inner()
    guarded._inner = inner  # type: ignore[assignment]

    async def twice() -> None:
        async with httpx2.AsyncClient(transport=guarded) as client:
            assert (await client.post("https://provider.example/v1", content=b"hello")).status_code == 200
            with pytest.raises(AddressRefused):
                await client.get("https://provider.example/v1")

    asyncio.run(twice())
    assert asked == ["provider.example:443"] * 2
    assert [one.url.host for one in inner.requests] == ["8.8.4.4", "8.8.8.8"]
    reached = inner.requests[-1]
    assert reached.headers["host"] == "provider.example"
    assert reached.extensions["sni_hostname"] == "provider.example"


@pytest.mark.rule("K19")
def test_a_schema_fetches_nothing(provider: Provider) -> None:
    provider.answers = [says("{}")]
    far = {"type": "object", "properties": {"a": {"$ref": f"http://{provider.host}/schema.json"}}}
    assert [(one.code, one.path) for one in check_schema(far)] == [("reference", "/properties/a/$ref")]
    assert [one.code for one in find_misfits(far, {"a": 1}, max_bytes=1000)] == ["schema"]
    assert provider.requests == []
