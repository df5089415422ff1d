"""Messages for tests of actions."""

from __future__ import annotations

from typing import Any

from agenttrace.config.rules import parse_action, parse_rule
from agenttrace.masking import Mask
from agenttrace.model import Session
from agenttrace.rules.actions.contract import Message
from agenttrace.rules.facts import Facts
from agenttrace.store.rules import RuleEvent

MASK = Mask().value
#: A key that masking knows.
SECRET = "sk-ant-api03-" + "Zx9" * 31 + "AA"


def event(title: str = "Mend the shop", session: str = "s", **facts: object) -> Facts:
    """A failed tool in a session."""
    found = Session(id=7, session_id=session, agent="claude-code", project="/home/dev/shop", first_prompt=title)
    return Facts(RuleEvent(key=b"k" * 16, kind="tool.failed", at=1_794_700_000_000_000, session=7, facts=facts), found)


def message(
    *events: Facts,
    answers: dict[str, Any] | None = None,
    title: str = "",
    on: str = "tool.failed",
    more: int = 0,
    **action: object,
) -> Message:
    """A message for an action with these settings."""
    return Message(
        firing=3,
        rule=parse_rule("r", {"on": on, "do": ["it"], "title": title}),
        action=parse_action("it", action, {}),
        idempotency_key="00112233445566778899aabbccddeeff",
        events=events or (event(tool="shell"),),
        answers=answers or {},
        attempt=1,
        more=more,
    )
