"""The Host header: the console answers to this machine's names and to configured ones, and to no other."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import ServeSettings, SettingsError, load_settings
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.hosts import AllowedHosts, is_loopback_bind, machine_names, parse_host

from .access_rig import Rig, run_guarded, small_app, status_of

NAMES = ("localhost", "trace.example.com", "laptop", "laptop.local")
HOSTS = AllowedHosts("127.0.0.1", ["trace.example.com", "only.example.com:8443"], ["laptop", "laptop.local"])

ports = st.one_of(st.just(""), st.integers(0, 65_535).map(lambda port: f":{port}"))
addresses = st.one_of(st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(lambda address: f"[{address}]"))


@st.composite
def spelled(draw: st.DrawFn) -> str:
    """One of our names in any spelling."""
    name = "".join(draw(st.sampled_from((str.upper, str.lower)))(letter) for letter in draw(st.sampled_from(NAMES)))
    return name + draw(st.sampled_from(("", "."))) + draw(ports)


#: Anything, and what is nearly right.
near = st.builds(
    "".join,
    st.lists(
        st.one_of(
            st.sampled_from((*NAMES, ".", ":", "80", "[", "]", "::1", "127.0.0.1", "@", "/", "evil.com", "%", "\x00")),
            st.text(st.characters(max_codepoint=255), max_size=4),
        ),
        max_size=5,
    ),
)


def allowed(text: str) -> bool:
    host = parse_host(text)
    return host is not None and HOSTS.allow(host)


@given(st.one_of(spelled(), st.builds(str.__add__, addresses, ports)))
def test_our_names_and_all_addresses_pass(text: str) -> None:
    """In any case, with the root's dot, with any port; an address in numbers as well."""
    assert allowed(text)


@given(near)
def test_nothing_else_passes(text: str) -> None:
    """An accepted host is one of our names or an address, also when it is parsed as the host of a URL."""
    if not allowed(text):
        return
    parts = urlsplit(f"http://{text}/")
    assert parts.netloc == text
    assert parts.username is None
    name = (parts.hostname or "").removesuffix(".")
    if name not in NAMES:
        ipaddress.ip_address(name)


@given(st.integers(0, 65_535))
def test_a_name_with_a_port_is_allowed_on_that_port_only(port: int) -> None:
    """An entry such as only.example.com:8443 says which port."""
    assert allowed(f"only.example.com:{port}") is (port == 8443)
    assert not allowed("only.example.com")


def test_a_name_of_other_letters() -> None:
    """A name that is set as it is spoken is recognised as browsers send it."""
    host = parse_host("xn--mnchen-3ya.example")
    assert host is not None
    assert AllowedHosts("127.0.0.1", ["München.example"], []).allow(host)


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("localhost:8317", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.9.9.9:1", True),
        ("[::1]:8317", True),
        ("[0:0:0:0:0:0:0:1]", True),
        ("0.0.0.0:8317", False),
        ("[::]", False),
        ("10.0.0.5", False),
        ("laptop", False),
        ("localhost.example.com", False),
    ],
)
def test_which_names_mean_the_machine_itself(text: str, loopback: bool) -> None:
    """Loopback addresses and localhost; not the address that means all addresses."""
    host = parse_host(text)
    assert host is not None
    assert host.is_loopback is loopback


@pytest.mark.parametrize(
    "text", ["", ":80", ".", "localhost..", "127.1", "2130706433", "[127.0.0.1]", "::1", "[::1%lo]", "a b"]
)
def test_what_is_no_host_of_ours(text: str) -> None:
    """Other spellings of addresses, empty names, and what is no host at all."""
    assert not allowed(text)


@pytest.mark.parametrize(
    ("bind", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("10.0.0.5", False)],
)
def test_which_binds_are_loopback(bind: str, loopback: bool) -> None:
    """A server that listens on all addresses is not at home."""
    assert is_loopback_bind(bind) is loopback


def test_the_machine_has_names() -> None:
    """Its host name is among them, and none of them is empty."""
    assert machine_names()
    assert all(machine_names())
    assert all(name == name.lower() for name in machine_names())


def test_allowed_hosts_in_the_environment() -> None:
    """They are separated by commas, as a colon is followed by a port; what is no host name is refused in words."""
    name = "AGENTTRACE_SERVE_ALLOWED_HOSTS"
    settings = load_settings({"HOME": "/nowhere", name: "trace.example.com:8443, laptop"})
    assert settings.serve.allowed_hosts == ("trace.example.com:8443", "laptop")
    for wrong in ("https://trace.example.com", "*.example.com", "[::1]", "a/b"):
        with pytest.raises(SettingsError, match="Give a list of host names"):
            load_settings({"HOME": "/nowhere", name: wrong})


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    with AccessStore(tmp_path_factory.mktemp("hosts") / "access.db") as access:
        yield small_app(access, "127.0.0.1", ServeSettings(allowed_hosts=("trace.example.com",), login="none"))


@given(st.lists(st.one_of(spelled(), near), max_size=2))
def test_the_gate_asks_for_exactly_one_allowed_host(app: FastAPI, hosts: list[str]) -> None:
    """For any Host headers, 421 unless there is one and it is allowed; then it is a question of the login."""
    known = AllowedHosts("127.0.0.1", ["trace.example.com"])
    parsed = parse_host(hosts[0]) if len(hosts) == 1 else None
    status = asyncio.run(status_of(app, "GET", "/api/v1/things", [("host", host) for host in hosts]))
    if parsed is None or not known.allow(parsed):
        assert status == 421
    else:
        assert status == (200 if parsed.is_loopback else 401)


def test_dns_rebinding(home: Path) -> None:
    """A page whose own name was pointed at this machine reads nothing and learns no token, by any path."""

    async def body(rig: Rig) -> None:
        port = rig.url.rpartition(":")[2]
        for host in (
            "attacker.example",
            f"attacker.example:{port}",
            "localhost.attacker.example",
            "127.0.0.1.attacker.example",
        ):
            headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
            for path in ("/", "/api/v1/me", "/api/v1/things", "/assets/index.js"):
                answer = await rig.ask("GET", path, headers=headers)
                assert answer.status == 421
                assert "serve.allowed_hosts" in answer.detail
            assert (await rig.ask("POST", "/api/v1/things/a", csrf=await rig.csrf(), headers=headers)).status == 421
        assert rig.app.state.changes == []

    run_guarded(home, body)


def test_an_allowed_name_needs_a_login(home: Path) -> None:
    """A configured name is answered, and needs a login."""

    async def body(rig: Rig) -> None:
        headers = {"Host": "Trace.Example.com"}
        assert (await rig.ask("GET", "/", headers=headers)).status == 200
        assert (await rig.ask("GET", "/api/v1/things", headers=headers)).status == 401
        token = rig.user("anna")
        assert (await rig.ask("GET", "/api/v1/things", headers=headers, token=token)).body == b"anna"

    run_guarded(home, body, allowed_hosts=("trace.example.com",))
