"""A stop ends the program, whatever its threads are doing, and a second one does so at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from agenttrace.cli.stopping import Stop

from .conftest import Program

#: Far beyond what any stop may take here (1 s to drain, 1 s to close).
_BOUND = 60


@pytest.fixture
def hanging(program: Program, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """``agenttrace up`` with a request that hangs; its database is away, so that it starts in no time."""
    script = Path(__file__).with_name("hanging_program.py")
    process = subprocess.Popen(
        [sys.executable, str(script), request.param, "up", "--port", "0", "--json"],
        env=program.environment
        | {"AGENTTRACE_DATABASE_URL": "postgresql://127.0.0.1:1/none", "AGENTTRACE_RUN_DRAIN_SECONDS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        told = next(line for line in map(json.loads, process.stdout) if "url" in line)
        thread = threading.Thread(target=_send, args=(told["url"],), daemon=True)
        thread.start()
        assert any("hanging" in line for line in process.stderr)
        yield process
    finally:
        process.kill()
        process.communicate()
        thread.join()


def _send(url: str) -> None:
    """A request that is never answered."""
    sent = urllib.request.Request(f"{url}/v1/traces", b"{}", {"Content-Type": "application/json"})
    with suppress(OSError, HTTPException):
        urllib.request.urlopen(sent, timeout=_BOUND)


@pytest.mark.parametrize("hanging", ["intake", "loop", "busy"], indirect=True)
def test_a_stop_ends_a_hanging_server(hanging: subprocess.Popen[str]) -> None:
    """SIGTERM ends the process although a thread, or the loop itself, never comes back."""
    hanging.send_signal(signal.SIGTERM)
    assert hanging.wait(_BOUND) in (0, 1)


@pytest.mark.parametrize("hanging", ["reader"], indirect=True)
def test_ctrl_c_twice(hanging: subprocess.Popen[str]) -> None:
    """A second Ctrl-C does not wait for the drain."""
    hanging.send_signal(signal.SIGINT)
    hanging.send_signal(signal.SIGINT)
    assert hanging.wait(_BOUND) != 0


def test_a_stop_calls_back() -> None:
    """Callbacks run when the event is set, or at once where it is."""
    stop, called = Stop(), list[int]()
    stop.call(lambda: called.append(1))
    assert called == []
    stop.set()
    stop.call(lambda: called.append(2))
    assert called == [1, 2]
