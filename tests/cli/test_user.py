"""``agenttrace user``: users of the console and the audit log, from the command line."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from typing import Any

import pytest

import forked
from agenttrace.serve.access import passwords
from agenttrace.serve.access.access_store import AccessStore

from .conftest import Program

PASSWORD = "correct horse battery staple"

pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")


def with_stdin(program: Program, text: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command that reads its standard input."""
    done = forked.run(
        program.command(*arguments),
        env=program.environment,
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def add(program: Program, name: str, *options: str, password: str = PASSWORD) -> str:
    return with_stdin(program, password + "\n", "user", "add", name, "--password-stdin", *options).stdout


def at_terminal(program: Program, typed: list[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command at a terminal and answer its questions; exit code, what it said, what the terminal showed."""
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        program.command(*arguments),
        env=program.environment,
        stdin=inner,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    said = ""
    for line in typed:
        # What is typed before the question is asked would be thrown away with the echo.
        while not said.endswith(": "):
            letter = process.stderr.read(1)
            assert letter, said
            said += letter
        os.write(outer, line.encode() + b"\n")
        said += "\n"
    out, rest = process.communicate(timeout=60)
    os.set_blocking(outer, False)
    try:
        shown = os.read(outer, 10_000).decode()
    except BlockingIOError:
        shown = ""
    os.close(inner)
    os.close(outer)
    return process.returncode, out + said + rest, shown


def audit(program: Program) -> list[tuple[str, str, str]]:
    """The log, oldest first; everything in it is by this user of the machine."""
    entries: list[dict[str, Any]] = program.json("user", "audit")
    assert {entry["user"] for entry in entries} <= {f"cli:{getpass.getuser()}"}
    return [(entry["action"], entry["target"], entry["outcome"]) for entry in reversed(entries)]


def test_users_from_the_first_to_the_last(program: Program) -> None:
    """They are added, listed, changed and removed, in words and in JSON, and the log has every step."""
    assert "there is no login" in program.run("user").stdout
    assert "ben can log in now, as a viewer." in add(program, "Ben")
    anna = json.loads(add(program, "anna", "--role", "admin", "--json"))
    assert {"name", "role", "password", "created_at", "changed_at", "logins", "last_seen_at"} == set(anna)
    assert (anna["name"], anna["role"], anna["logins"], anna["last_seen_at"]) == ("anna", "admin", 0, None)
    assert [(user["name"], user["role"]) for user in program.json("user", "list")] == [
        ("anna", "admin"),
        ("ben", "viewer"),
    ]
    assert "BEN".lower() in program.run("user", "list").stdout
    assert "ben is an admin now." in program.run("user", "role", "BEN", "admin").stdout
    assert program.json("user", "role", "ben", "viewer") == {"changed": "ben", "role": "viewer", "ended_logins": 0}
    with_stdin(program, "another good password\n", "user", "password", "ben", "--password-stdin")
    assert program.json("user", "remove", "ben") == {"removed": "ben", "ended_logins": 0}
    assert [user["name"] for user in program.json("user", "list")] == ["anna"]
    assert audit(program) == [
        ("user.add", "ben", "done"),
        ("user.add", "anna", "done"),
        ("user.role", "ben admin", "done"),
        ("user.role", "ben viewer", "done"),
        ("user.password", "ben", "done"),
        ("user.remove", "ben", "done"),
    ]
    assert "user.remove" in program.run("user", "audit", "--limit", "1").stdout


def test_changes_end_logins_at_once(program: Program) -> None:
    """Also those of a server that runs: its next look finds them gone, and the command says how many there were."""
    add(program, "anna")
    with AccessStore(program.home / "access.db") as store:
        kept = store.users.password_hash("anna")
        assert kept is not None
        assert passwords.matches(kept, PASSWORD)
        begun = [store.logins.begin("anna", kept, 3600) for _ in range(2)]
        assert program.json("user", "list")[0]["logins"] == 2
        done = with_stdin(program, "another good password\n", "user", "password", "Anna", "--password-stdin")
        assert "anna has a new password. 2 logins ended." in done.stdout
        assert all(each is not None and store.logins.find(each[0]) is None for each in begun)
        changed = store.users.password_hash("anna")
        assert changed is not None
        assert passwords.matches(changed, "another good password")


def test_mistakes_are_reported(program: Program) -> None:
    """What is wrong and what to do, with the right exit code; what was tried on users is in the log."""
    add(program, "anna")
    assert "already" in with_stdin(program, PASSWORD, "user", "add", "ANNA", "--password-stdin", code=1).stderr
    assert "cannot be a name" in with_stdin(program, PASSWORD, "user", "add", "a b", "--password-stdin", code=1).stderr
    assert "Did you mean anna?" in program.run("user", "role", "ana", "admin", code=1).stderr
    assert "Did you mean anna?" in program.run("user", "remove", "ana", code=1).stderr
    assert "there is no user named 'otto'" in program.run("user", "password", "otto", code=1).stderr
    assert (
        "at least 12 characters" in with_stdin(program, "short", "user", "add", "b", "--password-stdin", code=2).stderr
    )
    assert "the password cannot be asked for" in program.run("user", "add", "ben", code=2).stderr
    program.run("user", "role", "anna", "owner", code=2)
    program.run("user", "add", "ben", "--role", "owner", code=2)
    assert [outcome for _, _, outcome in audit(program)] == [
        "done",
        "there is a user named 'anna' already",
        "'a b' cannot be a name: 1 to 64 letters, digits and . _ @ + -, and neither local nor nobody",
        "there is no user named 'ana'",
        "there is no user named 'ana'",
    ]


def test_a_password_typed_at_a_terminal(program: Program) -> None:
    """It is asked for twice and never shown."""
    code, said, shown = at_terminal(program, [PASSWORD, PASSWORD], "user", "add", "anna")
    assert (code, "anna can log in now" in said) == (0, True)
    assert PASSWORD not in said + shown
    with AccessStore(program.home / "access.db") as store:
        assert passwords.matches(store.users.password_hash("anna") or "", PASSWORD)


def test_two_passwords_that_differ(program: Program) -> None:
    """Nobody gets a password that was mistyped."""
    code, said, _ = at_terminal(program, [PASSWORD, PASSWORD + "!"], "user", "add", "anna")
    assert (code, "the two passwords differ" in said) == (2, True)
    assert program.json("user", "list") == []


def test_a_damaged_file_is_reported(program: Program) -> None:
    """One line that names it and what to do; the trace store's own advice would not help."""
    add(program, "anna")
    (program.home / "access.db").write_bytes(b"x" * 5000)
    error = program.run("user", "list", code=1).stderr
    assert "access.db is damaged" in error
    assert "record --once" not in error


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_the_file_is_private(program: Program) -> None:
    """Whatever the umask, only its owner can read it."""
    add(program, "anna")
    assert (program.home / "access.db").stat().st_mode & 0o777 == 0o600
