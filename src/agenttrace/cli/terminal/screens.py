"""What all screens share: the bar at the top, the keys at the bottom, and loading again when something was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.cli.terminal.app import TraceApp
    from agenttrace.cli.terminal.reader import Reader
    from agenttrace.model import Session


class TraceScreen(Screen[None]):
    """A screen with a bar, its content and the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back")]
    #: The name of the screen in the bar.
    heading = ""

    @property
    def view(self) -> TraceApp:
        """The application."""
        from agenttrace.cli.terminal.app import TraceApp

        assert isinstance(self.app, TraceApp)
        return self.app

    @property
    def reader(self) -> Reader:
        """The store."""
        return self.view.reader

    def compose(self) -> ComposeResult:
        """The bar, the content, the keys."""
        yield Static(id="bar", markup=False)
        yield from self.content()
        yield Footer(show_command_palette=False, compact=True)

    def content(self) -> ComposeResult:
        """The widgets between bar and keys."""
        yield Widget()

    async def on_mount(self) -> None:
        """Show what is there."""
        await self.load()

    async def load(self) -> None:
        """Ask the store and show the answer; called again when something was recorded."""
        self.update_bar()

    def update_bar(self) -> None:
        """Where the user is, and whether something records."""
        left, right = Text(f" {self.heading}", style="bold"), self.view.recording_text()
        left.truncate(max(1, self.size.width - right.cell_len - 3), overflow="ellipsis")
        space = max(1, self.size.width - left.cell_len - right.cell_len - 1)
        self.query_one("#bar", Static).update(Text.assemble(left, " " * space, right, no_wrap=True))

    def on_resize(self) -> None:
        """The bar reaches to the right edge."""
        self.update_bar()

    def chosen_session(self) -> Session | None:
        """The session that keys such as ``r`` are about."""
        return None

    def action_back(self) -> None:
        """Return to the screen before."""
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()


class Dialog(ModalScreen[bool]):
    """A text over the screen, closed by Escape or confirmed by Enter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "answer(False)", "Back"),
        Binding("enter", "answer(True)", "OK"),
    ]

    def __init__(self, text: Text, confirm: str = "") -> None:
        super().__init__()
        self._text, self._confirm = text, confirm

    def compose(self) -> ComposeResult:
        """The text and its keys."""
        keys = f"Enter: {self._confirm}   Esc: back" if self._confirm else "Esc: back"
        with VerticalScroll(id="dialog"):
            yield Static(self._text, markup=False)
            yield Static(Text(f"\n{keys}", style="dim"), markup=False)

    def action_answer(self, confirmed: bool) -> None:
        """Close it."""
        self.dismiss(confirmed)


def safe_title(title: str) -> str:
    """A title on one line, for the bar."""
    return one_line(title, 60)
