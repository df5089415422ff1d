"""``agenttrace export run``: the exporter as a command, until it is stopped or until everything is sent."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.child_process import GRACE_SECONDS, watching_store, when_input_ends
from agenttrace.cli.errors import FAILED, INTERRUPTED
from agenttrace.cli.export_status import unit_of
from agenttrace.cli.progress import SendingProgress
from agenttrace.cli.stopping import setter, stop_event, until_stopped
from agenttrace.destinations import TEAM
from agenttrace.record.lock import owner
from agenttrace.views import figures, times
from agenttrace.views.places import store_path
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agenttrace.config import Settings
    from agenttrace.export.exporter import Exporter
    from agenttrace.store.exports import State

#: The exporter gives way to the recorder.
_NICE = 5
#: The final states of a span.
_OUTCOMES: tuple[State, ...] = ("acknowledged", "refused", "unknown", "dropped")


class _Tally(NamedTuple):
    """Spans of each destination by state, and open turns."""

    states: dict[str, dict[State, int]]
    open_turns: int
    #: Annotations of each destination by state, since the run began; ``left``: those that could be sent.
    annotations: dict[str, dict[str, int]]


def on(settings: Settings, *, as_json: bool, until_input_ends: bool) -> None:
    """Send until Ctrl-C, SIGTERM, or where asked for the end of the input."""
    began, started, before = time.monotonic(), time.time(), tally(settings)
    if not as_json:
        names = ", ".join(each.name for each in settings.destinations)
        output.say(f"Sending to {names}. Ctrl-C stops it; nothing is lost.", "bold")

    async def main(stop: asyncio.Event) -> None:
        if until_input_ends:
            when_input_ends(setter(asyncio.get_running_loop(), stop))
            with suppress(AttributeError, OSError):
                os.nice(_NICE)
        await keep_sending(settings, stop)

    until_stopped(main, drain_seconds=GRACE_SECONDS)
    _report(settings, before, tally(settings, started), {}, time.monotonic() - began, as_json=as_json)


def once(settings: Settings, *, as_json: bool) -> None:
    """Send everything that is finished by now."""
    # Unusable destinations are reported at the end.
    logging.getLogger("agenttrace").setLevel(logging.ERROR)
    began, started, before = time.monotonic(), time.time(), tally(settings)
    watched = not as_json and output.is_terminal()
    with stop_event() as stop, SendingProgress(lambda: _progress(settings, before), enabled=watched) as progress:
        left = asyncio.run(send_once(settings, stop.is_set, progress.update))
    after = tally(settings, started)
    troubled = _report(settings, before, after, left, time.monotonic() - began, as_json=as_json)
    if stop.is_set() and left:
        output.note(
            "Interrupted: what was acknowledged is not sent again; the next run continues from there.", "yellow"
        )
        raise typer.Exit(INTERRUPTED)
    if troubled:
        raise typer.Exit(FAILED)


def make_exporter(settings: Settings) -> Exporter:
    """The exporter of this data directory, with the texts of spans and their masking."""
    from agenttrace.export.exporter import Exporter
    from agenttrace.masking import Mask
    from agenttrace.record.formats import FACTS
    from agenttrace.record.texts.session_texts import SessionTexts

    texts = SessionTexts().contents
    return Exporter(settings, texts=texts, mask=Mask(settings.export.mask), agents=FACTS)


async def keep_sending(settings: Settings, stop: asyncio.Event) -> None:
    """Send until ``stop`` is set; a store that was rebuilt meanwhile is opened anew."""
    while not stop.is_set():
        async with watching_store(store_path(settings), stop) as done:
            await make_exporter(settings).run(done)


async def send_once(settings: Settings, stop: Callable[[], bool], on_round: Callable[[], None]) -> dict[str, str]:
    """Send all finished spans; the reasons why some are left, by destination."""
    # Without a recorder no turn changes any more: there is nothing to wait for.
    quiet = 0.0 if owner(settings.home) is None else None
    return await make_exporter(settings).run_once(quiet_seconds=quiet, stop=stop, on_round=on_round)


def tally(settings: Settings, since: float = 0.0) -> _Tally:
    """The ledgers now, all zero where there is no store yet; annotations of a run that began then."""
    if not store_path(settings).exists():
        return _Tally({}, 0, {})
    with opening.opened_store(settings, read_only=False) as store:
        found, rows = store.exports.counts(), store.exports.destinations.rows()
        sent = store.exports.annotations.counts(since)
        annotations = {
            row.name: {**sent.get(row.destination_id, {}), "left": store.exports.annotations.left(row.destination_id)}
            for row in rows
            if since and _takes_annotations(settings, row.name)
        }
        states = {row.name: found.get(row.destination_id, {}) for row in rows}
        return _Tally(states, store.exports.waiting(), annotations)


def _takes_annotations(settings: Settings, name: str) -> bool:
    from agenttrace.export.kinds import takes_annotations

    return any(each.name == name and takes_annotations(each.type) for each in settings.destinations)


def _progress(settings: Settings, before: _Tally) -> tuple[int, int]:
    """Spans with an outcome since then, and these with the queued ones."""
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
    """Print the outcome; whether anything was left or refused."""
    found = [
        {
            "name": each.name,
            **{state: _since(before, after, each.name, state) for state in _OUTCOMES},
            "left": _waiting(after, each.name),
            "annotations": after.annotations.get(each.name, {}).get("acknowledged", 0),
            "refused_annotations": after.annotations.get(each.name, {}).get("refused", 0),
            "left_annotations": after.annotations.get(each.name, {}).get("left", 0),
            "reason": left.get(each.name),
        }
        for each in settings.destinations
    ]
    if as_json:
        output.print_json({"destinations": found, "open_turns": after.open_turns, "seconds": round(seconds, 3)})
    else:
        _say(found, {each.name: each.type for each in settings.destinations}, after.open_turns, seconds)
    return bool(left) or any(each["refused"] or each["unknown"] for each in found)


def _say(found: list[dict[str, Any]], kinds: Mapping[str, str], open_turns: int, seconds: float) -> None:
    for each in found:
        output.say(f"{each['name']}: {_outcome(each, unit_of(kinds[each['name']]))}")
        if each["reason"]:
            output.complain(f"{each['name']}: {one_line(each['reason'])}", _fix(each))
        elif each["refused"] or each["unknown"] or each["refused_annotations"]:
            output.note(f"See the answers: agenttrace export status {each['name']}", "yellow")
    if open_turns and any(kind != TEAM for kind in kinds.values()):
        output.note(f"{figures.counted(open_turns, 'turn')} not finished; they are sent when they are.")
    output.note(f"Took {figures.duration(round(seconds * times.MICROS))}.")


def _outcome(each: dict[str, Any], unit: str) -> str:
    parts = [f"{figures.counted(each['acknowledged'], unit)} acknowledged"] if each["acknowledged"] else []
    parts += [f"{figures.count(each[state])} {state}" for state in ("refused", "unknown", "dropped") if each[state]]
    if each["left"]:
        parts.append(f"{figures.count(each['left'])} left")
    words = {"annotations": "acknowledged", "refused_annotations": "refused", "left_annotations": "left"}
    parts += [f"{figures.counted(each[name], 'annotation')} {word}" for name, word in words.items() if each[name]]
    return ", ".join(parts) or "nothing new was sent"


def _fix(each: dict[str, Any]) -> str:
    if not each["left"] and not each["left_annotations"]:
        return ""  # it cannot be used, and the reason says what to do
    return f"Check it: agenttrace export check {each['name']}. The next run sends what is left."
