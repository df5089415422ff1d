"""Python programs as processes that start quickly: forked from a process that has already imported the package.

A fork is a real process, with its own environment, streams, signals and exit code; it skips only the start of the
interpreter and the imports, which take longer than most commands. ``Popen`` is ``subprocess.Popen`` for commands
that begin with this Python; what cannot be forked faithfully is started as usual.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

#: Variables that the interpreter or a library reads once, when it starts.
_READ_AT_START = ("PYTHON", "FORCE_COLOR", "NO_COLOR", "TERMINAL_WIDTH", "LC_", "LANG")
_AT_START = {"PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
_HARMLESS = {"PYTHONPATH", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
#: Not to be imported before it runs: it is a program, or only works inside of another one.
_PROGRAMS = {"agenttrace.cli.main", "agenttrace.record.worker", "agenttrace.run.postgres.migrations.env"}
#: What a command or its help imports only when it runs.
_LATER = ("rich.markdown", "typer._adapters", "typer._click.decorators")
_LARGEST_REQUEST = 1 << 20


class Popen(subprocess.Popen[Any]):
    """A process that was forked; for all who use it, a process as any other."""

    _status: socket.socket

    def _execute_child(self, args: Sequence[str], *options: Any) -> None:  # noqa: ANN401 - as the library passes them
        env, cwd = options[5], options[4]
        streams = options[9], options[12], options[14]
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            wanted = {"command": list(args), "env": env, "cwd": None if cwd is None else os.fspath(cwd)}
            wanted["session"] = options[20]
            _server().send(wanted, [stream if stream != -1 else number for number, stream in enumerate(streams)], other)
        self._status = own
        self._close_pipe_fds(*options[9:15])  # type: ignore[attr-defined]
        self.pid = int(self._answer())
        self._child_created = True

    def _answer(self) -> bytes:
        answer = self._status.recv(16)
        if not answer:
            raise RuntimeError("the process that forks has ended")
        return answer

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = int(self._answer())
        self._status.close()
        return self.pid, status

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = (0, 0) if self.returncode is not None else self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def popen(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    late: bool = False,
    **options: Any,  # noqa: ANN401 - as Popen has them
) -> subprocess.Popen[Any]:
    """``subprocess.Popen``, forked where that makes no difference; ``late`` as in ``can_fork``."""
    environment = dict(os.environ if env is None else env)
    kind = Popen if can_fork(command, environment, late=late) else subprocess.Popen
    return kind(list(command), env=environment, **options)


def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:  # noqa: ANN401 - as subprocess.run has them
    """``subprocess.run``, forked where that makes no difference."""
    timeout, given = options.pop("timeout", None), options.pop("input", None)
    check = options.pop("check", False)
    if given is not None:
        options["stdin"] = subprocess.PIPE
    if options.pop("capture_output", False):
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with popen(command, **options) as process:
        try:
            told = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, *told)
    return subprocess.CompletedProcess(process.args, process.returncode, *told)


def can_fork(command: Sequence[str], environment: Mapping[str, str], *, late: bool = False) -> bool:
    """Whether a fork would behave as a new process.

    Programs given with ``-c`` mostly change the package before anything else has imported it. ``late`` says that one
    does not, or that later is early enough.
    """
    if sys.platform != "linux" or command[0] != sys.executable or (command[1] == "-c" and not late):
        return False
    places = environment.get("PYTHONPATH", "").split(os.pathsep)
    if any(os.path.exists(os.path.join(place, "sitecustomize.py")) for place in places if place):
        return False
    special = {name for name in environment if name.startswith(_READ_AT_START)} - _HARMLESS
    return all(environment[name] == "C.UTF-8" and not name.startswith("PYTHON") for name in special)


# -- the process that forks -------------------------------------------------------------------------------------------


class _Server:
    """It belongs to one test process, and ends with it."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST_REQUEST)
        self._lock = threading.Lock()
        environment = {**os.environ, **_AT_START}
        with other:
            command = [sys.executable, __file__, str(other.fileno())]
            self._process = subprocess.Popen(command, env=environment, pass_fds=[other.fileno()])
        atexit.register(self.close)

    def send(self, wanted: dict[str, Any], streams: list[int], status: socket.socket) -> None:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(wanted).encode()], [*streams, status.fileno()])

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_servers: dict[int, _Server] = {}
_starting = threading.Lock()


def _server() -> _Server:
    with _starting:
        if os.getpid() not in _servers:
            _servers[os.getpid()] = _Server()
        return _servers[os.getpid()]


class _Forks:
    """Forks a process for every request, and reports how each ended."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._running: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Until the test process has ended."""
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            ready = select.select([self._requests, woken], [], [])[0]
            if woken in ready:
                woken.recv(4096)
                self._report()
            if self._requests in ready:
                data, descriptors, _, _ = socket.recv_fds(self._requests, _LARGEST_REQUEST, 4)
                if not data:
                    return
                self._fork(json.loads(data), descriptors, (woken, waker))

    def _fork(self, wanted: dict[str, Any], descriptors: list[int], own: tuple[socket.socket, ...]) -> None:
        pid = os.fork()
        if pid:
            status = socket.socket(fileno=descriptors.pop())
            for descriptor in descriptors:
                os.close(descriptor)
            self._running[pid] = status
            with suppress(OSError):
                status.send(str(pid).encode())
            return
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (*own, self._requests, *self._running.values()):
            each.close()
        os.close(descriptors.pop())
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number, inheritable=True)
            os.close(descriptor)
        _become(wanted)

    def _report(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with suppress(OSError), self._running.pop(pid) as told:
                told.send(str(status).encode())


def _become(wanted: dict[str, Any]) -> NoReturn:
    """Run a program in this process, and end as the interpreter would."""
    code = 1
    try:
        if wanted["session"]:
            os.setsid()
        os.environ.clear()
        os.environ.update(wanted["env"])
        time.tzset()
        if wanted["cwd"] is not None:
            os.chdir(wanted["cwd"])
        sys.path[:0] = filter(None, wanted["env"].get("PYTHONPATH", "").split(os.pathsep))
        if wanted["env"].get("PYTHONUNBUFFERED"):
            sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
        _run(wanted["command"][1:])
        code = 0
    except SystemExit as ended:
        code = _exit_code(ended.code)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            _end_by(signal.SIGINT)
    _leave(code)


def _run(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")


def _exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _leave(code: int) -> NoReturn:
    """What the interpreter does at its end, but for destroying every module."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        if not sys.stdout.closed:
            sys.stdout.flush()
    except OSError as error:
        sys.stderr.write(f"Exception ignored in: {sys.stdout!r}\n{type(error).__name__}: {error}\n")
        code = 120
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _end_by(number: int) -> None:
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _import_everything() -> None:
    import agenttrace

    for module in pkgutil.walk_packages(agenttrace.__path__, "agenttrace."):
        if module.name not in _PROGRAMS:
            importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)


def _build_commands() -> None:
    """Typer builds all commands from their functions' signatures, which takes longer than most of them run."""
    from typer import main

    from agenttrace.cli.program import app

    build, built = main.get_command, main.get_command(app)
    main.get_command = lambda typer_instance: built if typer_instance is app else build(typer_instance)


if __name__ == "__main__":
    _import_everything()
    _build_commands()
    gc.collect()
    gc.freeze()
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
    _Forks(socket.socket(fileno=int(sys.argv[1]))).serve()
