"""``agenttrace doctor``: every check with its fix."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from agenttrace.run.simulator import environment

from .conftest import DATA, Program


def checks(program: Program, code: int = 0, env: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    found = program.json("doctor", code=code, env=env)
    assert found["ok"] is (code == 0)
    assert all(list(check) == ["name", "state", "found", "fix"] for check in found["checks"])
    assert all(check["fix"] for check in found["checks"] if check["state"] != "ok"), "a complaint without a fix"
    worst = {"ok": 0, "warn": 1, "fail": 2}
    by_name: dict[str, dict[str, str]] = {}
    for check in found["checks"]:
        known = by_name.get(check["name"])
        if known is None or worst[check["state"]] > worst[known["state"]]:
            by_name[check["name"]] = check
    return by_name


def test_a_healthy_machine(own_recorded: Program) -> None:
    """Nothing is wrong; a missing recorder is a warning."""
    found = checks(own_recorded)
    assert {name for name, check in found.items() if check["state"] != "ok"} == {"recorder"}
    assert {
        "python",
        "sqlite",
        "settings",
        "data directory",
        "disk space",
        "store",
        "agents",
        "retention",
    } <= found.keys()
    assert "Claude Code: 3 logs" in found["agents"]["found"]
    assert "environment AGENTTRACE_HOME" in found["settings"]["found"]
    text = own_recorded.run("doctor").stdout
    assert "0 wrong, 1 to check." in text
    assert "fix:" in text


def test_a_new_machine(program: Program) -> None:
    """No store, no logs: hints, not failures; nothing is created by looking."""
    found = checks(program)
    assert found["store"]["state"] == found["agents"]["state"] == "warn"
    assert "agenttrace demo" in found["agents"]["fix"]
    assert not program.home.exists()


def test_a_directory_that_others_can_read(own_recorded: Program) -> None:
    """What agents said is private: this is wrong, and the command that puts it right is given."""
    own_recorded.home.chmod(0o755)
    found = checks(own_recorded, code=1)
    assert found["data directory"]["state"] == "fail"
    assert "chmod go-rwx" in found["data directory"]["fix"]


def test_a_damaged_store(own_recorded: Program) -> None:
    """It is found and said, by the doctor and by every command that needs the store."""
    path = own_recorded.home / "agenttrace.db"
    data = bytearray(path.read_bytes())
    data[20_000 : len(data) // 2] = os.urandom(len(data) // 2 - 20_000)
    path.write_bytes(data)
    assert checks(own_recorded, code=1)["store"]["state"] == "fail"
    path.write_bytes(b"not a database at all" * 1000)
    assert checks(own_recorded, code=1)["store"]["state"] == "fail"
    assert "Rebuild it" in own_recorded.run("sessions", code=1).stderr


def test_wrong_settings(program: Program) -> None:
    """Which setting, where, and how to write it."""
    found = checks(program, code=1, env={"AGENTTRACE_RECORD_WORKERS": "many"})
    assert "AGENTTRACE_RECORD_WORKERS" in found["settings"]["found"]
    done = program.run("sessions", code=2, env={"AGENTTRACE_RECORD_WORKERS": "many"})
    assert "AGENTTRACE_RECORD_WORKERS" in done.stderr


def test_quarantined_lines(program: Program) -> None:
    """Lines that were not understood are worth a look."""
    program.run("record", str(DATA / "claude-code-log-testdata"), "--once")
    found = checks(program)
    assert found["quarantine"]["state"] == "warn"
    assert "3 entries" in found["quarantine"]["found"]


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not hold for root")
def test_logs_that_cannot_be_read(machine: Program) -> None:
    """The path and the command that opens it."""
    (machine.user / ".codex" / "sessions").chmod(0)
    try:
        assert checks(machine, code=1)["reading"]["state"] == "fail"
    finally:
        (machine.user / ".codex" / "sessions").chmod(0o700)


def age(directory: Path, days: float) -> None:
    then = time.time() - days * 86_400
    for path in directory.rglob("*.jsonl"):
        os.utime(path, (then, then))


def test_transcripts_that_will_be_deleted_soon(machine: Program) -> None:
    """Claude Code deletes after 30 days: unrecorded logs near that are a warning, recorded ones are not."""
    age(machine.user / ".claude", 27)
    found = checks(machine)["retention"]
    assert found["state"] == "warn"
    assert "after 30 days (its default; cleanupPeriodDays is not set)" in found["found"]
    assert "3 logs close to it and not recorded" in found["found"]
    assert "agenttrace record --once" in found["fix"]
    machine.run("record", "--once")
    found = checks(machine)["retention"]
    assert found["state"] == "ok"
    assert "3 logs close to it, all recorded" in found["found"]


def test_sessions_beyond_the_number_that_gemini_keeps(program: Program) -> None:
    """Those that its next start deletes are close to it, however new they are."""
    shutil.copytree(DATA / "gemini-cli-0.61.0" / ".gemini", program.user / ".gemini")
    settings = {"general": {"sessionRetention": {"maxCount": 3}}}
    (program.user / ".gemini" / "settings.json").write_text(json.dumps(settings))
    found = checks(program)["retention"]
    logs = list((program.user / ".gemini").glob("tmp/*/chats/session-*.jsonl"))
    assert found["state"] == "warn"
    assert "and all but the latest 3 of a project" in found["found"]
    assert f"{len(logs) - 2} logs close to it and not recorded" in found["found"]
    program.run("record", "--once")
    assert f"{len(logs) - 2} logs close to it, all recorded" in checks(program)["retention"]["found"]


def test_a_damaged_database_does_not_mend_itself(program: Program) -> None:
    """The way out is another one than for a database that is locked; status does not call it up to date."""
    database = program.user / ".local" / "share" / "opencode" / "opencode.db"
    database.parent.mkdir(parents=True)
    whole = (DATA / "opencode-1.18.33" / ".local" / "share" / "opencode" / "opencode.db").read_bytes()
    database.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    program.run("record", "--once")
    found = checks(program)["reading"]
    assert "database is damaged" in found["found"]
    assert "repair or restore it" in found["fix"]
    behind = next(line for line in program.run("status").stdout.splitlines() if line.startswith("behind"))
    assert "cannot be read" in behind
    database.write_bytes(whole)
    program.run("record", "--once")
    assert "reading" not in checks(program)
    assert program.run("status").stdout.splitlines()[1].split(maxsplit=1) == ["behind", "nothing"]


@pytest.mark.parametrize(("period", "state"), [(365, "ok"), (28, "warn"), (0, "warn")])
def test_the_period_in_force(machine: Program, period: int, state: str) -> None:
    """``cleanupPeriodDays`` of the user's own settings counts."""
    age(machine.user / ".claude", 27)
    (machine.user / ".claude" / "settings.json").write_text(json.dumps({"cleanupPeriodDays": period}))
    found = checks(machine)["retention"]
    assert found["state"] == state
    assert f"after {period} days (cleanupPeriodDays in " in found["found"]


