"""What ``agenttrace export status`` shows people: a table of destinations, or one of them whole."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from agenttrace.cli import output
from agenttrace.cli.columns import Column, print_table
from agenttrace.views import figures, times
from agenttrace.views.plain import one_line, safe

Fields = Mapping[str, Any]

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
_COLUMNS = (
    Column("destination", least=8),
    Column("kind", optional=4),
    Column("state"),
    Column("acknowledged", right=True),
    Column("queued", right=True),
    Column("refused", right=True),
    Column("unknown", right=True),
    Column("dropped", right=True, optional=3),
    Column("late", right=True, optional=3),
    Column("oldest queued", right=True, optional=2),
    Column("last success", right=True, optional=1),
    Column("requests", right=True, optional=6),
    Column("sent", right=True, optional=5),
    Column("address", least=16, keep_end=True, optional=7),
)


def show_table(found: Fields) -> None:
    """All destinations, and below them what is to be done."""
    destinations = found["destinations"]
    print_table(_COLUMNS, [_row(each) for each in destinations])
    for each in destinations:
        for text in _remarks(each):
            output.note(f"{each['name']}: {text}", "yellow")
    show_exporter(found)


def show_exporter(found: Fields) -> None:
    """Say that nobody sends, if so."""
    if not found["exporter"]["running"] and found["destinations"]:
        output.note("No exporter runs. Start it with: agenttrace up; once: agenttrace export run --once", "yellow")


def show_one(each: Fields, spans: Mapping[str, list[dict[str, Any]]]) -> None:
    """One destination with everything that is known of it."""
    _fact("destination", each["name"], "bold")
    _fact("kind", f"{each['kind']}{', ' + each['address'] if each['address'] else ''}")
    _fact("state", state_words(each), _STYLES.get(each["state"], ""))
    _fact("acknowledged", figures.counted(each["acknowledged"], "span"))
    oldest = f", the oldest {_ago(each['oldest_queued_at'])}" if each["oldest_queued_at"] else ""
    _fact("queued", f"{figures.counted(_queued(each), 'span')}{oldest}")
    _fact("refused", figures.counted(each["refused"], "span"), "bold red" if each["refused"] else "")
    _fact("unknown", figures.counted(each["unknown"], "span"), "bold yellow" if each["unknown"] else "")
    _fact("dropped", f"{figures.counted(each['dropped'], 'span')} removed from the store before they were sent")
    _fact("late", f"{figures.counted(each['late'], 'span')} changed after they were sent")
    if each["rejected"]:
        _fact("rejected", f"{figures.counted(each['rejected'], 'span')}, and it did not say which")
    _fact("sent", f"{figures.size(each['sent_bytes'])} in {figures.counted(each['requests'], 'request')}")
    _fact("last success", _when(each["last_success_at"]))
    if each["last_error"]:
        _fact("last error", f"{_when(each['last_error_at'])}: {one_line(each['last_error'])}")
    _fact("start", "everything that was recorded" if each["since"] is None else f"turns since {_when(each['since'])}")
    for state, entries in spans.items():
        _show_spans(state, each[state], entries)
    for text in _remarks(each, named=False):
        output.note(text, "yellow")


def state_words(each: Fields) -> str:
    """How a destination is, in words."""
    if each["state"] == "waiting":
        return f"waiting until {_time(each['retry_at'])}{_because(each)}"
    if each["state"] == "stopped":
        return f"no exporter runs{_because(each)}"
    return _WORDS[each["state"]] + _because(each)


def _because(each: Fields) -> str:
    return f": {one_line(each['reason'])}" if each["reason"] else ""


def _row(each: Fields) -> list[Any]:
    return [
        output.styled(each["name"], "cyan"),
        each["kind"],
        output.styled(_WORDS[each["state"]], _STYLES.get(each["state"], "dim")),
        figures.count(each["acknowledged"]),
        figures.count(_queued(each)),
        output.styled(figures.count(each["refused"]), "bold red" if each["refused"] else ""),
        output.styled(figures.count(each["unknown"]), "bold yellow" if each["unknown"] else ""),
        figures.count(each["dropped"]),
        figures.count(each["late"]),
        _ago(each["oldest_queued_at"]),
        _ago(each["last_success_at"]),
        figures.count(each["requests"]),
        figures.size(each["sent_bytes"]),
        one_line(each["address"]),
    ]


def _queued(each: Fields) -> int:
    """What is on its way counts as queued until it is answered for."""
    return int(each["queued"] + each["sending"])


def _remarks(each: Fields, *, named: bool = True) -> Iterable[str]:
    """What the figures do not say, and what to do about it."""
    name = each["name"]
    if named and each["reason"]:
        yield state_words(each)
    if each["refused"]:
        see = f"see why: agenttrace export status {name}; " if named else ""
        yield f"{figures.counted(each['refused'], 'span')} refused; {see}again: agenttrace export retry {name}"
    if each["unknown"]:
        yield (
            f"{figures.counted(each['unknown'], 'span')} sent, and nobody answered. Look there whether they arrived; "
            f"if so: agenttrace export accept {name}; if not: agenttrace export retry {name} --unknown"
        )


def _show_spans(state: str, count: int, entries: list[dict[str, Any]]) -> None:
    if not entries:
        return
    output.say()
    part = f", the latest {len(entries)} of {figures.count(count)}" if count > len(entries) else ""
    output.say(f"{state}{part}:")
    columns = (
        Column("since", right=True),
        Column("session", least=8, keep_end=True),
        Column("span"),
        Column("name", least=12),
        Column("tries", right=True, optional=1),
        Column("answer", least=30),
    )
    rows = [
        [
            _when(each["at"]),
            one_line(each["session_id"] or each["session"]),
            each["span_id"],
            one_line(each["span"] or "–"),
            figures.count(each["attempts"]),
            one_line(each["answer"] or "–"),
        ]
        for each in entries
    ]
    print_table(columns, rows)


def _fact(name: str, value: str, style: str = "") -> None:
    from rich.text import Text

    output.stdout().print(Text.assemble((f"{name:<13}", "dim"), (safe(value), style)), soft_wrap=True)


def _when(moment: str | None) -> str:
    return "–" if moment is None else figures.clock(times.parse_when(moment))


def _time(moment: str | None) -> str:
    return "–" if moment is None else figures.time_of_day(times.parse_when(moment))


def _ago(moment: str | None) -> str:
    return "–" if moment is None else figures.ago(time.time() - times.parse_when(moment) / times.MICROS)
