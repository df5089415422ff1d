"""``rules``: what rules did about recorded sessions."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from agenttrace.mcp.naming import session_named
from agenttrace.mcp.tool import DATA_NOTE, Arguments, OneSession, Tool, ToolAnswer, most
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.rule_costs import cost_text
from agenttrace.views.rules import RuleFiring, firings_of
from agenttrace.views.trouble import TroubleError

MOST = 50
_TEXT_CHARS = 300
_ELSEWHERE = "this is the store of a team, which has no rules of its own"


class RuleArguments(Arguments, frozen=True, kw_only=True):
    """Of which session, and of which rule."""

    session: OneSession = None
    rule: Annotated[str, msgspec.Meta(max_length=64, description="Only of the rule of this name.")] | None = None
    limit: Annotated[int, most(MOST, "How many at most.")] = 20


class FiringLine(ToolAnswer):
    """What a rule decided about an event."""

    rule: str
    #: The kind of event, such as tool.failed.
    event: str
    #: done: it fired; skipped: it did not, with the reason; failed: an action failed.
    state: str
    at: str | None = None
    session: str | None = None
    title: str | None = None
    #: What read_span is asked for.
    span: str | None = None
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    reason: str | None = None
    tokens: int = 0
    #: What those tokens cost, as far as it is known.
    cost: str | None = None


class FoundFirings(ToolAnswer):
    """What rules decided, the latest first."""

    note: str
    firings: list[FiringLine]
    #: Whether there are more than ``limit``.
    more: bool = False


def rules(context: ToolContext, asked: RuleArguments) -> FoundFirings:
    """What rules decided; events that do not match a rule are not stored."""
    session = None if asked.session is None else session_named(context, asked.session)
    number = None if session is None else session.id
    limit = min(asked.limit, MOST)
    if not isinstance(context.store, SqliteStore):
        raise TroubleError(_ELSEWHERE, "Ask on the machine that runs them: agenttrace rules log.")
    found = context.store.rules.firings(rule=asked.rule, session=number, limit=limit + 1)
    rows = firings_of(context.store, found[:limit], context.prices)
    lines = [_line(context, each) for each in rows]
    return FoundFirings(note=DATA_NOTE, firings=lines, more=len(found) > limit)


def _line(context: ToolContext, each: RuleFiring) -> FiringLine:
    facts = {name: context.line(str(value), _TEXT_CHARS) for name, value in each.facts.items()}
    return FiringLine(
        rule=each.rule,
        event=each.event,
        state=each.state,
        at=each.at,
        session=each.session_id or each.session,
        title=context.line(each.title, _TEXT_CHARS),
        span=each.span_id,
        facts=facts,
        reason=context.line(each.reason, _TEXT_CHARS),
        tokens=each.tokens,
        cost=cost_text(each.cost),
    )


TOOL = Tool(
    name="rules",
    title="What rules did",
    description=(
        "Show what the user's rules did about recorded sessions: which fired (a notification, a webhook, an "
        "application), which did not and why, and which failed. For one session or for all, the latest first."
    ),
    arguments=RuleArguments,
    answer=FoundFirings,
    ask=rules,
)
