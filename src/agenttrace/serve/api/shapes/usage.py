"""Usage by group."""

from __future__ import annotations

from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.figures import Bill, NamedBill
from agenttrace.views.usage_outcomes import UsageOutcomes


class UsageGroup(Shape):
    """One row: a day, a month, a model, an agent, a project, a session, a machine or a person."""

    #: Null where the sessions of the group have none (no project).
    group: str | None
    #: The session's, where groups are sessions.
    title: str | None
    key: str | None
    bill: Bill
    #: By model, agent, project, machine or person, where ``split`` asked for it.
    parts: list[NamedBill]
    outcomes: UsageOutcomes


class UsageAnswer(Shape):
    """Usage by group."""

    by: str
    split: str | None
    timezone: str
    total: Bill
    rows: list[UsageGroup]
    total_outcomes: UsageOutcomes
    #: Sessions with lines that were not examined for outcomes yet, which happens in the background.
    not_examined: int
