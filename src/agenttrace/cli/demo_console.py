"""``agenttrace demo --console``: the demo in the browser, live until Ctrl-C.

All of AgentTrace is at work: agents that write logs, an exporter with a destination that refuses one span, rules that
fire, a budget of which 80 % is used, notes and scores, and jobs that run. Every server is one of this machine.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import time
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from agenttrace.cli import errors, opening, output
from agenttrace.cli.demo_apps import keep_busy, process, rehearse, settings_for_apps, stage
from agenttrace.cli.invocation import program_line
from agenttrace.cli.open import can_open, open_link
from agenttrace.cli.serve import shown_link
from agenttrace.run.availability import INSTALL, is_installed
from agenttrace.views.resume import quoted
from agenttrace.views.times import MICROS

if TYPE_CHECKING:
    from agenttrace.cli.stopping import Stop
    from agenttrace.config import Settings
    from agenttrace.demo.collector import DemoCollector
    from agenttrace.record.lock import RecorderLock

#: More than the demo itself uses in an hour.
_DAILY_TOKENS = 500_000
_USUAL_PORT = 8317
#: Of all agents together the budget would be used up in a minute.
_BUDGET_AGENT = "claude-code"
_PERIODS = ("month", "week", "day")
#: Between two stories of an agent: otherwise they use up the budget within minutes.
_REST_SECONDS = 40.0
#: More than two hours of work are one session: agents of sessions that nobody goes on with would all wait.
_STORIES_OF_SESSION = 200


def show(home: Path, *, port: int | None, speed: float, seed: int, as_json: bool, browser: bool = False) -> None:
    """Record the demo, run its applications and serve the console until it is stopped."""
    from agenttrace.cli.record import recording
    from agenttrace.demo.collector import DemoCollector
    from agenttrace.demo.configuration import write_settings

    chosen = free_port(port)
    with closing(DemoCollector()) as collector:
        data = home / ".agenttrace"
        data.mkdir(mode=0o700, exist_ok=True)
        write_settings(data, collector.url)
        settings = settings_for_apps(port=chosen, daily_tokens=_DAILY_TOKENS)
        if not as_json:
            output.note("Preparing the demo…")
        with recording(settings) as (lock, stop):
            prepare(settings, lock, stop, seed=seed)
            # With the budget, whose limit depends on what was recorded.
            settings = settings_for_apps(port=chosen, daily_tokens=_DAILY_TOKENS)
            _Show(settings, home, collector, as_json=as_json, browser=browser).run(lock, stop, speed=speed, seed=seed)


def prepare(settings: Settings, lock: RecorderLock, stop: Stop, *, seed: int) -> None:
    """Record the past, write notes beside it, and a budget of which 80 % is used."""
    from agenttrace.cli.record import import_now
    from agenttrace.demo.configuration import write_budget
    from agenttrace.demo.notes import annotate

    import_now(settings, lock, stop, quiet=True)
    with opening.opened_store(settings, read_only=False) as store:
        annotate(store, seed=seed)
    spent = _spent(settings)
    if spent is not None:
        write_budget(settings.home, spent[0], _BUDGET_AGENT, spent[1])


def _spent(settings: Settings) -> tuple[str, float] | None:
    """The longest period in which something was spent, and how much."""
    from agenttrace.config.rules import parse_budget
    from agenttrace.rules.budgets import budget_states

    for period in _PERIODS:
        budget = parse_budget(period, {"period": period, "limit": 1, "where": {"agent": _BUDGET_AGENT}})
        asked = msgspec.structs.replace(settings, budgets=MappingProxyType({period: budget}))
        with opening.opened_store(settings) as store:
            states = budget_states(store, asked, int(time.time() * MICROS))
        if states and states[0].spent:
            return period, states[0].spent
    return None


class _Show:
    """Server, applications, exporter and rules, until it is stopped."""

    def __init__(
        self, settings: Settings, home: Path, collector: DemoCollector, *, as_json: bool, browser: bool
    ) -> None:
        self._settings, self._home, self._collector = settings, home, collector
        self._as_json, self._browser = as_json, browser
        self._announced = threading.Event()

    def run(self, lock: RecorderLock, stop: Stop, *, speed: float, seed: int) -> None:
        """Follow the logs that are written at the same time."""
        from agenttrace.cli.record import follow
        from agenttrace.cli.stopping import beside
        from agenttrace.demo.writer import play

        failures: list[BaseException] = []

        def failed(error: BaseException) -> None:
            # Without its server the demo is over.
            failures.append(error)
            stop.set()

        # All else begins when the console is there: on a small machine they would slow each other down.
        stop.call(self._announced.set)

        how = {"speed": speed, "seed": seed, "stop": stop, "rest": _REST_SECONDS, "stories": _STORIES_OF_SESSION}
        writer = threading.Thread(target=play, args=(self._home,), kwargs=how)
        with beside(self._serving, failed, until=stop):
            self._announced.wait()
            writer.start()
            try:
                follow(self._settings, lock, stop, quiet=True, export=True)
            finally:
                stop.set()
                writer.join()
        if failures:
            raise _explained(failures[0], self._settings.serve.port)

    async def _serving(self, stop: asyncio.Event) -> None:
        async with self._collector.running():
            if not is_installed():
                async with process(self._settings, {}) as ready:
                    self._announce(ready.url or "", shown_link(ready))
                    await stop.wait()
                return
            async with stage(self._settings) as on:
                self._announce(on.url, on.shown)
                await rehearse(on)
                await keep_busy(on, stop)

    def _announce(self, url: str, shown: str) -> None:
        self._announced.set()
        if self._as_json:
            output.print_json({"url": url, "home": str(self._home)}, one_line=True)
            return
        output.say(f"The console with demo data: {shown}", "bold")
        if shown == url:
            home = quoted(str(self._settings.home))
            output.say(f"To log in with a browser: AGENTTRACE_HOME={home} {program_line()} open")
        output.say(
            "Six agents are working; their sessions are exported to a collector, rules fire, a budget is at 80 %."
        )
        if is_installed():
            output.say("Applications run against a simulated DashScope.")
        else:
            output.note(f"Applications are not shown: the run half is not installed. {INSTALL}")
        output.say("Everything stays on this machine. Ctrl-C ends it and removes the data.")
        if self._browser and shown != url and can_open():
            open_link(self._settings.home, shown)


def free_port(wanted: int | None) -> int:
    """The given port; without one the usual port, or any free port if that is in use."""
    port = _USUAL_PORT if wanted is None else wanted
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if wanted is not None:
                raise _explained(error, port) from None
            output.note(f"Port {port} is taken (by agenttrace up?); the demo uses another one.")
            return 0
    return port


def _explained(error: BaseException, port: int) -> errors.CommandError:
    """The error that ended the demo, with its fix."""
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return errors.CommandError(f"port {port} is taken", "Give another one, or 0 for any: demo --console --port 0")
    problem, fix = errors.described(error)
    return errors.CommandError(f"the demo's server does not run: {problem}", fix)
