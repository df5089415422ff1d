"""Progress at a terminal: a bar for imports and exports, one live line while following."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from agenttrace.cli import output
from agenttrace.views import figures
from agenttrace.views.plain import safe

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.progress import Progress, TaskID

    from agenttrace.record.recorder import Recorder
    from agenttrace.store.outcomes import ExaminedStore

#: Seconds between two queries of the store for a progress display.
_REFRESH_SECONDS = 1.0


class ImportProgress:
    """A bar with bytes, MB/s and time left, then one for the search index; silent when not enabled."""

    def __init__(self, *, enabled: bool) -> None:
        self._progress = _bar(enabled=enabled)
        self._task: TaskID | None = None

    def __enter__(self) -> ImportProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def expect(self, total: int, unit: str = "bytes", what: str = "Importing") -> None:
        """Begin the bar of the import."""
        if total:
            self._task = self._progress.add_task(what, total=total, unit=unit)

    def advance(self, count: int) -> None:
        """Add what was read."""
        if self._task is not None:
            self._progress.advance(self._task, count)

    def index(self, store: ExaminedStore, stop: threading.Event) -> None:
        """Fill the search index, and examine what came of the sessions."""
        from agenttrace.record.outcome_updates import update_all
        from agenttrace.record.texts.search_index import index_all

        waiting = store.search_index.backlog
        # Without a backlog no bar appears.
        task = self._progress.add_task("Indexing", total=waiting, unit="events", visible=bool(waiting))
        index_all(store, stop=stop.is_set, on_progress=lambda count: self._progress.advance(task, count))
        update_all(store, stop=stop.is_set)
        if not stop.is_set():
            self._progress.update(task, completed=waiting)


def _bar(*, enabled: bool = True) -> Progress:
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Amount(ProgressColumn):
        """Done of total, and how fast."""

        def render(self, task: Task) -> Text:
            shown = figures.size if task.fields["unit"] == "bytes" else lambda number: figures.tokens(round(number))
            speed = task.finished_speed or task.speed
            rate = f"  {shown(speed)}/s" if speed else ""
            return Text(f"{shown(task.completed)} of {shown(task.total or 0)}{rate}")

    return Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=None),
        Amount(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=output.stderr(),
        disable=not enabled,
    )


class SendingProgress:
    """A bar of spans, for exports that take longer than a moment; silent when not enabled."""

    def __init__(self, look: Callable[[], tuple[int, int]], *, enabled: bool) -> None:
        self.enabled = enabled
        #: Returns spans with an outcome, and all spans.
        self._figures = look
        self._next_update = time.monotonic() + _REFRESH_SECONDS
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> SendingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._show()
            self._progress.stop()

    def update(self) -> None:
        """Refresh the bar after a batch."""
        if not self.enabled or time.monotonic() < self._next_update:
            return
        self._show()
        self._next_update = time.monotonic() + _REFRESH_SECONDS

    def _show(self) -> None:
        done, total = self._figures()
        if self._progress is None or self._task is None:
            self._progress = _bar()
            self._task = self._progress.add_task("Sending", total=total, unit="spans")
            self._progress.start()
        self._progress.update(self._task, completed=done, total=total)


class LiveStatus:
    """One line at the bottom of the terminal: counts of events and sessions, or the problem."""

    def __init__(self, recorder: Recorder, *, enabled: bool) -> None:
        self.enabled = enabled
        self._recorder = recorder
        self._working = self._waiting = 0
        self._next_update = 0.0
        self._last_commit: float | None = None
        self._problem: str | None = None
        self._live: Live | None = None

    def __enter__(self) -> LiveStatus:
        if self.enabled:
            from rich.live import Live

            self._update_counts()
            self._live = Live(console=output.stderr(), get_renderable=self._line, refresh_per_second=2, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self) -> None:
        """A batch was committed."""
        self._last_commit = time.monotonic()
        if self.enabled and self._last_commit >= self._next_update:
            self._update_counts()

    def _update_counts(self) -> None:
        self._working, self._waiting = self._recorder.store.active_counts()
        self._next_update = time.monotonic() + _REFRESH_SECONDS

    def problem(self, reason: str | None) -> None:
        """Recording is blocked, or continues."""
        if not self.enabled and reason is not None and self._problem is None:
            # The problem itself was just logged as a warning.
            output.note(f"fix: {what_to_do(reason)}", "yellow")
        self._problem = reason

    def _line(self) -> RenderableType:
        from rich.text import Text

        if self._problem is not None:
            return Text.assemble(("● blocked: ", "bold red"), safe(self._problem), f" – {what_to_do(self._problem)}")
        summary = self._recorder.summary
        quiet = "" if self._last_commit is None else f" · last {figures.ago(time.monotonic() - self._last_commit)}"
        return Text.assemble(
            ("● recording", "bold green"),
            f" · {figures.counted(len(self._recorder.files), 'file')}",
            f" · {figures.counted(summary.recorded, 'new event')}{quiet}",
            f" · {self._working} working, {self._waiting} waiting for you",
        )


def what_to_do(reason: str) -> str:
    """What to do about a problem that blocks the recorder."""
    low = reason.lower()
    if "full" in low or "no space" in low:
        return "free some disk space; recording goes on by itself."
    if "readonly" in low or "read-only" in low or "permission" in low:
        return "make the data directory writable; recording goes on by itself."
    if "locked" in low or "busy" in low:
        return "another program has locked the store; recording goes on when it is released."
    return "nothing is lost; it is tried again."
