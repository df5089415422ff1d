"""``agenttrace export run``: sending until told to stop, or until nothing is left to send; and what became of it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import FAILED, INTERRUPTED
from agenttrace.views import figures, times
from agenttrace.views.places import store_path
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.store.exports import State

#: How nice the exporter is to the recorder beside it.
_NICE = 5
#: States that say what became of a span.
_OUTCOMES: tuple[State, ...] = ("acknowledged", "refused", "unknown", "dropped")


class _Tally(NamedTuple):
    """Spans of each destination by state, and turns that are not over."""

    states: dict[str, dict[State, int]]
    open_turns: int


def on(settings: Settings, *, as_json: bool, until_input_ends: bool) -> None:
    """Send until Ctrl-C, SIGTERM, or where asked for the end of the input."""
    from agenttrace.cli.exporter_process import GRACE_SECONDS, when_input_ends
    from agenttrace.cli.exporting import keep_sending
    from agenttrace.cli.running import until_stopped

    began, before = time.monotonic(), tally(settings)
    if not as_json:
        names = ", ".join(each.name for each in settings.destinations)
        output.say(f"Sending what is recorded to {names}. Ctrl-C stops it; nothing is lost.", "bold")

    async def main(stop: asyncio.Event) -> None:
        if until_input_ends:
            loop = asyncio.get_running_loop()
            # The loop may have ended for another reason.
            when_input_ends(lambda: _quietly(loop, stop))
            with suppress(AttributeError, OSError):
                os.nice(_NICE)
        await keep_sending(settings, stop)

    until_stopped(main, drain_seconds=GRACE_SECONDS)
    _report(settings, before, tally(settings), {}, time.monotonic() - began, as_json=as_json)


def _quietly(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(stop.set)


def once(settings: Settings, *, as_json: bool) -> None:
    """Send everything that is finished by now."""
    from agenttrace.cli.exporting import send_once
    from agenttrace.cli.progress import SendingProgress
    from agenttrace.cli.stopping import stop_event

    # What cannot be used is told at the end, with everything else.
    logging.getLogger("agenttrace").setLevel(logging.ERROR)
    began, before = time.monotonic(), tally(settings)
    watched = not as_json and output.is_terminal()
    with stop_event() as stop, SendingProgress(lambda: _progress(settings, before), enabled=watched) as progress:
        left = asyncio.run(send_once(settings, stop.is_set, progress.update))
    after = tally(settings)
    troubled = _report(settings, before, after, left, time.monotonic() - began, as_json=as_json)
    if stop.is_set() and left:
        output.note("Interrupted: what was acknowledged is not sent again; the next run goes on from there.", "yellow")
        raise typer.Exit(INTERRUPTED)
    if troubled:
        raise typer.Exit(FAILED)


def tally(settings: Settings) -> _Tally:
    """How it stands; all is zero where there is no store yet."""
    if not store_path(settings).exists():
        return _Tally({}, 0)
    with opening.opened_store(settings, read_only=False) as store:
        found, rows = store.exports.ledger.counts(), store.exports.destinations.rows()
        return _Tally({row.name: found.get(row.destination_id, {}) for row in rows}, store.exports.waiting())


def _progress(settings: Settings, before: _Tally) -> tuple[int, int]:
    """Spans that were dealt with since, and all that were to be."""
    now = tally(settings)
    names = [each.name for each in settings.destinations]
    done = sum(_since(before, now, name, state) for name in names for state in _OUTCOMES)
    return done, done + sum(_waiting(now, name) for name in names)


def _since(before: _Tally, after: _Tally, name: str, state: State) -> int:
    return max(0, after.states.get(name, {}).get(state, 0) - before.states.get(name, {}).get(state, 0))


def _waiting(now: _Tally, name: str) -> int:
    states = now.states.get(name, {})
    return states.get("queued", 0) + states.get("sending", 0)


def _report(
    settings: Settings, before: _Tally, after: _Tally, left: dict[str, str], seconds: float, *, as_json: bool
) -> bool:
    """Say what became of everything; whether anything was left or refused."""
    found = [
        {
            "name": each.name,
            **{state: _since(before, after, each.name, state) for state in _OUTCOMES},
            "left": _waiting(after, each.name),
            "reason": left.get(each.name),
        }
        for each in settings.destinations
    ]
    if as_json:
        output.print_json({"destinations": found, "open_turns": after.open_turns, "seconds": round(seconds, 3)})
    else:
        _say(found, after.open_turns, seconds)
    return bool(left) or any(each["refused"] or each["unknown"] for each in found)


def _say(found: list[dict[str, Any]], open_turns: int, seconds: float) -> None:
    for each in found:
        output.say(f"{each['name']}: {_outcome(each)}")
        if each["reason"]:
            output.complain(f"{each['name']}: {one_line(each['reason'])}", _fix(each))
        elif each["refused"] or each["unknown"]:
            output.note(f"See the answers: agenttrace export status {each['name']}", "yellow")
    if open_turns:
        output.note(f"{figures.counted(open_turns, 'turn')} not over yet; they are sent when they are.")
    output.note(f"Took {figures.duration(round(seconds * times.MICROS))}.")


def _outcome(each: dict[str, Any]) -> str:
    parts = [f"{figures.counted(each['acknowledged'], 'span')} acknowledged"] if each["acknowledged"] else []
    parts += [f"{figures.count(each[state])} {state}" for state in ("refused", "unknown", "dropped") if each[state]]
    if each["left"]:
        parts.append(f"{figures.count(each['left'])} left")
    return ", ".join(parts) or "nothing new was sent"


def _fix(each: dict[str, Any]) -> str:
    if not each["left"]:
        return ""  # it cannot be used, and the reason says what to do
    return f"Look into it: agenttrace export check {each['name']}; what is left is sent by the next run."
