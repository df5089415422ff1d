"""A forked program behaves as one that was started: streams, exit codes, signals, environment, directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are forked on Linux only")

SAYS = "import os, sys\nprint(sys.argv[1:], os.getcwd(), sorted(os.environ), __name__, sys.stdin.read())\n"
PROGRAMS = {
    "says": SAYS,
    "code": "import sys\nsys.exit(int(sys.argv[1]))\n",
    "message": "import sys\nsys.exit('what went wrong')\n",
    "abort": "import os\nos.abort()\n",
    "thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()\n",
    "atexit": "import atexit\natexit.register(print, 'at the end')\nprint('first')\n",
    "broken": "import sys\nsys.stdout.close()\n",
}
#: What distinguishes no process from another.
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8", "MARK": "x"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_any_process(name: str, tmp_path: Path) -> None:
    """The same output, the same complaints, the same exit code."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAMS[name], encoding="utf-8")
    command = [sys.executable, str(script), "3", "包裹"]
    assert forked.can_fork(command, ENVIRONMENT)
    found, expected = (_outcome(run, command, tmp_path) for run in (forked.run, subprocess.run))
    assert found == expected


def _outcome(run: Callable[..., Any], command: list[str], cwd: Path) -> tuple[int, str, str]:
    done = run(command, env=ENVIRONMENT, cwd=cwd, input="given\n", text=True, encoding="utf-8", capture_output=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals(number: signal.Signals, tmp_path: Path) -> None:
    """It is ended by a signal, and says so; until then it runs."""
    script = tmp_path / "program.py"
    script.write_text("import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    with forked.popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert isinstance(process, forked.Popen)
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(60) == -number
        assert process.poll() == -number


def test_many_at_once(tmp_path: Path) -> None:
    """Each has its own end."""
    script = tmp_path / "program.py"
    script.write_text("import sys\nsys.exit(int(sys.argv[1]))\n")
    started = [forked.popen([sys.executable, str(script), str(code)]) for code in range(20)]
    assert [process.wait(60) for process in reversed(started)] == list(reversed(range(20)))


@pytest.mark.parametrize("variable", ["PYTHONHASHSEED", "FORCE_COLOR", "LC_ALL"])
def test_what_the_interpreter_reads_at_its_start_needs_a_start(variable: str) -> None:
    """Such a program is started as usual; so is one that is given as text."""
    command = [sys.executable, "-m", "agenttrace.cli.main"]
    assert not forked.can_fork(command, ENVIRONMENT | {variable: "0"})
    assert not forked.can_fork([sys.executable, "-c", "pass"], ENVIRONMENT)
    assert forked.can_fork([sys.executable, "-c", "pass"], ENVIRONMENT, late=True)


def test_a_program_given_as_text(tmp_path: Path) -> None:
    """It has its arguments, and a session of its own where one is wanted."""
    program = "import os, sys; print(sys.argv, __name__, os.getsid(0) == os.getpid())"
    for is_alone in (True, False):
        command = [sys.executable, "-c", program, "x"]
        with forked.popen(
            command, env=ENVIRONMENT, late=True, start_new_session=is_alone, stdout=subprocess.PIPE, text=True
        ) as process:
            assert isinstance(process, forked.Popen) == (sys.platform == "linux")
            assert process.communicate()[0] == f"['-c', 'x'] __main__ {is_alone}\n"


def test_a_changed_interpreter_needs_a_start(tmp_path: Path) -> None:
    """What every Python process of this path runs first has to run first."""
    command, environment = [sys.executable, "-m", "agenttrace.cli.main"], ENVIRONMENT | {"PYTHONPATH": str(tmp_path)}
    assert forked.can_fork(command, environment)
    (tmp_path / "sitecustomize.py").touch()
    assert not forked.can_fork(command, environment)
