"""A list of lines with a cursor. A line is made when it is visible, so a list may have any length."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

#: Marks the line of the cursor where there are no colours.
_CURSOR, _MARGIN = "› ", "  "
_CHOSEN = Style(reverse=True)


class LineList(ScrollView, can_focus=True):
    """Shows ``count`` lines, each made by a function of its number and the width."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False),
        Binding("home,g", "first", "First", show=False),
        Binding("end,G", "last", "Last", show=False),
        Binding("enter", "select", "Open", key_display="⏎"),
    ]
    DEFAULT_CSS = "LineList { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }"

    cursor: reactive[int] = reactive(0, repaint=False)

    class LineMessage(Message):
        """Something happened to a line."""

        def __init__(self, lines: LineList, index: int) -> None:
            super().__init__()
            self.lines, self.index = lines, index

        @property
        def control(self) -> LineList:
            """The list, for handlers by id."""
            return self.lines

    class Selected(LineMessage):
        """Enter, or a click on the line of the cursor."""

    class Moved(LineMessage):
        """The cursor is on another line."""

    def __init__(self, line: Callable[[int, int], Text], *, opens: bool = True) -> None:
        super().__init__()
        self._line = line
        self._opens = opens
        self._count = 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Lines of a table cannot be opened."""
        return self._opens if action == "select" else True

    @property
    def count(self) -> int:
        """How many lines there are."""
        return self._count

    @property
    def text_width(self) -> int:
        """The cells of a line beside the mark of the cursor."""
        return max(1, self.scrollable_content_region.width - len(_CURSOR))

    def show(self, count: int, cursor: int | None = None) -> None:
        """Show so many lines, with the cursor at a line or where it is."""
        self._count = count
        self.virtual_size = Size(self.scrollable_content_region.width, count)
        self.cursor = max(0, min(self.cursor if cursor is None else cursor, count - 1))
        self.refresh()

    def watch_cursor(self, old: int, new: int) -> None:
        """Keep the cursor in sight."""
        self.scroll_to_region(Region(0, new, 1, 1), animate=False, force=True)
        self.refresh()
        if self._count:
            self.post_message(self.Moved(self, new))

    def visible_lines(self) -> range:
        """The numbers of the lines on the screen."""
        top = self.scroll_offset.y
        return range(top, min(self._count, top + max(1, self.size.height)))

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width, index = self.scrollable_content_region.width, self.scroll_offset.y + y
        if index >= self._count:
            return Strip.blank(width, self.rich_style)
        chosen = index == self.cursor
        text = self._line(index, self.text_width)
        text.truncate(self.text_width, overflow="ellipsis")
        line = Text(_CURSOR if chosen else _MARGIN) + text
        style = self.rich_style
        if chosen and self.has_focus:
            # Colours of parts would make the line of the cursor hard to read.
            line, style = Text(line.plain), style + _CHOSEN
        return Strip(line.render(self.app.console, end="")).adjust_cell_length(width).apply_style(style)

    def on_resize(self, event: Resize) -> None:
        """Lines are made anew for another width."""
        self.show(self._count)

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Show the cursor without emphasis."""
        self.refresh()

    def on_click(self, event: Click) -> None:
        """Move the cursor; a second click opens the line."""
        index = self.scroll_offset.y + event.y
        if index == self.cursor:
            self.action_select()
        elif index < self._count:
            self.cursor = index

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = max(0, min(self._count - 1, self.cursor + by))

    def action_page(self, pages: int) -> None:
        """Move the cursor by the height of the list."""
        self.action_move(pages * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """Move to the first line."""
        self.cursor = 0

    def action_last(self) -> None:
        """Move to the last line."""
        self.cursor = max(0, self._count - 1)

    def action_select(self) -> None:
        """Open the line of the cursor."""
        if self._count:
            self.post_message(self.Selected(self, self.cursor))