def test_the_variables_of_applications(program: Program) -> None:
    """None: not configured. Some, or old names: which, and their new names. All: how many apps."""
    assert checks(program)["applications"]["state"] == "ok"
    some = checks(program, env={"DASHSCOPE_API_KEY": "sk-hunter2", "BAILIAN_APP_ID_1_CHAT": "x"})["applications"]
    assert some["state"] == "warn"
    assert "DASHSCOPE_APP_ID_1_CHAT" in some["found"]
    assert "BAILIAN_APP_ID_1_CHAT is now called DASHSCOPE_APP_ID_1_CHAT" in some["found"]
    assert "hunter2" not in str(some)
    variables = environment("http://127.0.0.1:1/api/v1")
    everything = checks(program, env=variables)
    assert everything["applications"]["found"].startswith("11 can be called")
    assert everything["chat"]["state"] == "warn"
    program.home.mkdir(mode=0o700)
    (program.home / "agenttrace.toml").write_text('[events.evening]\nchain = ["nobody"]\n', encoding="utf-8")
    assert checks(program, code=1, env=variables)["applications"]["state"] == "fail"


def test_the_database_of_applications(program: Program, database_url: str) -> None:
    """One of our own is not started to be looked at; another is asked, and its password is never shown."""
    assert checks(program)["database"]["state"] == "ok"
    assert not (program.home / "postgres").exists()
    assert "up to date" in checks(program, env={"AGENTTRACE_DATABASE_URL": database_url})["database"]["found"]
    url = "postgresql://u:hunter2@127.0.0.1:1/x"
    gone = checks(program, code=1, env={"AGENTTRACE_DATABASE_URL": url})["database"]
    assert gone["state"] == "fail"
    assert "hunter2" not in str(gone)
