"""The three programs with the same sessions on 127.0.0.1, and the pages that are measured."""

from __future__ import annotations

import contextlib
import shutil
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agenttrace.ids import session_number
from benchmarks import console_phoenix, ours, peers
from benchmarks.console_browser import Search, View
from benchmarks.console_data import Logs, copied
from benchmarks.console_live_spans import LiveSpans
from benchmarks.measure import sandbox_environ
from benchmarks.run_processes import Meter, Process

#: Passes a line of the agent, with its number, to the program.
Write = Callable[[int, bytes], None]
_ROOT = Path(__file__).parents[1]
_START_SECONDS = 300.0
_CONVERSATION = "[role=listitem][data-index]"
_WATERFALL = "[role=treegrid] [role=rowgroup] [role=row]"
#: Shows all generated logs: by default Phoenix shows the last week only.
_PHOENIX_TIME = "?timeRangeKey=365d"


class Servers(Meter):
    """All processes that a program needs to serve its pages."""

    def __init__(self, *pids: int) -> None:
        super().__init__(pids[0])
        self._others = [Meter(pid) for pid in pids[1:]]

    def cpu_seconds(self) -> float:
        """User and system time so far, of all of them."""
        return super().cpu_seconds() + sum(other.cpu_seconds() for other in self._others)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A running program."""

    name: str
    servers: Servers
    #: Pages about all work, by their names: cost, activity, tools. Not every program has each of them.
    pages: dict[str, View]
    #: The search of all texts, where there is one.
    search: Search | None = None
    #: The list of sessions.
    sessions: View
    #: The pages of the large sessions, by number of spans and name of the page.
    large: dict[tuple[int, str], View]
    #: The page that is open while an agent works.
    open_page: View
    #: Whether its newest entry is at the end.
    follows: bool = True
    write: Write


@contextlib.contextmanager
def agenttrace(_: Path, work: Path, logs: Logs) -> Iterator[Served]:
    """``agenttrace up``: recorder, server and the database of its run half."""
    own = copied(logs, work / "agenttrace-logs")
    home = work / "agenttrace"
    ours.record_once(None, home, index=True, CLAUDE_CONFIG_DIR=str(own.tree))
    environ = sandbox_environ(home, AGENTTRACE_HOME=str(home / "agenttrace"), CLAUDE_CONFIG_DIR=str(own.tree))
    # The others need no login, and their pages are opened without cookies.
    environ["AGENTTRACE_SERVE_LOGIN"] = "none"
    command = [sys.executable, "-m", "agenttrace.cli.main", "up", "--port", "0", "--json"]
    process = Process(command, environ=environ, cwd=_ROOT)
    try:
        url = next(said["url"] for said in iter(process.line, None) if "url" in said)
        # Without an application there is no database of the run half.
        running = home / "agenttrace" / "postgres" / "postmaster.pid"
        databases = [int(running.read_text().split()[0])] if running.exists() else []
        large = {}
        for spans, session in own.large.items():
            page = f"{url}/sessions/{session_number('claude-code', session):016x}"
            large[spans, "conversation"] = View(url=page, rows=_CONVERSATION, unready="[class*=skeleton]")
            large[spans, "waterfall"] = View(url=f"{page}?tab=waterfall", rows=_WATERFALL)
        sessions = View(url=f"{url}/sessions", rows="main article[data-state]")
        yield Served(
            name="agenttrace up",
            servers=Servers(process.pid, *databases),
            pages={
                "overview": View(url=f"{url}/", rows="main section h2"),
                "usage": View(url=f"{url}/usage", rows="main table tbody tr"),
            },
            search=Search(page=sessions, key="/", then="Enter", hit="a[href*='?span='] mark"),
            sessions=sessions,
            large=large,
            open_page=View(
                url=f"{url}/sessions/{session_number('claude-code', own.live):016x}",
                rows=_CONVERSATION,
                unready="[class*=skeleton]",
            ),
            write=_appender(own),
        )
    finally:
        process.stop()


@contextlib.contextmanager
def agentsview(peers_folder: Path, work: Path, logs: Logs) -> Iterator[Served]:
    """``agentsview serve``, which reads the logs itself and watches them."""
    program = peers.install_agentsview(peers_folder)
    own = copied(logs, work / "agentsview-logs")
    environ = sandbox_environ(
        work / "agentsview",
        AGENTSVIEW_TELEMETRY_ENABLED="0",
        DO_NOT_TRACK="1",
        AGENTSVIEW_DATA_DIR=str(work / "agentsview" / "data"),
        CLAUDE_PROJECTS_DIR=str(own.tree / "projects"),
    )
    port = free_port()
    command: list[str | Path] = [program, "serve", "--no-browser", "--no-update-check", "--port", str(port)]
    process = Process(command, environ=environ, talks=False)
    url = f"http://127.0.0.1:{port}"
    rows = ".message-list-scroll .virtual-row"
    try:
        _await_answer(f"{url}/api/v1/version", process)
        sessions = View(url=f"{url}/", rows=".session-item")
        yield Served(
            name=f"agentsview {peers.AGENTSVIEW_VERSION}",
            servers=Servers(process.pid),
            pages={
                "overview": View(url=f"{url}/analytics", rows=".analytics-content .kit-card"),
                "usage": View(url=f"{url}/usage", rows=".usage-content .kit-card, .usage-content .session-row"),
            },
            search=Search(page=sessions, key="Control+k", hit=".palette-item .item-snippet mark"),
            sessions=sessions,
            large={
                (spans, "conversation"): View(url=f"{url}/sessions/{session}", rows=rows)
                for spans, session in own.large.items()
            },
            open_page=View(url=f"{url}/sessions/{own.live}", rows=rows),
            write=_appender(own),
        )
    finally:
        process.stop()


@contextlib.contextmanager
def phoenix(peers_folder: Path, work: Path, logs: Logs) -> Iterator[Served]:
    """``phoenix serve`` with its own SQLite. Its page of a session is not live; its list of sessions is."""
    programs = console_phoenix.installed(peers_folder)
    ports = (free_port(), free_port())
    kept = console_phoenix.store(programs, logs, work / "phoenix-import", ports)
    shutil.copytree(kept, work / "phoenix")
    with (
        console_phoenix.serving(programs, work / "phoenix", ports) as (process, url),
        console_phoenix.sender(programs, url) as sender,
    ):
        large = {}
        for spans, session in logs.large.items():
            _, page = console_phoenix.addresses(url, session)
            trace = console_phoenix.trace_address(url, f"{session_number('claude-code', session):032x}")
            turns = "[data-testid=session-turns] [role=option]"
            large[spans, "turns of the session"] = View(url=page, rows=turns)
            tree = "[data-testid=trace-tree] .span-node-wrap"
            large[spans, "session as one trace"] = View(url=trace, rows=tree)
        listed, _ = console_phoenix.addresses(url, logs.live)
        sessions = View(url=listed + _PHOENIX_TIME, rows="main tbody tr")
        yield Served(
            name=f"Phoenix {console_phoenix.VERSION}",
            servers=Servers(process.pid),
            pages={},
            sessions=sessions,
            large=large,
            open_page=sessions,
            follows=False,
            write=LiveSpans(logs.live, sender).write,
        )


PROGRAMS = {"agenttrace": agenttrace, "agentsview": agentsview, "phoenix": phoenix}


def free_port() -> int:
    """A free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _appender(logs: Logs) -> Write:
    path = logs.tree / logs.live_file

    def write(_: int, line: bytes) -> None:
        with path.open("ab", buffering=0) as file:
            file.write(line)

    return write


def _await_answer(url: str, process: Process) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise peers.AbsentError(f"it did not start: {process.complaints()}")
