"""``agenttrace search``: every prompt, answer, argument and result, in any language."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import figures, opening, output
from agenttrace.cli.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.cli.events import Heard
    from agenttrace.config import Settings
    from agenttrace.record.agents.contract import Content

EPILOG = """
[bold]Examples[/bold]

  agenttrace search retry                 one word

  agenttrace search "connection reset"    both words

  agenttrace search '"connection reset"'  exactly this phrase

  agenttrace search 'migrat*'             words that begin so

  agenttrace search 重试                   Chinese, Japanese and Korean, too
"""

_AROUND = 70
_WAIT_SECONDS = 3.0


def search(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="Words to find; all of them must occur.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many hits at most.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find text in everything that was recorded, newest first."""
    from agenttrace.cli.events import Listener
    from agenttrace.record.search_index import match_expression

    wanted = " ".join(text)
    expression = match_expression(wanted)
    if not expression:
        raise UsageError("there is nothing to search for", "Give at least one word.")
    settings = opening.settings()
    bring_up_to_date(settings, quiet=as_json)
    with opening.reading(settings) as connection:
        numbers = _matching(connection, expression, limit)
        heard = list(Listener(connection).hear(sorted(numbers)))[::-1]
    terms = _terms(wanted)
    if as_json:
        output.print_json([_fields(each, terms) for each in heard])
        return
    for each in heard:
        _show(each, terms)
    if not heard:
        output.say(f"Nothing recorded contains {output.one_line(wanted)!r}.")
    elif len(heard) == limit:
        output.note(f"The newest {limit}; more with --limit.")


def _matching(connection: Any, expression: str, limit: int) -> list[int]:  # noqa: ANN401 - a sqlite3 connection
    rows = connection.execute(
        "SELECT search.rowid FROM search JOIN processed_events ON event_no = search.rowid "
        "WHERE search MATCH ? AND block_id IS NOT NULL ORDER BY search.rowid DESC LIMIT ?",
        (expression, limit),
    )
    return [row[0] for row in rows]


def bring_up_to_date(settings: Settings, *, quiet: bool) -> None:
    """Index what waits; while a recorder runs that is its work, and we wait for it a little."""
    from agenttrace.cli.progress import ImportProgress
    from agenttrace.cli.record import stop_event
    from agenttrace.record import search_index
    from agenttrace.record.lock import AlreadyRecordingError, RecorderLock

    with opening.reading(settings) as connection:
        if not search_index.backlog(connection):
            return
        try:
            # The lock, because two that fill the index at once would enter events twice.
            with (
                RecorderLock(settings.home),
                stop_event() as stop,
                opening.writing(settings) as writer,
                ImportProgress(enabled=not quiet and output.is_terminal()) as progress,
            ):
                progress.index(writer, stop)
            return
        except AlreadyRecordingError:
            deadline = time.monotonic() + _WAIT_SECONDS
            while (left := search_index.backlog(connection)) and time.monotonic() < deadline:
                time.sleep(0.1)
        if left:
            output.note(
                f"{figures.counted(left, 'new event')} not searchable yet; the recorder is still indexing.", "yellow"
            )


def _terms(wanted: str) -> re.Pattern[str]:
    """What to highlight: each phrase, else each word."""
    found = [phrase or word.rstrip("*") for phrase, word in re.findall(r'"([^"]*)"|(\S+)', wanted)]
    parts = [re.escape(term).replace(r"\ ", r"\s+") for term in found if term]
    return re.compile("|".join(sorted(parts, key=len, reverse=True)) or r"(?!)", re.IGNORECASE)


def _best(heard: Heard, terms: re.Pattern[str]) -> tuple[Content | None, int]:
    """The text that matches, and where."""
    for content in heard.said.contents:
        match = terms.search(content.text)
        if match is not None:
            return content, match.start()
    return (heard.said.contents[0], 0) if heard.said.contents else (None, 0)


def _snippet(text: str, place: int) -> str:
    start = max(0, place - _AROUND)
    cut = output.one_line(text[start : place + 2 * _AROUND])
    return ("…" if start else "") + cut + ("…" if len(text) > place + 2 * _AROUND else "")


def _fields(heard: Heard, terms: re.Pattern[str]) -> dict[str, Any]:
    from agenttrace.cli.events import event_fields
    from agenttrace.cli.sessions import title_of

    content, place = _best(heard, terms)
    fields = event_fields(heard)
    del fields["contents"]
    return {
        **fields,
        "title": title_of(heard.session) or None,
        "project": heard.session.project,
        "kind": None if content is None else content.kind,
        "snippet": None if content is None else _snippet(content.text, place),
    }


def _show(heard: Heard, terms: re.Pattern[str]) -> None:
    from rich.text import Text

    from agenttrace.cli.sessions import title_of

    content, place = _best(heard, terms)
    head = Text.assemble(
        (output.one_line(heard.session.session_id.removeprefix("session_"))[:8], "cyan"),
        (f"  {heard.session.agent}  {figures.clock(heard.said.event.at)}  ", "dim"),
        (f"{content.kind if content else heard.said.line.event_type}  ", "bold"),
        (output.one_line(title_of(heard.session), 60), "dim"),
    )
    output.stdout().print(head, soft_wrap=True)
    if content is not None:
        output.stdout().print(_highlighted(_snippet(content.text, place), terms), soft_wrap=True)


def _highlighted(text: str, terms: re.Pattern[str]) -> Text:
    shown = output.styled(f"    {text}")
    shown.highlight_regex(terms, style="bold black on yellow")
    return shown
