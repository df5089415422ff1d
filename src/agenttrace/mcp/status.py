"""``status``: what is recorded at all, and whether recording goes on."""

from __future__ import annotations

from importlib.metadata import version

from agenttrace.mcp.naming import short_time
from agenttrace.mcp.past import ToolContext
from agenttrace.mcp.tool import Answer, Arguments, Tool
from agenttrace.record.lock import owner
from agenttrace.store.questions import SessionGroup

_MOST_PROJECTS = 30
_NAME_CHARS = 300


class StatusArguments(Arguments, frozen=True, kw_only=True):
    """Nothing to choose."""


class Part(Answer):
    """The sessions of an agent, or in a directory."""

    name: str
    sessions: int
    first: str | None = None
    last: str | None = None


class Status(Answer):
    """What is recorded."""

    #: Whether new lines are being recorded now; if not, the latest of them are missing here.
    recording: bool
    agents: list[Part]
    #: The directories that were worked in last.
    projects: list[Part]
    #: Recorded, but not searchable yet.
    not_indexed: int = 0
    store_bytes: int = 0
    version: str = ""


def told(look: ToolContext, asked: StatusArguments) -> Status:
    """How things are."""
    status = look.store.status
    return Status(
        recording=owner(look.settings.home) is not None,
        agents=_parts(look, status.agents()),
        projects=_parts(look, status.projects(_MOST_PROJECTS)),
        not_indexed=look.store.search_index.backlog,
        store_bytes=status.size(),
        version=version("agenttrace"),
    )


def _parts(look: ToolContext, groups: list[SessionGroup]) -> list[Part]:
    return [
        Part(
            name=look.shown.line(group.name, _NAME_CHARS),
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
    ask=told,
)
