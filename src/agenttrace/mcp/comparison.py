"""``compare``: two sessions side by side."""

from __future__ import annotations

import msgspec

from agenttrace.mcp.naming import name_of, session_named
from agenttrace.mcp.tool import DATA_NOTE, Arguments, SessionName, Tool, ToolAnswer
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.model import Session
from agenttrace.views.comparison import ComparedSession, FileComparison, FileFigures, Spent, compare

#: Of each kind; further ones are only counted.
MOST = 100
_TEXT_CHARS = 300


class CompareArguments(Arguments, frozen=True, kw_only=True):
    """Which sessions."""

    a: SessionName
    b: SessionName


class SideFigures(ToolAnswer):
    """One of the sessions; what is zero is left out."""

    session: str
    agent: str
    title: str | None = None
    project: str | None = None
    seconds: float | None = None
    turns: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    errors: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    costs: dict[str, float] = msgspec.field(default_factory=dict)
    unpriced_tokens: int = 0
    files_changed: int = 0
    lines_added: int | None = None
    lines_removed: int | None = None
    commits: int = 0


class ToolSides(ToolAnswer):
    """Calls and failures of a tool in both."""

    tool: str
    a_calls: int = 0
    b_calls: int = 0
    a_failed: int = 0
    b_failed: int = 0


class ModelSides(ToolAnswer):
    """Tokens and cost of a model in both."""

    model: str
    a_tokens: int = 0
    b_tokens: int = 0
    a_costs: dict[str, float] = msgspec.field(default_factory=dict)
    b_costs: dict[str, float] = msgspec.field(default_factory=dict)


class FileSides(ToolAnswer):
    """A changed file, as ``+1 -2``; left out where a session did not change it."""

    path: str
    a: str | None = None
    b: str | None = None


class ComparedSessions(ToolAnswer):
    """Two sessions side by side."""

    note: str
    a: SideFigures
    b: SideFigures
    tools: list[ToolSides] = msgspec.field(default_factory=list)
    models: list[ModelSides] = msgspec.field(default_factory=list)
    files: list[FileSides] = msgspec.field(default_factory=list)
    #: Entries beyond the limit of each list.
    not_listed: int = 0


def compared(context: ToolContext, asked: CompareArguments) -> ComparedSessions:
    """The figures of both, and what they did by tool, model and file."""
    one, other = session_named(context, asked.a), session_named(context, asked.b)
    found = compare(context.store, context.prices, one, other)
    return ComparedSessions(
        note=DATA_NOTE,
        a=_side(context, one, found.a),
        b=_side(context, other, found.b),
        tools=[
            ToolSides(
                tool=context.line(tool.name, _TEXT_CHARS) or "",
                a_calls=tool.a.calls,
                b_calls=tool.b.calls,
                a_failed=tool.a.failed,
                b_failed=tool.b.failed,
            )
            for tool in found.tools[:MOST]
        ],
        models=[
            ModelSides(
                model=context.line(model.model, _TEXT_CHARS) or "",
                a_tokens=_tokens(model.a),
                b_tokens=_tokens(model.b),
                a_costs=model.a.costs,
                b_costs=model.b.costs,
            )
            for model in found.models[:MOST]
        ],
        files=[_file(context, file) for file in found.files[:MOST]],
        not_listed=sum(max(0, len(each) - MOST) for each in (found.tools, found.models, found.files)),
    )


def _side(context: ToolContext, session: Session, side: ComparedSession) -> SideFigures:
    spent = side.spent
    return SideFigures(
        session=name_of(context, session),
        agent=side.agent,
        title=context.line(side.title, _TEXT_CHARS),
        project=context.line(side.project),
        seconds=None if side.duration_ms is None else side.duration_ms / 1000,
        turns=side.turns,
        model_calls=side.steps,
        tool_calls=side.tools,
        errors=side.errors,
        input_tokens=spent.input_tokens,
        cache_read_tokens=spent.cache_read_tokens,
        cache_write_tokens=spent.cache_write_tokens,
        output_tokens=spent.output_tokens,
        costs=spent.costs,
        unpriced_tokens=spent.unpriced_tokens,
        files_changed=side.files,
        lines_added=side.added,
        lines_removed=side.removed,
        commits=side.commits,
    )


def _tokens(spent: Spent) -> int:
    return spent.input_tokens + spent.cache_read_tokens + spent.cache_write_tokens + spent.output_tokens


def _file(context: ToolContext, file: FileComparison) -> FileSides:
    return FileSides(path=context.line(file.path, _TEXT_CHARS) or "", a=_lines(file.a), b=_lines(file.b))


def _lines(file: FileFigures | None) -> str | None:
    if file is None:
        return None
    return f"+{'?' if file.added is None else file.added} -{'?' if file.removed is None else file.removed}"


TOOL = Tool(
    name="compare",
    title="Compare two sessions",
    description=(
        "Compare two recorded sessions: duration, turns, tool calls with failures, models, tokens by kind, cost and "
        "changed files of both. Use it to see what one attempt did differently from another, such as with another "
        "model or prompt."
    ),
    arguments=CompareArguments,
    answer=ComparedSessions,
    ask=compared,
)
