"""Tokens and cost by day, model, agent or project."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize

from agenttrace.cli.terminal.line_list import LineList
from agenttrace.cli.terminal.screens import TraceScreen
from agenttrace.cli.usage import By, usage_lines
from agenttrace.store.questions import UsageQuery
from agenttrace.views.usage import UsageReport, empty_report, usage_report

#: Keys that work here as everywhere, and are not shown for lack of space.
_HIDDEN = (("u", "usage"), ("f", "live"), ("r", "resume"), ("o", "console"))


class UsageScreen(TraceScreen):
    """The table of ``agenttrace usage``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "group('day')", "Day"),
        Binding("m", "group('model')", "Model"),
        Binding("a", "group('agent')", "Agent"),
        Binding("p", "group('project')", "Project"),
        *(Binding(key, f"app.{action}", show=False) for key, action in _HIDDEN),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._by: By = "day"
        self._report: UsageReport | None = None
        self._lines: list[Text] = []

    def content(self) -> ComposeResult:
        """The table."""
        yield LineList(lambda index, width: self._lines[index].copy(), opens=False)

    async def load(self) -> None:
        """The report of the group."""
        cashier, query = self.reader.cashier, UsageQuery(by=self._by)
        self._report = await self.reader.ask(
            lambda store: usage_report(store, cashier, query), lambda: empty_report(cashier, query)
        )
        self._draw()

    def _draw(self) -> None:
        if self._report is None:
            return
        table = self.query_one(LineList)
        at_end = table.cursor >= table.count - 1
        self._lines = list(usage_lines(self._report, None, table.text_width))
        # The latest day is the last one.
        table.show(len(self._lines), len(self._lines) - 1 if at_end and self._by == "day" else None)
        self.heading = f"Usage by {self._by}"
        self.update_bar()

    def on_resize(self, event: Resize | None = None) -> None:
        """Columns are chosen by the width."""
        super().on_resize()
        self._draw()

    async def action_group(self, by: By) -> None:
        """Group by something else."""
        self._by = by
        self.query_one(LineList).cursor = 0
        await self.load()
