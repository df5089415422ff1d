"""``agenttrace search``: every prompt, answer, argument and result, in any language."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import UsageError
from agenttrace.cli.options import Agent, AsJson, Machine, Person, Project, Since, only
from agenttrace.cli.progress import ImportProgress
from agenttrace.cli.session_ids import ShortIds
from agenttrace.cli.sessions import find_one
from agenttrace.cli.stopping import stop_event
from agenttrace.record.lock import AlreadyRecordingError, RecorderLock
from agenttrace.store.questions import SearchQuery
from agenttrace.store.search_terms import has_words
from agenttrace.views import figures, hits
from agenttrace.views.annotations import written_by
from agenttrace.views.calls import call_text
from agenttrace.views.events import event_fields
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import title_of
from agenttrace.views.times import MICROS, iso, parse_since

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.config import Settings
    from agenttrace.model import Session
    from agenttrace.record.formats.contract import Content
    from agenttrace.store.store import Store

EPILOG = """
  agenttrace search retry                 one word
  agenttrace search "connection reset"    both words
  agenttrace search '"connection reset"'  exactly this phrase
  agenttrace search 'migrat*'             words that begin with it
  agenttrace search 重试                   Chinese, Japanese and Korean, too
  agenttrace search timeout --agent codex --project shop --since 7d
"""

_WAIT_SECONDS = 3.0


def search(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="Words to find; all of them must occur.")],
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Filter by session: an id or the beginning of one.")
    ] = None,
    agent: Agent = None,
    project: Project = None,
    machine: Machine = None,
    person: Person = None,
    since: Since = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Before this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The maximum number of matches.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Search notes and labels, and then all recorded texts, newest first."""
    wanted = " ".join(text)
    if not has_words(wanted):
        raise UsageError("there is nothing to search for", "Give at least one word.")
    settings = opening.settings()
    zone = settings.usage.timezone
    period = (parse_since(since, zone), parse_since(until, zone))
    bring_up_to_date(settings, quiet=as_json)
    with opening.shown_store(settings) as store:
        query = SearchQuery(
            text=wanted,
            session=None if session is None else find_one(store, session).id,
            agents=_agents(store, agent),
            project_contains=project,
            machines=only(machine),
            persons=only(person),
            since=period[0],
            until=period[1],
            limit=limit,
        )
        page = hits.find(store, query, most_read=sys.maxsize)
        short = ShortIds([] if as_json else store.session_ids())
    _print(page, query, short, as_json=as_json)


def _agents(store: Store, name: str | None) -> frozenset[str]:
    """The agent to filter by: one in the store, which includes programs of users, or a known format."""
    if name is not None and name not in store.agents():
        name = opening.checked_agent(name)
    return frozenset() if name is None else frozenset({name})


def _print(page: hits.SearchPage, query: SearchQuery, short: ShortIds, *, as_json: bool) -> None:
    if as_json:
        output.print_json([_fields(match) for match in page.matches])
        return
    terms = hits.terms_of(query.text)
    for match in page.matches:
        _show(match, terms, short)
    if not page.matches:
        filters = (query.session, query.agents, query.project_contains, query.machines, query.persons)
        period = (query.since, query.until)
        elsewhere = " there; try fewer filters" if any((*filters, *period)) else ""
        output.say(f"Nothing recorded contains {one_line(query.text)!r}{elsewhere}.")
    elif page.next is not None:
        output.note(f"The newest {query.limit}; more with --limit.")


def bring_up_to_date(settings: Settings, *, quiet: bool) -> None:
    """Update the search index; while a recorder runs, or a team's server, wait a little for its update."""
    if opening.shows_team(settings):
        with opening.shown_store(settings) as team:
            _await_index(team, "the team's server indexes them")
        return
    with opening.opened_store(settings) as store:
        if not store.search_index.backlog:
            return
        try:
            # Under the lock, because two processes that fill the index at once would add events twice.
            with (
                RecorderLock(settings.home),
                stop_event() as stop,
                opening.opened_store(settings, read_only=False) as writer,
                ImportProgress(enabled=not quiet and output.is_terminal()) as progress,
            ):
                progress.index(writer, stop)
            return
        except AlreadyRecordingError:
            _await_index(store, "the recorder is still indexing")


