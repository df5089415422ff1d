"""``agenttrace record``: follow the logs of agents, or import them once."""

from __future__ import annotations

import gc
import glob
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.child_process import exporting
from agenttrace.cli.errors import INTERRUPTED, CommandError, UsageError, explained
from agenttrace.cli.options import Agent, OnlyJson
from agenttrace.cli.progress import ImportProgress, LiveStatus
from agenttrace.cli.rules_run import register_rules, running_rules
from agenttrace.cli.stopping import CLOSING_SECONDS, Stop, stop_event
from agenttrace.config import Settings, SettingsError, ensure_home
from agenttrace.record.lock import RecorderLock
from agenttrace.store.errors import STORE_FAILURES, NewerStoreError, is_corruption
from agenttrace.views import figures, places, times

if TYPE_CHECKING:
    from agenttrace.record.files.discover import Root
    from agenttrace.record.recorder import Recorder, Summary

logger = logging.getLogger(__name__)

#: Failed recording is restarted after these pauses in seconds; the pause doubles each time.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: After so many seconds without a failure the pause is reset.
_WELL_AFTER = 60.0

EPILOG = """
  agenttrace record                          follow all agents until Ctrl-C
  agenttrace record --once                   import what is there, then exit
  agenttrace record ~/old/.claude --once     logs from somewhere else
  agenttrace record --once --json | jq .recorded
"""


def record(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Files, directories or globs. Default: the directories of all agents."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Import what is there and exit.")] = False,
    agent: Agent = None,
    index: Annotated[
        bool,
        typer.Option("--index/--no-index", help="With --once: update the search index before exiting."),
    ] = False,
    as_json: OnlyJson = False,
) -> None:
    """Record the agents' session logs, each event exactly once.

    Reads every log of every agent, continues where it stopped, and follows the files as they grow. The logs
    themselves are never changed. Only one recorder runs on a data directory; a second one exits with an error.
    Without --once, spans are also sent to the configured destinations; see agenttrace export.
    """
    chosen = _checked_paths(paths or [])
    name = opening.checked_agent(agent)
    settings = opening.settings()
    output.show_warnings()
    with recording(settings) as (lock, stop):
        if once:
            work = partial(import_now, settings, lock, stop, paths=chosen, agent=name, quiet=as_json, index=index)
            summary = rebuilding(settings, work)
            apply_retention(settings, stop)
        else:
            work = partial(follow, settings, lock, stop, paths=chosen, agent=name, quiet=as_json, export=True)
            summary = keep_recording(settings, stop, work)
    if as_json:
        output.print_json(summary)
    elif once:
        show_summary(settings, summary, chosen)
    if once and stop.is_set():
        output.note("Interrupted: what was read is stored; the next run continues from there.", "yellow")
        raise typer.Exit(INTERRUPTED)


def _checked_paths(paths: list[str]) -> list[str]:
    for path in paths:
        place = os.path.expanduser(path)
        if not os.path.lexists(place) and not (glob.has_magic(place) and glob.glob(place, recursive=True)):
            raise UsageError(f"{path} does not exist", "Name a log file, a directory with logs, or nothing at all.")
    return paths


@contextmanager
def recording(settings: Settings) -> Iterator[tuple[RecorderLock, Stop]]:
    """The lock of the one recorder, and the event that Ctrl-C and SIGTERM set."""
    # A batch makes many objects and no cycles; collecting them takes a twentieth of an import.
    gc.set_threshold(100_000, 50, 100)
    within = settings.run.drain_seconds + CLOSING_SECONDS
    with RecorderLock(ensure_home(settings)) as lock, stop_event(within=within) as stop:
        yield lock, stop


def rebuilding(settings: Settings, work: Callable[[], Summary]) -> Summary:
    """Do the work; if the store is damaged, salvage it and start again.

    The caller holds the recorder's lock.
    """
    from agenttrace.record.recovery import recover
    from agenttrace.store.sqlite.replacement import finish_interrupted

    finish_interrupted(settings.home)
    try:
        return _well(settings, work)
    except STORE_FAILURES as error:
        if not is_corruption(error):
            raise
    # Not inside the except block: the error's frames would keep the damaged store open.
    logs = [found.path for found in places.logs(settings).files]
    recover(settings.home, timezone=settings.usage.timezone, logs=logs)
    return _well(settings, work)


