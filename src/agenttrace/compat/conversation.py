"""The specification's rules of conversations as functions; AgentTrace has them in ``biz.ai_conversation_resolve``."""

from __future__ import annotations

import re
from datetime import timedelta

from agenttrace.run.chat.conversation import reuse_window

_SESSION_ID = re.compile(r"conv_([1-9]\d*)_\d+", re.ASCII)


def make_session_id(conversation_id: int, created_timestamp: int) -> str:
    """The key of a conversation."""
    return f"conv_{conversation_id}_{created_timestamp}"


def parse_session_id(session_id: str) -> int:
    """The id of the conversation of this key."""
    found = _SESSION_ID.fullmatch(session_id)
    if found is None:
        raise ValueError(f"not the session id of a conversation: {session_id[:100]!r}")
    return int(found[1])


def should_reuse(entry: str, age: timedelta | None) -> bool:
    """Whether the latest conversation of an entry and target continues; ``age`` None: there is none."""
    window = reuse_window(entry)
    return window is not None and age is not None and age <= window
