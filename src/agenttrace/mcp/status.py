"""``status``: which agents and projects are recorded, and whether a recorder runs."""

from __future__ import annotations

from importlib.metadata import version

from agenttrace.mcp.naming import short_time
from agenttrace.mcp.tool import Arguments, Tool, ToolAnswer
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.record.lock import owner
from agenttrace.store.questions import SessionGroup
from agenttrace.store.sqlite.store import SqliteStore

_MOST_PROJECTS = 30


class StatusArguments(Arguments, frozen=True, kw_only=True):
    """None."""


class RecordedGroup(ToolAnswer):
    """The sessions of an agent, or in a directory."""

    name: str
    sessions: int
    first: str | None = None
    last: str | None = None


class Status(ToolAnswer):
    """What is recorded."""

    #: Whether new lines are being recorded now; if not, the latest of them are missing here.
    recording: bool
    agents: list[RecordedGroup]
    #: The directories that were worked in last.
    projects: list[RecordedGroup]
    #: Recorded, but not searchable yet.
    not_indexed: int = 0
    store_bytes: int = 0
    version: str = ""


def recorded(context: ToolContext, asked: StatusArguments) -> Status:
    """The agents and projects that are recorded."""
    store = context.store
    return Status(
        recording=owner(context.settings.home) is not None,
        agents=_parts(context, store.session_groups("agent")),
        projects=_parts(context, store.session_groups("project", _MOST_PROJECTS)),
        not_indexed=store.search_index.backlog,
        store_bytes=store.status.size() if isinstance(store, SqliteStore) else 0,
        version=version("agenttrace"),
    )


def _parts(context: ToolContext, groups: list[SessionGroup]) -> list[RecordedGroup]:
    return [
        RecordedGroup(
            name=context.line(group.name) or "",
            sessions=group.sessions,
            first=short_time(group.first_at),
            last=short_time(group.last_at),
        )
        for group in groups
    ]


TOOL = Tool(
    name="status",
    title="What is recorded",
    description=(
        "Tell what is recorded on this machine: which agents, how many sessions and from when to when, the "
        "directories worked in last, and whether recording goes on at this moment. Use it once to learn the names "
        "that the other tools filter by."
    ),
    arguments=StatusArguments,
    answer=Status,
    ask=recorded,
)
