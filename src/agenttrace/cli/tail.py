"""``agenttrace tail``: what the agents do, as it happens, one line an event."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.store.sqlite.store import SqliteStore
    from agenttrace.views.events import RecordedEvent

EPILOG = """
[bold]Examples[/bold]

  agenttrace tail                           everything, live

  agenttrace tail 5bc45ad6                  one session

  agenttrace tail --lines 50 --no-follow    the last fifty, then leave

  agenttrace tail --json | jq -r '.contents[].text'

While a recorder runs elsewhere (agenttrace record, agenttrace up, the service) tail reads what it stores; without
one, tail records by itself as long as it runs.
"""

_POLL_SECONDS = 0.2


def tail(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Filter by session: an id or the beginning of one.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Start with this many earlier events.")] = 10,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for new events.")] = True,
    everything: Annotated[
        bool, typer.Option("--all", help="Include events without text (usage, state changes).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, all events.")] = False,
) -> None:
    """Follow events live, one per line."""
    from agenttrace.views.events import EventReader

    settings = opening.settings()
    output.show_warnings()
    with recorded(settings, wanted=follow, quiet=as_json) as stop, opening.opened_store(settings) as store:
        number = _number(store, session)
        reader = EventReader(store)
        printed = Printer(as_json=as_json, everything=everything or as_json)
        numbers = store.newest_events(printed.looked_at(lines), number) if lines else []
        printed.backlog(reader.read(numbers), lines)
        last = max(numbers[-1] if numbers else 0, store.last_event())
        while follow and not stop.is_set():
            fresh = store.events_after(last, number)
            if not fresh:
                stop.wait(_POLL_SECONDS)
                continue
            for event in reader.read(fresh):
                printed.show(event)
            last = fresh[-1]


def _number(store: SqliteStore, session: str | None) -> int | None:
    from agenttrace.cli.sessions import find_one

    return None if session is None else find_one(store, session).id


class Printer:
    """Prints events, for people or as JSON lines."""

    def __init__(self, *, as_json: bool, everything: bool) -> None:
        self._as_json = as_json
        self._everything = everything

    def looked_at(self, count: int) -> int:
        """How many events are read to show so many."""
        return count if self._everything else count * 8

    def backlog(self, events: Iterable[RecordedEvent], count: int) -> None:
        """Print the latest of these events that are shown at all."""
        wanted = [event for event in events if self._wanted(event)]
        for event in wanted[len(wanted) - min(count, len(wanted)) :]:
            self.show(event)

    def _wanted(self, event: RecordedEvent) -> bool:
        return self._everything or bool(event.said.contents)

    def show(self, event: RecordedEvent) -> None:
        """Print one event."""
        from agenttrace.cli.events import event_line
        from agenttrace.views.events import event_fields

        if self._as_json:
            output.print_json(event_fields(event), one_line=True)
        elif self._wanted(event):
            output.put(event_line(event))
            # Live also means live through a pipe.
            sys.stdout.flush()


@contextmanager
def recorded(settings: Settings, *, wanted: bool, quiet: bool) -> Iterator[threading.Event]:
    """Make sure that a recorder runs: another process, or else this one. The event ends the waiting."""
    from agenttrace.cli.record import import_now, rebuilding, recording
    from agenttrace.cli.stopping import stop_event
    from agenttrace.record.lock import AlreadyRecordingError

    if wanted:
        try:
            with recording(settings) as (lock, stop):
                rebuilding(settings, partial(import_now, settings, lock, stop, quiet=quiet, index=False))
                with recorder_thread(settings, stop):
                    yield stop
                return
        except AlreadyRecordingError:
            # The other process stores what is shown here.
            pass
    with stop_event() as stop:
        yield stop


@contextmanager
def recorder_thread(settings: Settings, stop: threading.Event) -> Iterator[None]:
    """A recorder beside whatever this process does; a failure of it ends the waiting and is told."""
    from agenttrace.record.recorder import Recorder
    from agenttrace.record.watcher import Watcher

    failed: list[Exception] = []
    recorder = Recorder(settings)

    def run() -> None:
        try:
            Watcher(recorder, stop, on_problem=_tell).run()
        except Exception as error:
            failed.append(error)
            stop.set()

    thread = threading.Thread(target=run, name="recorder")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        recorder.close()
    if failed:
        raise CommandError(f"recording stopped: {failed[0]}") from failed[0]


def _tell(reason: str | None) -> None:
    from agenttrace.cli.progress import what_to_do

    if reason is not None:
        output.note(f"recording is held up: {reason}; {what_to_do(reason)}", "red")
