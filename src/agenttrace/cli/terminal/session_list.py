"""All sessions, newest first, as they are recorded."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from agenttrace.cli.output import styled
from agenttrace.cli.session_ids import short_id
from agenttrace.cli.sessions import STATE_STYLES
from agenttrace.cli.terminal.line_list import LineList
from agenttrace.cli.terminal.screens import TraceScreen
from agenttrace.cli.terminal.session_tree import SessionScreen
from agenttrace.model import Session
from agenttrace.store.session_state import recent_since
from agenttrace.store.store import Store
from agenttrace.views import figures, money
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import title_of

_NOTHING = """
Nothing is recorded yet.

s   start recording: the logs of all agents on this machine
q   quit, and look at demo data instead: agenttrace demo
"""
#: So many lines around the cursor have their cost.
_MARGIN_LINES = 50


class SessionsScreen(TraceScreen):
    """The list of sessions."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False),
    ]
    heading = "Sessions"

    def __init__(self) -> None:
        super().__init__()
        self._sessions: list[Session] = []
        self._costs: dict[tuple[int, int], str] = {}
        self._recent = 0

    def content(self) -> ComposeResult:
        """A line with the names of columns, and the list."""
        yield Static(id="columns", markup=False)
        yield Static(_NOTHING, id="nothing", markup=False)
        yield LineList(self._line)

    async def load(self) -> None:
        """All sessions; the cursor stays with its session."""
        sessions = await self.reader.ask(lambda store: store.sessions(), list[Session])
        # Asked after the wait: the user may have moved on meanwhile.
        chosen, self._sessions = self.chosen_session(), sessions
        self._recent = recent_since()
        # Costs of sessions as they were before are not needed any more.
        current = {(session.id, session.events) for session in sessions}
        self._costs = {key: cost for key, cost in self._costs.items() if key in current}
        numbers = [session.id for session in self._sessions]
        # At the top the newest session is chosen, whichever it is.
        place = numbers.index(chosen.id) if chosen and self._list.cursor and chosen.id in numbers else None
        self._list.display = bool(self._sessions)
        self.query_one("#nothing").display = not self._sessions
        self._list.show(len(self._sessions), place)
        await self._price()
        self.update_bar()

    @property
    def _list(self) -> LineList:
        return self.query_one(LineList)

    def update_bar(self) -> None:
        """How many there are, work and wait; and the names of the columns."""
        working = sum(session.state == "working" for session in self._sessions)
        waiting = sum(
            session.state == "waiting" and (session.last_at or 0) >= self._recent for session in self._sessions
        )
        self.heading = f"{figures.counted(len(self._sessions), 'session')}, {working} working, {waiting} waiting"
        super().update_bar()
        names = _row(("state", "agent", "last", "title", "project", "turns", "tools", "cost"), self._list.text_width)
        self.query_one("#columns", Static).update(Text("  ") + Text(names, style="bold"))

    def _line(self, index: int, width: int) -> Text:
        session = self._sessions[index]
        errors = f" ({session.errors}!)" if session.errors else ""
        cells = (
            session.state,
            one_line(session.agent),
            figures.clock(session.last_at),
            one_line(title_of(session), 200) or f"({short_id(session.session_id)})",
            one_line((session.project or "").rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]),
            str(session.turns),
            f"{session.tools}{errors}",
            self._costs.get((session.id, session.events), ""),
        )
        line = Text(_row(cells, width))
        line.stylize(self._style(session), 0, len(session.state))
        return line

    def _style(self, session: Session) -> str:
        """A session that was left waiting long ago does not wait for the user any more."""
        if session.state == "waiting" and (session.last_at or 0) < self._recent:
            return "dim"
        return STATE_STYLES.get(session.state, "")

    @on(LineList.Moved)
    async def _price(self) -> None:
        """The cost of the sessions around the cursor."""
        at = self._list.cursor
        near = self._sessions[max(0, at - _MARGIN_LINES) : at + _MARGIN_LINES]
        wanted = [session for session in near if (session.id, session.events) not in self._costs]
        if wanted:
            cashier = self.reader.cashier

            def bills(store: Store) -> dict[tuple[int, int], str]:
                rows = store.usage_by_session([session.id for session in wanted])
                return {(each.id, each.events): money.cost_text(cashier.bill(rows.get(each.id, ()))) for each in wanted}

            self._costs |= await self.reader.ask(bills, dict)
            self._list.refresh()

    def chosen_session(self) -> Session | None:
        """The session of the cursor."""
        place = self._list.cursor
        return self._sessions[place] if place < len(self._sessions) else None

    @on(LineList.Selected)
    def _open(self) -> None:
        """Open the session of the cursor."""
        if (session := self.chosen_session()) is not None:
            self.app.push_screen(SessionScreen(session))


#: The width of each column; the title takes what is left. Above a width of the whole line the others are shown.
_WIDTHS = (11, 11, 12, 0, 16, 5, 9, 10)
_ALWAYS = (0, 1, 2, 3, 7)
_WIDE = 110
_RIGHT = frozenset((2, 5, 6, 7))


def _row(cells: tuple[str, ...], width: int) -> str:
    """Cells as a line, all lines alike."""
    shown = range(len(cells)) if width >= _WIDE else _ALWAYS
    title = max(8, width - sum(_WIDTHS[place] for place in shown) - 2 * (len(shown) - 1))
    return "  ".join(_cell(cells[place], _WIDTHS[place] or title, right=place in _RIGHT) for place in shown)


def _cell(text: str, width: int, *, right: bool) -> str:
    cell = styled(text)
    cell.truncate(width, overflow="ellipsis")
    space = " " * (width - cell.cell_len)
    return space + cell.plain if right else cell.plain + space
