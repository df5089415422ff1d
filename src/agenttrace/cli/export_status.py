"""``agenttrace export status`` for people: a table of destinations, or one of them in detail."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from agenttrace.cli import output
from agenttrace.cli.columns import Column, print_table
from agenttrace.destinations import TEAM
from agenttrace.views import figures, times
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from rich.text import Text

Fields = Mapping[str, Any]

ROW = "row"
_WORDS = {
    "idle": "up to date",
    "sending": "sending",
    "confirming": "confirming",
    "waiting": "waiting",
    "paused": "paused",
    "unused": "not used",
    "stopped": "no exporter",
    "removed": "removed",
}
_STYLES = {
    "idle": "green",
    "sending": "bold cyan",
    "confirming": "cyan",
    "waiting": "bold yellow",
    "unused": "bold yellow",
    "stopped": "yellow",
}


def show_table(found: Fields) -> None:
    """All destinations, and below them what to do about problems."""
    destinations = found["destinations"]
    print_table(_COLUMNS, destinations)
    for each in destinations:
        for text in _remarks(each):
            output.note(f"{each['name']}: {text}", "yellow")
    show_exporter(found)


def show_exporter(found: Fields) -> None:
    """Say so where no exporter runs."""
    if not found["exporter"]["running"] and found["destinations"]:
        output.note("No exporter runs. Start it with: agenttrace up; once: agenttrace export run --once", "yellow")


def show_one(each: Fields, spans: Mapping[str, list[dict[str, Any]]]) -> None:
    """One destination in detail."""
    unit = unit_of(each["kind"])
    output.fact("destination", each["name"], "bold")
    output.fact("kind", f"{each['kind']}{', ' + each['address'] if each['address'] else ''}")
    output.fact("state", state_words(each), _STYLES.get(each["state"], ""))
    output.fact("acknowledged", figures.counted(each["acknowledged"], unit))
    oldest = f", the oldest {_ago(each['oldest_queued_at'])}" if each["oldest_queued_at"] else ""
    output.fact("queued", f"{figures.counted(_queued(each), unit)}{oldest}")
    output.fact("refused", figures.counted(each["refused"], unit), "bold red" if each["refused"] else "")
    output.fact("unknown", figures.counted(each["unknown"], unit), "bold yellow" if each["unknown"] else "")
    output.fact("dropped", f"{figures.counted(each['dropped'], unit)} removed from the store before they were sent")
    output.fact("late", f"{figures.counted(each['late'], unit)} changed after they were sent")
    if each["rejected"]:
        output.fact("rejected", f"{figures.counted(each['rejected'], unit)}, and it did not say which")
    if each["annotations"] or each["refused_annotations"]:
        output.fact("annotations", f"{figures.count(each['annotations'])} acknowledged")
    if each["refused_annotations"]:
        count = figures.counted(each["refused_annotations"], "annotation")
        output.fact("", f"{count} refused: {one_line(each['refusal'] or '')}", "bold red")
    output.fact("sent", f"{figures.size(each['sent_bytes'])} in {figures.counted(each['requests'], 'request')}")
    output.fact("last success", _when(each["last_success_at"]))
    if each["last_error"]:
        output.fact("last error", f"{_when(each['last_error_at'])}: {one_line(each['last_error'])}")
    output.fact(
        "start", "everything that was recorded" if each["since"] is None else f"turns since {_when(each['since'])}"
    )
    for state, entries in spans.items():
        _show_spans(state, each[state], entries)
    for text in _remarks(each, named=False):
        output.note(text, "yellow")


def unit_of(kind: str) -> str:
    """What a destination of this type gets."""
    return ROW if kind == TEAM else "span"


def state_words(each: Fields) -> str:
    """The state of a destination, with its reason."""
    if each["state"] == "waiting":
        return f"waiting until {_time(each['retry_at'])}{_because(each)}"
    if each["state"] == "stopped":
        return f"no exporter runs{_because(each)}"
    return _WORDS[each["state"]] + _because(each)


def _because(each: Fields) -> str:
    return f": {one_line(each['reason'])}" if each["reason"] else ""


_COLUMNS: tuple[Column[Fields], ...] = (
    Column("destination", itemgetter("name"), least=8, style="cyan"),
    Column("kind", itemgetter("kind"), optional=4),
    Column("state", lambda each: output.styled(_WORDS[each["state"]], _STYLES.get(each["state"], "dim"))),
    Column("acknowledged", lambda each: figures.count(each["acknowledged"]), right=True),
    Column("queued", lambda each: figures.count(_queued(each)), right=True),
    Column("refused", lambda each: _alarming(each["refused"], "bold red"), right=True),
    Column("unknown", lambda each: _alarming(each["unknown"], "bold yellow"), right=True),
    Column("dropped", lambda each: figures.count(each["dropped"]), right=True, optional=3),
    Column("late", lambda each: figures.count(each["late"]), right=True, optional=3),
    Column("oldest queued", lambda each: _ago(each["oldest_queued_at"]), right=True, optional=2),
    Column("last success", lambda each: _ago(each["last_success_at"]), right=True, optional=1),
    Column("requests", lambda each: figures.count(each["requests"]), right=True, optional=6),
    Column("sent", lambda each: figures.size(each["sent_bytes"]), right=True, optional=5),
    Column("address", lambda each: one_line(each["address"]), least=16, keep_end=True, optional=7),
)


def _alarming(count: int, style: str) -> Text:
    return output.styled(figures.count(count), style if count else "")


def _queued(each: Fields) -> int:
    """Spans that are being sent count as queued until they are acknowledged."""
    return int(each["queued"] + each["sending"])


def _remarks(each: Fields, *, named: bool = True) -> Iterable[str]:
    """What to do about refused and unknown spans."""
    name, unit = each["name"], unit_of(each["kind"])
    if named and each["reason"]:
        yield state_words(each)
    if each["refused"] and unit == ROW:
        why = one_line(each["last_error"] or "")
        yield f"{figures.counted(each['refused'], unit)} refused; they are not sent again{why and f': {why}'}"
    elif each["refused"]:
        see = f"see why: agenttrace export status {name}; " if named else ""
        yield f"{figures.counted(each['refused'], unit)} refused; {see}again: agenttrace export retry {name}"
    if each["unknown"]:
        yield (
            f"{figures.counted(each['unknown'], unit)} sent without an answer. Check whether they arrived; "
            f"if so: agenttrace export accept {name}; if not: agenttrace export retry {name} --unknown"
        )


def _show_spans(state: str, count: int, entries: list[dict[str, Any]]) -> None:
    if not entries:
        return
    output.say()
    part = f", the latest {len(entries)} of {figures.count(count)}" if count > len(entries) else ""
    output.say(f"{state}{part}:")
    print_table(_SPAN_COLUMNS, entries)


_SPAN_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("since", lambda each: _when(each["at"]), right=True),
    Column("session", lambda each: one_line(each["session_id"] or each["session"]), least=8, keep_end=True),
    Column("span", itemgetter("span_id")),
    Column("name", lambda each: one_line(each["span"] or "–"), least=12),
    Column("tries", lambda each: figures.count(each["attempts"]), right=True, optional=1),
    Column("answer", lambda each: one_line(each["answer"] or "–"), least=30),
)


def _when(moment: str | None) -> str:
    return "–" if moment is None else figures.clock(times.parse_when(moment))


def _time(moment: str | None) -> str:
    return "–" if moment is None else figures.time_of_day(times.parse_when(moment))


def _ago(moment: str | None) -> str:
    return "–" if moment is None else figures.ago(time.time() - times.parse_when(moment) / times.MICROS)
