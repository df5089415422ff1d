"""A call of an application, answered as DashScope does."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from agenttrace.run.simulator import frames
from agenttrace.run.simulator.frames import Mode
from agenttrace.run.simulator.replies import SimulatedReply, tokens

#: Tokens of the system prompt that an application has from its console.
SYSTEM_TOKENS = 60


@dataclass(kw_only=True)
class AppReply(SimulatedReply):
    """An answer of the Application API."""

    def body(self, *, stopped: bool) -> bytes:
        """The answer in one piece."""
        return self._filled([frames.body(self.text, thoughts=self._thoughts, stopped=stopped)])[0]

    def frames(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """All frames; the last one says ``stop`` and has the usage."""
        built = frames.stream(self.text, self._mode, chunk_chars=self.chunk_chars, thoughts=self._thoughts)
        *text, last = self._filled(built)
        return text, [last]

    def unfinished(self) -> Sequence[bytes]:
        """Nothing: such a stream only ends."""
        return ()

    def error(self, http: int, code: str, message: str) -> bytes:
        """The body of an error; the status is that of HTTP."""
        return error(code, message, self.request_id)

    def error_frame(self, number: int, http: int, code: str, message: str) -> bytes:
        """The frame that ends a stream with an error."""
        return frames.error_frame(number, http, self.error(http, code, message))

    def _billed(self) -> bytes:
        if not self.is_billed:
            return b"{}"
        seen = "".join([str(turn.get("content", "")) for turn in self.call.context])
        read, said = SYSTEM_TOKENS + tokens(seen), tokens(self.text)
        models = [("qwen-plus", read, said)]
        if self._mode in (Mode.MESSAGES, Mode.FLOW_THOUGHTS):
            # A workflow asks a small model first where to go.
            models.insert(0, ("qwen-turbo", read, 4))
        return frames.usage(models)

    @property
    def _mode(self) -> Mode:
        return Mode.of(self.asked.parameters)

    @property
    def _thoughts(self) -> bool:
        return self.asked.parameters.get("has_thoughts") is True

    def _filled(self, templates: Sequence[bytes]) -> list[bytes]:
        # All at once and then apart again: three searches instead of three a frame.
        joined = frames.BORDER.join(templates)
        filled = frames.fill(joined, session_id=self.session_id, request_id=self.request_id, usage=self._billed())
        return filled.split(frames.BORDER)


def error(code: str, message: str, request_id: str | None = None) -> bytes:
    """The body of an error."""
    return frames.error(code, message, request_id or str(uuid.uuid4()))
