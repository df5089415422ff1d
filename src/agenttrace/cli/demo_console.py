"""``agenttrace demo --console``: the demo in the browser, live until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from pathlib import Path

from agenttrace.cli import errors, output
from agenttrace.cli.demo_apps import process, rehearse, settings_for_apps, stage
from agenttrace.cli.serve import shown_link
from agenttrace.run.availability import INSTALL, is_installed

#: More than the demo itself uses.
_DAILY_TOKENS = 60_000
_USUAL_PORT = 8317


def show(home: Path, *, port: int | None, speed: float, seed: int, as_json: bool) -> None:
    """Record the demo, run its applications and serve the console until it is stopped."""
    from agenttrace.cli.record import follow, import_now, recording
    from agenttrace.cli.stopping import beside
    from agenttrace.demo.writer import play

    settings = settings_for_apps(port=free_port(port), daily_tokens=_DAILY_TOKENS)
    failures: list[BaseException] = []

    async def applications(stop: asyncio.Event) -> None:
        if not is_installed():
            async with process(settings, {}) as ready:
                _announce(ready.url or "", shown_link(ready), home, as_json=as_json)
                await stop.wait()
            return
        async with stage(settings) as on:
            _announce(on.url, on.shown, home, as_json=as_json)
            await rehearse(on)
            await stop.wait()

    with recording(settings) as (lock, stop):

        def failed(error: BaseException) -> None:
            # Without its server the demo is over.
            failures.append(error)
            stop.set()

        import_now(settings, lock, stop, quiet=True)
        writer = threading.Thread(target=play, args=(home,), kwargs={"speed": speed, "seed": seed, "stop": stop})
        with beside(applications, failed, until=stop):
            writer.start()
            try:
                follow(settings, lock, stop, quiet=True)
            finally:
                stop.set()
                writer.join()
    if failures:
        raise _explained(failures[0], settings.serve.port)


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


def _announce(url: str, shown: str, home: Path, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"url": url, "home": str(home)}, one_line=True)
        return
    output.say(f"The console with demo data: {shown}", "bold")
    if shown == url:
        output.say(f"To log in with a browser: AGENTTRACE_HOME={home / '.agenttrace'} agenttrace open")
    if is_installed():
        output.say("Six agents are working, and applications run against a simulated DashScope. Ctrl-C ends it.")
    else:
        output.say("Six agents are working. Ctrl-C ends it.")
        output.note(f"Applications are not shown: the run half is not installed. {INSTALL}")


def _explained(error: BaseException, port: int) -> errors.CommandError:
    """The error that ended the demo, with its fix."""
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return errors.CommandError(f"port {port} is taken", "Give another one, or 0 for any: demo --console --port 0")
    problem, fix = errors.described(error)
    return errors.CommandError(f"the demo's server does not run: {problem}", fix)
