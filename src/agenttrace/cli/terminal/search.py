"""Full text search over everything that was recorded."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widgets import Input, Static

from agenttrace.cli.search import match_line
from agenttrace.cli.terminal.line_list import LineList
from agenttrace.cli.terminal.screens import TraceScreen
from agenttrace.cli.terminal.session_tree import SessionScreen
from agenttrace.model import Session
from agenttrace.store.questions import SearchQuery
from agenttrace.store.search_terms import has_words
from agenttrace.views import figures, hits
from agenttrace.views.hits import AnnotationMatch, SearchPage, TextMatch

_MOST = 200
#: The search starts so many seconds after the last key.
_PAUSE = 0.3


class SearchScreen(TraceScreen):
    """A line to type in, and the matches."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "to_matches", "Matches"),
    ]
    heading = "Search"

    def __init__(self) -> None:
        super().__init__()
        self._matches: list[TextMatch | AnnotationMatch] = []
        self._text = ""
        self._timer: Timer | None = None

    def content(self) -> ComposeResult:
        """Input, a remark, matches."""
        yield Input(placeholder='words, "a phrase", begin*', id="words", compact=True)
        yield Static(id="remark", markup=False)
        yield LineList(self._line)

    async def load(self) -> None:
        """New matches appear when the search is repeated, not under the cursor."""
        backlog = await self.reader.ask(lambda store: store.search_index.backlog, int)
        self._remark(f"{figures.counted(backlog, 'new event')} not searchable yet" if backlog else "")
        self.update_bar()

    def _remark(self, remark: str) -> None:
        found = ""
        if self._text:
            more = "+" if len(self._matches) >= _MOST else ""
            found = f"{figures.count(len(self._matches))}{more} matches, newest first"
        self.query_one("#remark", Static).update(Text("  ".join(filter(None, (found, remark))), style="dim"))

    @on(Input.Changed)
    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_PAUSE, self._search)

    async def _search(self) -> None:
        wanted = self.query_one(Input).value.strip()
        if wanted == self._text:
            return
        page = SearchPage([], None)
        if has_words(wanted):
            query = SearchQuery(text=wanted, limit=_MOST)
            page = await self.reader.ask(lambda store: hits.find(store, query), lambda: SearchPage([], None))
        self._text, self._matches = wanted, page.matches
        self.query_one(LineList).show(len(self._matches), 0)
        await self.load()

    def _line(self, index: int, width: int) -> Text:
        return match_line(self._matches[index], hits.terms_of(self._text))

    def chosen_session(self) -> Session | None:
        """The session of the match at the cursor."""
        place = self.query_one(LineList).cursor
        return _session(self._matches[place]) if place < len(self._matches) else None

    @on(Input.Submitted)
    async def action_to_matches(self) -> None:
        """Search now, and move to the matches."""
        await self._search()
        if self._matches:
            self.query_one(LineList).focus()

    @on(LineList.Selected)
    def _open(self, event: LineList.Selected) -> None:
        match = self._matches[event.index]
        span = match.annotation.span_id if isinstance(match, AnnotationMatch) else match.span_id
        self.app.push_screen(SessionScreen(_session(match), span))


def _session(match: TextMatch | AnnotationMatch) -> Session:
    return match.session if isinstance(match, AnnotationMatch) else match.event.session