def _await_index(store: Store, why: str) -> None:
    """Wait a little until everything is searchable; say what is not."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while (left := store.search_index.backlog) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        output.note(f"{figures.counted(left, 'new event')} not searchable yet; {why}.", "yellow")


def _fields(match: hits.TextMatch | hits.AnnotationMatch) -> dict[str, Any]:
    if isinstance(match, hits.AnnotationMatch):
        return _annotation_fields(match)
    event, content = match.event, match.content
    fields = event_fields(event)
    del fields["contents"]
    return {
        **fields,
        "title": title_of(event.session) or None,
        "project": event.session.project,
        "machine": event.session.machine,
        "person": event.session.person,
        "kind": None if content is None else content.kind,
        "snippet": None if content is None else hits.snippet(content.text, match.place),
    }


def _annotation_fields(match: hits.AnnotationMatch) -> dict[str, Any]:
    session, annotation = match.session, match.annotation
    return {
        "event_no": None,
        "annotation_id": annotation.annotation_id.hex(),
        "at": iso(int(annotation.changed_at * MICROS)),
        "agent": session.agent,
        "session_id": session.session_id,
        "type": "annotation",
        "author": annotation.author,
        "span_id": None if annotation.span_id is None else annotation.span_id.hex(),
        "title": title_of(session) or None,
        "project": session.project,
        "machine": session.machine,
        "person": session.person,
        "kind": annotation.kind,
        "snippet": hits.snippet(match.text, match.place),
    }


def _show(match: hits.TextMatch | hits.AnnotationMatch, terms: re.Pattern[str], short: ShortIds) -> None:
    from rich.text import Text

    session, at, kind, shown = _parts(match, terms)
    head = Text.assemble(
        (short.of(session.session_id), "cyan"),
        (f"  {session.agent}  {figures.clock(at)}  ", "dim"),
        (f"{kind}  ", "bold"),
        (one_line(title_of(session), 60), "dim"),
    )
    output.put(head)
    if shown is not None:
        output.print_wrapped(output.stdout(), _highlighted(f"    {shown}", terms), 4)


def match_line(match: hits.TextMatch | hits.AnnotationMatch, terms: re.Pattern[str]) -> Text:
    """A match on one line of a terminal, with the match near its beginning."""
    from rich.text import Text

    session, at, kind, shown = _parts(match, terms, around=20)
    head = Text.assemble((f"{figures.clock(at):>12}  ", "dim"), (f"{one_line(session.agent, 11):<11}  ", "dim"))
    head.append(f"{one_line(kind, 9):<9}  ", style="bold")
    return head + _highlighted(shown or one_line(title_of(session), 200), terms)


def _parts(
    match: hits.TextMatch | hits.AnnotationMatch, terms: re.Pattern[str], around: int = hits.AROUND
) -> tuple[Session, int | None, str, str | None]:
    """Session, time, kind and text of a match."""
    if isinstance(match, hits.AnnotationMatch):
        kind = f"{match.annotation.kind} of {written_by(match.annotation)}"
        at = int(match.annotation.changed_at * MICROS)
        return match.session, at, kind, hits.snippet(match.text, match.place, around)
    event, content = match.event, match.content
    kind = content.kind.removesuffix("_part") if content else event.said.line.event_type
    shown = None if content is None else _snippet(content, match.place, terms, around)
    return event.session, event.said.event.at, kind, shown


def _snippet(content: Content, place: int, terms: re.Pattern[str], around: int) -> str:
    """The text around a match; of arguments as they are shown everywhere, unless the match is in a name of JSON."""
    if content.kind == "arguments":
        text = call_text(content.text)
        found = terms.search(text)
        if found is not None:
            return hits.snippet(text, found.start(), around)
    return hits.snippet(content.text, place, around)


def _highlighted(text: str, terms: re.Pattern[str]) -> Text:
    shown = output.styled(text)
    shown.highlight_regex(terms, style="bold black on yellow")
    return shown