def _well(settings: Settings, work: Callable[[], Summary]) -> Summary:
    from agenttrace.record import health

    summary = work()
    health.clear(settings.home)
    return summary


def keep_recording(settings: Settings, stop: threading.Event, work: Callable[[], Summary]) -> Summary:
    """Do the work; a failure is reported and the work restarted after a pause: a server may run beside it.

    Raises only errors that the user has to fix first.
    """
    from agenttrace.record import health
    from agenttrace.record.recorder import Summary

    restarts, pause = 0, FIRST_PAUSE
    while True:
        began = time.monotonic()
        try:
            return rebuilding(settings, work)
        except Exception as error:
            if _is_for_the_user(error):
                raise
            damaged, known = is_corruption(error), explained(error)
            reason = f"{type(error).__name__}: {error}" if known is None else known.problem
            # A bug deserves its traceback, once.
            logger.warning(
                "recording has failed: %s", reason, exc_info=error if known is None and not restarts else None
            )
        if time.monotonic() - began >= _WELL_AFTER:
            restarts, pause = 0, FIRST_PAUSE
        restarts += 1
        health.report(settings.home, reason, restarts=restarts)
        fix = f" {known.fix}" if known is not None and known.fix else ""
        again = "Restart AgentTrace to try again." if damaged else f"It restarts in {pause:.0f} s."
        output.note(f"{again} Everything else continues.{fix}", "red")
        # A store that is damaged again after a rebuild would be rebuilt for ever.
        if stop.wait(None if damaged else pause):
            return Summary()
        pause = min(pause * 2, LONGEST_PAUSE)


def _is_for_the_user(error: Exception) -> bool:
    """Whether trying again cannot help: the settings or the command are wrong, or the program is too old."""
    from click.exceptions import ClickException, Exit

    return isinstance(error, SettingsError | NewerStoreError | CommandError | ClickException | Exit)


# -- importing ------------------------------------------------------------------------------------------------


def import_now(
    settings: Settings,
    lock: RecorderLock,
    stop: threading.Event,
    *,
    paths: Sequence[str] = (),
    agent: str | None = None,
    quiet: bool,
    index: bool = False,
) -> Summary:
    """Record what is there, with a progress bar at a terminal, and fill the search index if ``index`` is set."""
    from agenttrace.record.importing import import_all

    register_rules(settings)
    with ImportProgress(enabled=not quiet and output.is_terminal()) as progress:
        summary = import_all(
            settings,
            lock,
            paths=paths,
            agent=agent,
            stop=stop.is_set,
            on_total=progress.expect,
            on_progress=progress.advance,
        )
        if index and not stop.is_set():
            with opening.opened_store(settings, read_only=False) as store:
                progress.index(store, stop)
    return summary


def apply_retention(settings: Settings, stop: threading.Event) -> None:
    """Remove what the setting ``retention.days`` says, after an import that no recorder follows."""
    from agenttrace.record.maintenance import run

    if settings.retention.days:
        with opening.opened_store(settings, read_only=False) as store:
            for _ in run(store, settings):
                if stop.is_set():
                    break


def show_summary(settings: Settings, summary: Summary, paths: Sequence[str]) -> None:
    """Print the counts of an import, or where it searched if it found nothing."""
    if not summary.files:
        nothing_found(settings, paths)
        return
    if not summary.lines:
        output.say(f"Nothing new in {figures.counted(summary.files, 'file')}.", "bold")
        return
    rate = f", {figures.size(summary.bytes / summary.seconds)}/s" if summary.seconds > 0.05 else ""
    output.say(
        f"Read {figures.size(summary.bytes)} from {figures.counted(summary.files, 'file')} "
        f"in {summary.seconds:.1f} s{rate}.",
        "bold",
    )
    rows = {
        "recorded": "new events",
        "duplicate": "already recorded (copies, forks, second readings)",
        "ignored": "nothing to record (headers, blank lines, telemetry of other programs)",
        "quarantined": "could not be parsed; see: agenttrace quarantine list",
        "pending": "incomplete lines at the end of files",
    }
    for name, meaning in rows.items():
        if number := getattr(summary, name):
            style = "yellow" if name == "quarantined" else ""
            output.say(f"  {figures.count(number):>12}  {name:<12} {meaning}", style)
    output.say(f"{figures.counted(summary.sessions, 'session')} touched. Next: agenttrace sessions, agenttrace usage")


