"""``agenttrace open`` and ``agenttrace token``: the way in for browsers and scripts, from the command line."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import forked
from agenttrace.cli import open as browser
from agenttrace.cli import output
from agenttrace.serve.access.link import StartToken, published

from .conftest import Program, eventually, stop


@pytest.fixture
def up(program: Program, background: Callable[..., subprocess.Popen[str]]) -> Iterator[tuple[Program, str]]:
    """A console without the run half, which these tests do not need, and its address."""
    program.environment["AGENTTRACE_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
    process = background("up", "--port", "0", "--json")
    assert process.stdout is not None
    url = next(told["url"] for told in map(json.loads, process.stdout) if "url" in told)
    yield program, url
    stop(process)


def asked(url: str, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{url}{path}", headers=headers, trust_env=False, timeout=60)


def test_the_way_in(up: tuple[Program, str]) -> None:
    """Without anything nothing is shown; the link of ``open`` lets a browser in, a token of ``token`` a script."""
    program, url = up
    refused = asked(url, "/api/v1/sessions")
    assert refused.status_code == 401
    assert "agenttrace open" in refused.json()["detail"]
    found = program.json("open")
    assert (found["url"], found["token"]) == (url, True)
    assert found["link"].startswith(f"{url}/?token=")
    assert program.run("open", "--no-browser").stdout.strip() == found["link"]
    assert program.json("open", "--port", str(urlsplit(url).port)) == found
    assert "Running: " + url in program.run("open", "--port", "1", code=1).stderr
    with httpx.Client(trust_env=False, timeout=60, follow_redirects=True) as visitor:
        page = visitor.get(found["link"], headers={"Accept": "text/html"})
        assert (page.status_code, str(page.url)) == (200, f"{url}/")
        assert visitor.get(f"{url}/api/v1/sessions").status_code == 200
    token = program.run("token", "create", "ci").stdout.strip()
    assert asked(url, "/api/v1/sessions", Authorization=f"Bearer {token}").status_code == 200
    listed = program.json("token", "list")
    assert [(each["name"], each["role"], each["expires_at"]) for each in listed] == [("ci", "viewer", None)]
    assert program.json("token", "revoke", "ci") == {"revoked": "ci"}
    assert asked(url, "/api/v1/sessions", Authorization=f"Bearer {token}").status_code == 401


def test_the_token_is_in_no_output_that_is_kept(up: tuple[Program, str]) -> None:
    """Neither in the JSON of ``up``, nor in the arguments of any process, nor in a file that others may read."""
    program, url = up
    token = program.json("open")["link"].rpartition("=")[2]
    if Path("/proc").is_dir():
        arguments = b"".join(_read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
        assert token.encode() not in arguments
    holders = [path for path in program.home.rglob("*") if path.is_file() and token.encode() in _read(path)]
    assert [path.parent.name for path in holders] == ["consoles"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (program.home, *holders))
    assert asked(url, "/").headers["Referrer-Policy"] == "no-referrer"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_without_a_console(program: Program) -> None:
    """Told with what to do."""
    told = program.run("open", code=1)
    assert "no console runs" in told.stderr
    assert "agenttrace up" in told.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_at_a_terminal_the_link_is_printed(program: Program) -> None:
    """A terminal gets the link with its token; a file or a pipe gets the address only."""
    program.environment["AGENTTRACE_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
    program.environment["TERM"] = "dumb"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        program.command("up", "--port", "0", "--no-browser"),
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    told = b""
    try:
        while b"/?token=" not in told:
            told += os.read(ours, 4096)
    finally:
        process.terminate()
        _drain(ours)
        process.wait(60)
        os.close(ours)
    # The link is whole, on a line of its own where the terminal is too narrow for both.
    assert re.search(rb"The console is at\s+http://127\.0\.0\.1:\d+/\?token=", told)


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        pass


def test_output_that_may_be_kept_has_no_token(
    program: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """Into a pipe or a file, ``up`` prints the address and where the link is to be had."""
    program.environment["AGENTTRACE_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
    process = background("up", "--port", "0")
    token = eventually(lambda: _token(program), "the console")
    time.sleep(0.1)
    out, err = stop(process)
    assert re.search(r"To log in with a browser: \S*agenttrace open", out)
    assert token not in out + err


def _token(program: Program) -> str:
    done = forked.run(
        program.command("open", "--json"), env=program.environment, capture_output=True, text=True, check=False
    )
    return str(json.loads(done.stdout)["link"]).rpartition("=")[2] if done.returncode == 0 else ""


def test_the_old_behaviour_is_warned_about(program: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """With serve.login = "none" everything is open to the machine, and said to be."""
    program.environment["AGENTTRACE_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
    program.environment["AGENTTRACE_SERVE_LOGIN"] = "none"
    process = background("up", "--port", "0")
    assert process.stderr is not None
    told = ""
    while "every program of this machine" not in told:
        told += (line := process.stderr.readline())
        assert line, told
    found = program.json("open")
    assert (found["token"], found["link"]) == (False, found["url"])
    assert asked(found["url"], "/api/v1/sessions").status_code == 200
    stop(process)


@pytest.mark.parametrize("command", ["serve", "worker", "up"])
def test_a_short_internal_token_is_refused(
    program: Program, background: Callable[..., subprocess.Popen[str]], command: str
) -> None:
    """Server and worker do not start with it; ``up`` records and shows, and runs nothing. It is not repeated."""
    from agenttrace.run.simulator import environment

    program.environment |= environment("http://127.0.0.1:1") | {"INTERNAL_API_TOKEN": "fifteen-chars-x"}
    if command == "up":
        process = background("up", "--port", "0")
        assert process.stderr is not None
        err = ""
        while "INTERNAL_API_TOKEN" not in err:
            err += (line := process.stderr.readline())
            assert line, err
        stop(process)
        assert "recording continues" in err
    else:
        err = program.run(command, code=2).stderr
    assert "INTERNAL_API_TOKEN has 15 characters, at least 16 are needed" in err
    assert "secrets.token_urlsafe" in err
    assert "fifteen-chars-x" not in err


def test_tokens_for_scripts(program: Program) -> None:
    """Created once, listed without themselves, revoked by name; every change is in the audit log."""
    assert "There are no API tokens" in program.run("token").stdout
    made = program.json("token", "create", "Ops", "--role", "admin", "--days", "2")
    assert made["token"].startswith("agt_")
    assert (made["name"], made["role"], made["last_used_at"], made["expired"]) == ("ops", "admin", None, False)
    assert made["expires_at"] > made["created_at"]
    listed = program.run("token", "list")
    assert "ops" in listed.stdout
    assert made["token"] not in listed.stdout
    assert "already" in program.run("token", "create", "ops", code=1).stderr
    assert "Did you mean ops?" in program.run("token", "revoke", "opp", code=1).stderr
    program.run("token", "revoke", "ops")
    found = [(row["action"], row["outcome"]) for row in program.json("user", "audit")]
    assert found[-1] == ("token.create", "done")
    assert found[0] == ("token.revoke", "done")
    assert made["token"] not in program.run("user", "audit", "--json").stdout


def test_the_browser_is_led_by_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser opens a private file with the link, so that the link is in no process arguments."""
    opened: list[str] = []

    def note(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", note)
    link = StartToken().link("http://127.0.0.1:1")
    with published(tmp_path, "http://127.0.0.1:1", link):
        assert browser.open_link(tmp_path, link)
        assert browser.open_link(tmp_path, link)
    (first, second) = opened
    assert first == second
    assert link.rpartition("=")[2] not in first
    file = Path(urlsplit(first).path)
    assert link in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("terminal", "variables", "opens"),
    [
        (True, {"DISPLAY": ":0"}, True),
        (True, {}, False),
        (False, {"DISPLAY": ":0"}, False),
        (True, {"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, False),
    ],
)
def test_where_a_browser_is_opened(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, variables: dict[str, str], opens: bool
) -> None:
    """Only at a terminal on a machine with a graphical browser; never a text browser."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(output, "is_terminal", lambda: terminal)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert browser.can_open() is opens
