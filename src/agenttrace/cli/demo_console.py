"""The demo in the browser: agents at work and applications behind guards, live in the console until Ctrl-C."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from agenttrace.cli import errors, output
from agenttrace.cli.demo_apps import Stage, rehearse, settings_for_apps, stage

#: Enough that the budget is not spent by the demo itself.
_DAILY_TOKENS = 60_000


def show(home: Path, *, port: int | None, speed: float, seed: int, as_json: bool) -> None:
    """Record, run and serve the demo's world until somebody stops it."""
    from agenttrace.cli.record import follow, import_now, recording
    from agenttrace.cli.running import beside
    from agenttrace.demo.writer import play

    settings = settings_for_apps(port=8317 if port is None else port, daily_tokens=_DAILY_TOKENS)

    async def applications(stop: asyncio.Event) -> None:
        async with stage(settings) as on:
            _announce(on, home, as_json=as_json)
            await rehearse(on)
            await stop.wait()

    with recording(settings) as (lock, stop):
        import_now(settings, lock, stop, quiet=True)
        writer = threading.Thread(target=play, args=(home,), kwargs={"speed": speed, "seed": seed, "stop": stop})
        with beside(applications, _failed):
            writer.start()
            try:
                follow(settings, lock, stop, quiet=True)
            finally:
                stop.set()
                writer.join()


def _announce(on: Stage, home: Path, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"url": on.url, "home": str(home)}, one_line=True)
        return
    output.say(f"The console with made-up sessions: {on.shown}", "bold")
    if on.shown == on.url:
        output.say(f"The link that lets a browser in: AGENTTRACE_HOME={home / '.agenttrace'} agenttrace open")
    output.say(
        "Six agents are at work, and applications behind guards (a simulated DashScope answers). Ctrl-C ends it."
    )


def _failed(error: BaseException) -> None:
    told = errors.explained(error)
    problem = str(error) or type(error).__name__ if told is None else told.problem
    output.complain(f"the demo's server does not run: {problem}", told.fix if told is not None else "")