def nothing_found(settings: Settings, paths: Sequence[str]) -> None:
    """Print which directories were searched, and what to do next."""
    from agenttrace.record.files.discover import named_roots

    output.say("No session logs found. Looked in:", "bold")
    by_agent: dict[str, list[Root]] = {}
    for root in named_roots(paths) if paths else places.roots(settings):
        by_agent.setdefault(str(root.path) if root.agent is None else f"{root.agent.title}: ", []).append(root)
    for roots in by_agent.values():
        # Some agents have a dozen: a directory that is there says more than the first one.
        shown = next((root for root in roots if root.path.exists()), roots[0])
        who = "" if shown.agent is None else f"{shown.agent.title}: "
        state = "no logs in it" if shown.path.exists() else "not there"
        more = f", and {figures.counted(len(roots) - 1, 'other place')}" if len(roots) > 1 else ""
        output.say(f"  {who}{shown.path} ({state}){more}")
    output.say(
        "Use one of these agents and run this again, name a directory (agenttrace record PATH --once), "
        "or try it with demo data: agenttrace demo"
    )


# -- following ------------------------------------------------------------------------------------------------


def follow(
    settings: Settings,
    lock: RecorderLock,
    stop: threading.Event,
    *,
    paths: Sequence[str] = (),
    agent: str | None = None,
    quiet: bool,
    export: bool = False,
) -> Summary:
    """Record until ``stop`` is set; a large backlog is imported first, on all cores.

    With ``export``, spans are also sent to the configured destinations, and rules are run.
    """
    from agenttrace.record.importing import PARALLEL_BYTES
    from agenttrace.record.recorder import Recorder

    register_rules(settings)

    started = time.monotonic()
    imported: Summary | None = None
    recorder = Recorder(settings, paths=paths, agent=agent)
    if recorder.backlog() >= PARALLEL_BYTES:
        recorder.close()
        imported = import_now(settings, lock, stop, paths=paths, agent=agent, quiet=quiet, index=False)
        recorder = Recorder(settings, paths=paths, agent=agent)
    try:
        with ExitStack() as beside:
            if export:
                beside.enter_context(exporting(settings, announce=not quiet))
                beside.enter_context(running_rules(settings))
            _watch(recorder, stop, quiet=quiet)
        summary = recorder.finish(started)
    finally:
        recorder.close()
    if imported is not None:
        _add(summary, imported)
    if not quiet:
        output.say(
            f"Stopped after {figures.duration(round(summary.seconds * times.MICROS))}: "
            f"{figures.counted(summary.recorded, 'new event')} recorded, "
            f"{figures.counted(summary.sessions, 'session')} touched."
        )
    return summary


def _watch(recorder: Recorder, stop: threading.Event, *, quiet: bool) -> None:
    from agenttrace.record.watcher import Watcher

    if not quiet:
        _say_what_is_followed(recorder)
    with LiveStatus(recorder, enabled=not quiet and output.is_terminal()) as live:
        Watcher(recorder, stop, on_problem=live.problem, on_commit=live.update).run()


def _say_what_is_followed(recorder: Recorder) -> None:
    found = recorder.listing().files
    if found:
        size = figures.size(sum(file.size for file in found))
        output.say(f"Following {figures.counted(len(found), 'log file')}, {size}, and every new one.", "bold")
    else:
        output.say("No session logs yet; they are recorded as soon as an agent writes some.", "bold")
    output.say(f"Recording into {places.store_path(recorder.settings)}. Ctrl-C stops it; nothing is lost.")
    sys.stdout.flush()


def _add(summary: Summary, earlier: Summary) -> None:
    for name in ("bytes", "lines", "recorded", "duplicate", "ignored", "quarantined"):
        setattr(summary, name, getattr(summary, name) + getattr(earlier, name))
    # What was pending after the import is counted again by now, as read or as pending still.
    summary.lines -= earlier.pending
    summary.sessions = max(summary.sessions, earlier.sessions)
