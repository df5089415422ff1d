"""The first page."""

from __future__ import annotations

from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.exports import Exports
from agenttrace.serve.api.shapes.figures import Bill, NamedBill
from agenttrace.serve.api.shapes.recording import RecordingState
from agenttrace.serve.api.shapes.runs import RunState
from agenttrace.serve.api.shapes.sessions import SessionRow


class DayUsage(Shape):
    """A day's sums, by model."""

    day: str
    bill: Bill
    parts: list[NamedBill]


class Overview(Shape):
    """The first page."""

    at: str
    timezone: str
    working: list[SessionRow]
    waiting: list[SessionRow]
    #: Interrupted within the last day.
    failed: list[SessionRow]
    today: Bill
    today_by_model: list[NamedBill]
    today_by_agent: list[NamedBill]
    month: Bill
    month_by_model: list[NamedBill]
    month_by_agent: list[NamedBill]
    #: The last 30 days, oldest first, none left out.
    days: list[DayUsage]
    recording: RecordingState
    run: RunState
    exports: Exports
