"""Bare ``agenttrace``: help for programs, the first import for a new user, and then the view."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from agenttrace.cli import opening, output
from agenttrace.cli.open import can_open
from agenttrace.record.lock import owner

if TYPE_CHECKING:
    from agenttrace.config import Settings


def is_interactive() -> bool:
    """Whether a full-screen view makes sense: a terminal at both ends that can draw."""
    return output.is_terminal() and sys.stdin.isatty() and os.environ.get("TERM") != "dumb"


def launch() -> None:
    """A new user gets everything recorded and the console in the browser; later, and without a browser, the view."""
    settings = opening.settings()
    first = owner(settings.home) is None and not opening.shows_team(settings) and not _has_events(settings)
    if not first:
        show_view(settings)
    elif can_open():
        from agenttrace.cli.up import up

        up()
    else:
        _first_import(settings)
        show_view(settings, record=True)


def _has_events(settings: Settings) -> bool:
    if not opening.has_shown_store(settings):
        return False
    with opening.shown_store(settings) as store:
        return bool(store.last_event())


def _first_import(settings: Settings) -> None:
    """Record what is there, with a progress bar."""
    from agenttrace.cli.record import import_now, rebuilding, recording
    from agenttrace.cli.up import show_found, what_is_there

    output.show_warnings()
    with recording(settings) as (lock, stop):
        show_found(what_is_there(settings))
        rebuilding(settings, lambda: import_now(settings, lock, stop, quiet=False))
        if stop.is_set():
            raise KeyboardInterrupt


def show_view(settings: Settings, *, record: bool = False) -> None:
    """Run the view until the user quits, and print the command it ended with."""
    from agenttrace.cli.terminal.app import TraceApp

    app = TraceApp(settings, browser=can_open(), record=record)
    try:
        line = app.run()
    finally:
        if app.recording.process is not None:
            output.note("Stopping the recorder.")
        app.recording.stop()
        app.reader.close()
    if line is not None:
        output.stdout().print(line, soft_wrap=True, markup=False)
