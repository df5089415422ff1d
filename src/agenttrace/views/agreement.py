"""The comparison of a session's usage with its agent's own total, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agenttrace.views import figures

if TYPE_CHECKING:
    from agenttrace.store.questions import Agreement, Reason


def sentence(found: Agreement) -> str:
    """Whether the figures agree, by how much they differ, and why."""
    if found.status == "nothing":
        return "nothing to check by: the log has no total of the agent itself"
    if found.status == "differ":
        text = f"differs from the agent's own total by {difference(found.difference)}"
    else:
        text = f"agrees with the agent's own total ({figures.counted(found.checked, 'request')})"
        if found.unlogged:
            tokens = figures.tokens(sum(found.unlogged.values()))
            text += f", {tokens} tokens of it for calls that no line of the log has"
    return "; ".join([text, *map(reason, found.reasons)])


def reason(why: Reason) -> str:
    """Why figures differ, in words."""
    requests = figures.counted(why.number, "request")
    return {
        "killed": f"the agent's total leaves out {requests} of a process that was killed",
        "copied": f"the agent's total leaves out {requests} copied from another session",
        "missing": f"nothing is recorded of the log of {why.name}",
        "placeholder": f"the log holds only a placeholder for the output of {requests}",
        "unread": f"{figures.counted(why.number, 'line')} of its files could not be read: agenttrace quarantine list",
        "unknown": "no reason found",
    }[why.kind]


def difference(tokens: Mapping[str, int]) -> str:
    """``+1,200 input, -35 output``: how much more the agent counts than we do."""
    named = ((name.removesuffix("_tokens").replace("_", " "), number) for name, number in tokens.items())
    return ", ".join(f"{number:+,} {name}" for name, number in named if number)
