"""How our count of a session stands to its agent's own, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agenttrace.views import figures

if TYPE_CHECKING:
    from agenttrace.store.agreement import Agreement


def sentence(found: Agreement) -> str:
    """Whether the figures agree, by how much they differ, and why."""
    if found.status == "nothing":
        return "nothing to check by: the agent tells no total"
    if found.status == "differ":
        text = f"differs from the agent's own total by {difference(found.difference)}"
    else:
        text = f"agrees with the agent's own total ({figures.counted(found.checked, 'request')})"
        if found.unlogged:
            tokens = figures.tokens(sum(found.unlogged.values()))
            text += f", {tokens} tokens of it for calls that no line of the log has"
    return "; ".join([text, *found.reasons])


def difference(tokens: Mapping[str, int]) -> str:
    """``+1,200 input, -35 output``: how much more the agent counts than we do."""
    named = ((name.removesuffix("_tokens").replace("_", " "), number) for name, number in tokens.items())
    return ", ".join(f"{number:+,} {name}" for name, number in named if number)
