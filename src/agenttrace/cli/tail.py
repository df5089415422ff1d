"""``agenttrace tail``: events as they are recorded, one line each."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError
from agenttrace.cli.progress import what_to_do
from agenttrace.cli.record import import_now, rebuilding, recording
from agenttrace.cli.session_ids import short_id
from agenttrace.cli.sessions import find_one
from agenttrace.cli.stopping import stop_event
from agenttrace.record.lock import AlreadyRecordingError
from agenttrace.views import figures
from agenttrace.views.calls import call_line, is_begun
from agenttrace.views.events import EventReader, RecordedEvent, event_fields
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.config import Settings
    from agenttrace.record.formats.contract import Content
    from agenttrace.store.store import Store

EPILOG = """
  agenttrace tail                           everything, live
  agenttrace tail 5bc45ad6                  one session
  agenttrace tail --lines 50 --no-follow    the last fifty, then exit
  agenttrace tail --json | jq -r '.contents[].text'

While a recorder runs (agenttrace record, agenttrace up, the service), tail reads what it stores. Without one, tail
records while it runs.
"""

_POLL_SECONDS = 0.2
#: How each kind of text is marked, and its style.
_MARKS = {
    "prompt": ("▶", "bold"),
    "text": ("●", ""),
    "thinking": ("∴", "italic dim"),
    "arguments": ("⚙", "cyan"),
    "arguments_part": ("⚙", "cyan"),
    "result": ("↳", "dim"),
    "error": ("✗", "red"),
    "note": ("·", "yellow"),
}
_LABELS = {"prompt": "user", "text": "says", "thinking": "thinks", "error": "error", "note": "note"}
#: How many characters of a text are made safe for one line on a screen.
_LINE_CHARACTERS = 2_000


def tail(
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="Filter by session: an id or the beginning of one.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Start with this many earlier events.")] = 10,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for new events.")] = True,
    everything: Annotated[
        bool, typer.Option("--all", help="Include events without text (usage, state changes).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, all events.")] = False,
) -> None:
    """Follow events live, one per line."""
    settings = opening.settings()
    output.show_warnings()
    # What a team's machines record comes from them.
    records = follow and not opening.shows_team(settings)
    with recorded(settings, wanted=records, quiet=as_json) as stop, opening.shown_store(settings) as store:
        number = None if session is None else find_one(store, session).id
        reader = EventReader(store)
        printed = Printer(as_json=as_json, everything=everything or as_json)
        numbers = store.newest_events(printed.looked_at(lines), number) if lines else []
        printed.backlog(reader.read(numbers), lines)
        last = max(numbers[-1] if numbers else 0, store.last_event())
        if follow:
            for event in new_events(reader, store, stop, last, number):
                printed.show(event)


def new_events(
    reader: EventReader,
    store: Store,
    stop: threading.Event,
    last: int,
    session: int | None = None,
    deadline: float = math.inf,
) -> Iterator[RecordedEvent]:
    """Events after the last one, as they are recorded, until ``stop`` is set or the deadline is over."""
    while not stop.is_set() and time.monotonic() < deadline:
        fresh = store.events_after(last, session)
        if not fresh:
            stop.wait(_POLL_SECONDS)
            continue
        last = fresh[-1]
        yield from reader.read(fresh)


def event_line(event: RecordedEvent) -> Text:
    """An event on one line of a terminal."""
    from rich.text import Text

    said = event.said
    at = "        " if said.event.at is None else figures.time_of_day(said.event.at)
    line = Text.assemble(
        (at, "dim"),
        (f"  {short_id(event.session.session_id):<8}", "cyan"),
        (f"  {event.session.agent:<11}  ", "dim"),
    )
    if not said.contents:
        return line.append(f"· {one_line(said.line.event_type, 60)}", style="dim")
    for index, content in enumerate(said.contents):
        mark, style = _MARKS.get(content.kind, ("·", ""))
        label = _LABELS.get(content.kind) or event.tools.get(content.call or "") or content.kind
        text = _line_of(content)
        line.append(f"{'  ' if index else ''}{mark} ", style=style or "green")
        line.append(f"{one_line(label, 24)}  ", style="bold")
        line.append(text, style=style)
    return line


def _line_of(content: Content) -> str:
    if content.kind == "arguments":
        return call_line(content.text, _LINE_CHARACTERS)
    return one_line(content.text[:_LINE_CHARACTERS])


class StreamedCalls:
    """Joins arguments that an agent writes in pieces, so that a call is shown once, and whole."""

    #: An agent that dies in the middle of a call leaves its beginning behind.
    _MOST = 1_000

    def __init__(self) -> None:
        self._begun: dict[int, tuple[Content, str]] = {}

    def joined(self, event: RecordedEvent) -> RecordedEvent | None:
        """The event with whole arguments; ``None`` while the rest of them is to come and it says nothing else."""
        said = event.said
        contents: list[Content] = []
        session, tools = event.session.id, event.tools
        for content in said.contents:
            begun = self._begun.pop(session, None) if content.kind == "arguments_part" else None
            if begun is not None:
                content, tool = msgspec.structs.replace(begun[0], text=begun[0].text + content.text), begun[1]
                tools = {**tools, content.call or "": tool}
            if content.kind == "arguments" and is_begun(content.text) and len(self._begun) < self._MOST:
                self._begun[session] = content, tools.get(content.call or "", "")
            else:
                contents.append(content)
        if said.contents and not contents:
            return None
        return event._replace(said=said._replace(contents=contents), tools=tools)


class Printer:
    """Prints events, for people or as JSON lines."""

    def __init__(self, *, as_json: bool, everything: bool) -> None:
        self._as_json = as_json
        self._everything = everything
        self._calls = StreamedCalls()

    def looked_at(self, count: int) -> int:
        """How many events are read to show ``count`` of them."""
        return count if self._everything else count * 8

    def backlog(self, events: Iterable[RecordedEvent], count: int) -> None:
        """Print the latest of these events that are shown at all."""
        wanted = [event for each in events if (event := self._joined(each)) is not None and self._wanted(event)]
        for event in wanted[len(wanted) - min(count, len(wanted)) :]:
            self._print(event)

    def _joined(self, event: RecordedEvent) -> RecordedEvent | None:
        return event if self._as_json else self._calls.joined(event)

    def _wanted(self, event: RecordedEvent) -> bool:
        return self._everything or bool(event.said.contents)

    def show(self, event: RecordedEvent) -> None:
        """Print one event; arguments in pieces with the last of them."""
        if (joined := self._joined(event)) is not None:
            self._print(joined)

    def _print(self, event: RecordedEvent) -> None:
        if self._as_json:
            output.print_json(event_fields(event), one_line=True)
        elif self._wanted(event):
            output.put(event_line(event))
            # Live also means live through a pipe.
            sys.stdout.flush()


@contextmanager
def recorded(settings: Settings, *, wanted: bool, quiet: bool) -> Iterator[threading.Event]:
    """Make sure that a recorder runs: another process, or else this one."""
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
    """A recorder in a thread; its failure sets ``stop`` and is raised at the end."""
    from agenttrace.record.recorder import Recorder
    from agenttrace.record.watcher import Watcher

    failed: list[Exception] = []
    recorder = Recorder(settings)

    def run() -> None:
        try:
            Watcher(recorder, stop, on_problem=_report).run()
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


def _report(reason: str | None) -> None:
    if reason is not None:
        output.note(f"recording is blocked: {reason}; {what_to_do(reason)}", "red")
