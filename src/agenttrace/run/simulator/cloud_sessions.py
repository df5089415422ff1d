"""The dialogues that the simulator remembers, as DashScope does: for an hour, and for 50 rounds."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agenttrace.run.simulator.call_log import Message

#: More dialogues than this are not remembered; the one that rested longest goes first.
MOST_DIALOGUES = 10_000


@dataclass(kw_only=True, slots=True)
class _Dialogue:
    messages: tuple[Message, ...]
    rounds: int
    used_at: float


class Sessions:
    """Dialogues by session id. The hour is counted from the last round; the vendor does not say from when."""

    def __init__(self, *, seconds: float, rounds: int, clock: Callable[[], float]) -> None:
        self._seconds, self._rounds, self._clock = seconds, rounds, clock
        self._dialogues: OrderedDict[str, _Dialogue] = OrderedDict()

    def history(self, session_id: str) -> tuple[Message, ...] | None:
        """The turns so far, or None where the session is unknown, too old or used up."""
        found = self._dialogues.get(session_id)
        if found is None:
            return None
        if found.rounds >= self._rounds or self._clock() - found.used_at >= self._seconds:
            del self._dialogues[session_id]
            return None
        return found.messages

    def add_round(self, session_id: str, context: Sequence[Message], answer: str) -> None:
        """Remember one more round of the session: what the model saw, and what it said."""
        found = self._dialogues.pop(session_id, None)
        self._dialogues[session_id] = _Dialogue(
            messages=(*context, {"role": "assistant", "content": answer}),
            rounds=found.rounds + 1 if found is not None else 1,
            used_at=self._clock(),
        )
        if len(self._dialogues) > MOST_DIALOGUES:
            self._dialogues.popitem(last=False)

    def clear(self) -> None:
        """Forget all dialogues: every session id is unknown from now on."""
        self._dialogues.clear()


def new_session_id() -> str:
    """32 hex digits, as DashScope issues them."""
    return uuid.uuid4().hex
