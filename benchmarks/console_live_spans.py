"""The live session as spans, for a program with OTLP intake: each span is sent when it ends."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from benchmarks.console_spans import BY_TURN, Json
from benchmarks.run_processes import Process


class LiveSpans:
    """Converts the lines of the live session to spans and sends them."""

    def __init__(self, session: str, sender: Process) -> None:
        self._session, self._sender = session, sender
        self._trace, self._turn, self._prompt = "", "", ""
        self._began = self._turn_began = 0
        self._said: list[str] = []

    def write(self, number: int, line: bytes) -> None:
        """Process a line; send the spans that end with it."""
        now = time.time_ns() // 1000
        spans = list(self._spans(number, msgspec.json.decode(line), now))
        for span in spans:
            self._sender.say(msgspec.json.encode(span).decode())
        if spans:
            self._sender.say("")
        self._began = now

    def _spans(self, number: int, line: Json, now: int) -> list[Json]:
        message = line["message"]
        content: Any = message["content"]
        if isinstance(content, str):
            self._trace, self._turn, self._prompt = f"{now:032x}", f"{now:016x}", content
            self._turn_began = now
            return []
        block = content[0]
        if block["type"] == "tool_result":
            return [self._span(number, now, "TOOL", "execute_tool Bash", output=block["content"])]
        self._said.append(block["text"] if block["type"] == "text" else block["input"]["command"])
        if block["type"] == "text" and message["stop_reason"] != "end_turn":
            return []
        said, self._said = "\n".join(self._said), []
        step = self._span(number, now, "LLM", f"chat {message['model']}", output=said)
        return [step, *([self._whole_turn(now, said)] if message["stop_reason"] == "end_turn" else [])]

    def _span(self, number: int, now: int, kind: str, name: str, *, output: str) -> Json:
        attributes = {"openinference.span.kind": kind, "session.id": self._session, "output.value": output}
        return {
            "project": BY_TURN,
            "trace_id": self._trace,
            "span_id": f"{now ^ (number << 52):016x}",
            "parent_id": self._turn,
            "name": name,
            "start": self._began,
            "end": now,
            "error": False,
            "attributes": attributes,
        }

    def _whole_turn(self, now: int, answer: str) -> Json:
        turn = self._span(0, now, "AGENT", "invoke_agent claude-code", output=answer)
        turn["attributes"]["input.value"] = self._prompt
        return turn | {"span_id": self._turn, "parent_id": None, "start": self._turn_began}
