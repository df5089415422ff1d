"""``agenttrace search``: every prompt, answer, argument and result, in any language."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import UsageError
from agenttrace.views import figures, hits
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import title_of

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.config import Settings
    from agenttrace.views.events import Heard

EPILOG = """
[bold]Examples[/bold]

  agenttrace search retry                 one word

  agenttrace search "connection reset"    both words

  agenttrace search '"connection reset"'  exactly this phrase

  agenttrace search 'migrat*'             words that begin so

  agenttrace search 重试                   Chinese, Japanese and Korean, too
"""

_WAIT_SECONDS = 3.0


def search(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="Words to find; all of them must occur.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many hits at most.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find text in everything that was recorded, newest first."""
    from agenttrace.record.search_index import match_expression
    from agenttrace.views.events import Listener

    wanted = " ".join(text)
    expression = match_expression(wanted)
    if not expression:
        raise UsageError("there is nothing to search for", "Give at least one word.")
    settings = opening.settings()
    bring_up_to_date(settings, quiet=as_json)
    with opening.reading(settings) as connection:
        numbers = hits.matching(connection, expression, limit)
        heard = list(Listener(connection).hear(sorted(numbers)))[::-1]
    terms = hits.terms_of(wanted)
    if as_json:
        output.print_json([_fields(each, terms) for each in heard])
        return
    for each in heard:
        _show(each, terms)
    if not heard:
        output.say(f"Nothing recorded contains {one_line(wanted)!r}.")
    elif len(heard) == limit:
        output.note(f"The newest {limit}; more with --limit.")


def bring_up_to_date(settings: Settings, *, quiet: bool) -> None:
    """Index what waits; while a recorder runs that is its work, and we wait for it a little."""
    from agenttrace.cli.progress import ImportProgress
    from agenttrace.cli.stopping import stop_event
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
                opening.opened_store(settings, read_only=False) as writer,
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


def _fields(heard: Heard, terms: re.Pattern[str]) -> dict[str, Any]:
    from agenttrace.views.events import event_fields

    content, place = hits.best(heard, terms)
    fields = event_fields(heard)
    del fields["contents"]
    return {
        **fields,
        "title": title_of(heard.session) or None,
        "project": heard.session.project,
        "kind": None if content is None else content.kind,
        "snippet": None if content is None else hits.snippet(content.text, place),
    }


def _show(heard: Heard, terms: re.Pattern[str]) -> None:
    from rich.text import Text

    content, place = hits.best(heard, terms)
    head = Text.assemble(
        (one_line(heard.session.session_id.removeprefix("session_"))[:8], "cyan"),
        (f"  {heard.session.agent}  {figures.clock(heard.said.event.at)}  ", "dim"),
        (f"{content.kind if content else heard.said.line.event_type}  ", "bold"),
        (one_line(title_of(heard.session), 60), "dim"),
    )
    output.stdout().print(head, soft_wrap=True)
    if content is not None:
        output.stdout().print(_highlighted(hits.snippet(content.text, place), terms), soft_wrap=True)


def _highlighted(text: str, terms: re.Pattern[str]) -> Text:
    shown = output.styled(f"    {text}")
    shown.highlight_regex(terms, style="bold black on yellow")
    return shown
