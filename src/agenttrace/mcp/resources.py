"""Sessions as resources: ``agenttrace://session/{id}``, for clients that let people pick one."""

from __future__ import annotations

from urllib.parse import quote, unquote

from agenttrace.mcp.past import ToolContext
from agenttrace.mcp.sessions import SessionArguments, SessionLine, listed
from agenttrace.mcp.transcript import TranscriptArguments, read
from agenttrace.views.trouble import TroubleError

PREFIX = "agenttrace://session/"
TEMPLATE = PREFIX + "{session}"
MEDIA_TYPE = "text/markdown"
_LISTED = 30
_CHARS = 50_000


def latest(look: ToolContext) -> list[SessionLine]:
    """The sessions that a client lists."""
    return listed(look, SessionArguments(limit=_LISTED)).sessions


def address(session: str) -> str:
    """A session's address."""
    return PREFIX + quote(session, safe="")


def text_of(look: ToolContext, uri: str) -> str:
    """The beginning of a session's transcript, and how to read on."""
    name = unquote(uri.removeprefix(PREFIX), errors="replace")
    if not uri.startswith(PREFIX) or not name:
        raise TroubleError("there is no such resource", f"Sessions have addresses such as {TEMPLATE}.", misused=True)
    return "".join(read(look, TranscriptArguments(session=name, max_chars=_CHARS)))
