"""The run half's own log in our JSONL format (docs/native-format.md), from which the recorder makes traces.

A conversation or a job is a session. Each call of a chat is a turn; a job is one turn with a step for each call. All
lines have ids that follow from the run log, so writing them again after a crash changes nothing.

What belongs together is written at once, to a descriptor opened for appending: any number of processes share the file
of the day. A log that cannot be written is reported and counted, and never stops a call.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.run.results.storable import storable_text
from agenttrace.run.upstream.calls import PROMPT_LIMIT, RULE_SESSION, CallOutcome, CallRequest, RateRule

logger = logging.getLogger(__name__)

#: What the program is called in its own log.
AGENT = "agenttrace"
_STATUSES = {"completed": "ok", "cancelled": "cancelled"}
_ADMITTED = ("success", "failed", "timeout")
_ANY_RATE = RateRule(scope="store", limit=0, seconds=0)

#: As JSON has it; the same letters in a text that is about JSON only cost the slower way.
_NUL = b"\\u0000"

Line = dict[str, Any]


class TraceLog:
    """Appends to ``directory/runs-YYYY-MM-DD.jsonl`` (days in UTC); without a directory, to nothing."""

    def __init__(self, directory: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._clock = clock
        self._descriptor: int | None = None
        self._day = ""
        self._torn = False
        #: How many times something could not be written.
        self.lost = 0

    def job_begin(self, session_id: str, *, site_id: int, event_type: str, chain: str, prompt: str) -> None:
        """A worker has taken a job; ``prompt`` is its event in one line."""
        session = _session(site_id) | {"title": f"{event_type}: {chain}"}
        turn = {"type": "turn.begin", "id": "1", "turn": 1, "prompt": prompt, "origin": "task"}
        self._append(session_id, session, turn)

    def job_end(self, session_id: str, status: str, error: str | None = None) -> None:
        """The job has ended with ``status``."""
        turn = {"type": "turn.end", "id": "1", "turn": 1, "status": _STATUSES.get(status, "error"), "error": error}
        self._append(session_id, turn, {"type": "session.end", "id": "session"})

    def begin(self, request: CallRequest, log_id: int, *, at: float | None = None) -> None:
        """A call was admitted, now or at that time."""
        self._append(request.session_id, *_begin(request, _Place.of(request, str(log_id), log_id)), at=at)

    def end(
        self,
        request: CallRequest,
        log_id: int,
        outcome: CallOutcome,
        finish_reason: str = "",
        *,
        at: float | None = None,
    ) -> None:
        """An admitted call has ended, now or at that time."""
        place = _Place.of(request, str(log_id), log_id)
        self._append(request.session_id, *_end(request, place, outcome, finish_reason), at=at)

    def refused(self, request: CallRequest, status: str, message: str) -> None:
        """A call was not admitted; it has no tokens, but its reason."""
        place = _Place.of(request, request.key.hex, request.key.hex)
        outcome = CallOutcome(status=status, latency_ms=0, error_message=f"{status}: {message}")
        self._append(request.session_id, *_begin(request, place), *_end(request, place, outcome, ""))

    def write_again(self, row: Mapping[str, Any]) -> None:
        """A call as the run log has it, for a process that died before it wrote its lines; repeats change nothing."""
        if row["status"] in _ADMITTED and row["finished_at"] is not None:
            request = _request_of(row)
            self.begin(request, row["id"], at=row["created_at"].timestamp())
            self.end(request, row["id"], _outcome_of(row), at=row["finished_at"].timestamp())

    def late(self, request: CallRequest, lost_id: int, log_id: int) -> None:
        """A call that was closed as lost has another row now; the estimate of its tokens is void."""
        lost = _Place.of(request, str(lost_id), lost_id)
        outcome = CallOutcome(status="failed", latency_ms=0, error_message="lost: taken for dead")
        void = lost.line("usage", usage={"input_tokens": 0}, response=_burnt_name(request, lost))
        self._append(request.session_id, *_end(request, lost, outcome, ""), void | {"id": f"{lost.id}:late"})
        self.begin(request, log_id)

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, session_id: str | None, *lines: Line, at: float | None = None) -> None:
        if self._directory is None or session_id is None:
            return
        common = {"v": 1, "session": session_id, "ts": self._clock() if at is None else at, "agent": AGENT}
        data = b"".join(_encoded(common | line) for line in lines)
        try:
            self._write(self._directory, data)
        except OSError as error:
            self.lost += 1
            logger.warning("the trace log cannot be written (%s); %d times so far", error.strerror, self.lost)

    def _write(self, directory: Path, data: bytes) -> None:
        descriptor = self._open(directory)
        if self._torn:
            # The disk was full in the middle of a line: end it, so that it spoils no other.
            data = b"\n" + data
        written = os.write(descriptor, data)
        self._torn = written < len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, "only a part was written")

    def _open(self, directory: Path) -> int:
        day = time.strftime("%Y-%m-%d", time.gmtime(self._clock()))
        if self._descriptor is not None and (day != self._day or os.fstat(self._descriptor).st_nlink == 0):
            self.close()
        if self._descriptor is None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = directory / f"runs-{day}.jsonl"
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._day = day
        return self._descriptor


def _encoded(line: Line) -> bytes:
    """One line; NUL and half a surrogate pair get a mark instead, as in the run log."""
    given = {name: value for name, value in line.items() if value is not None}
    try:
        data = msgspec.json.encode(given)
    except UnicodeEncodeError:
        data = _NUL
    if _NUL in data:
        given = {name: storable_text(value) if isinstance(value, str) else value for name, value in given.items()}
        data = msgspec.json.encode(given)
    return data + b"\n"


@dataclass(frozen=True, slots=True)
class _Place:
    """The turn and step of the lines of a call, and the id that they share."""

    id: str
    turn: int | str
    step: int | str

    @classmethod
    def of(cls, request: CallRequest, name: str, turn: int | str) -> _Place:
        # A step of a job may be called again after a crash: each call is a step of its own.
        return cls(name, turn, 1) if request.job_id is None else cls(name, 1, f"{request.step}#{name}")

    def line(self, type_: str, **fields: Any) -> Line:  # noqa: ANN401 - any field of the format
        return {"type": type_, "id": self.id, "turn": self.turn, "step": self.step, **fields}


def _session(site_id: int) -> Line:
    # What rules order is for no site.
    return {"type": "session.begin", "id": "session", "project": f"site {site_id}" if site_id else "rules"}


def _begin(request: CallRequest, place: _Place) -> list[Line]:
    step = place.line("step.begin", name=request.step or request.app_type)
    if request.job_id is not None:
        # A rule's prompt has the text of a session, which is recorded already, and would be found twice.
        is_copy = (request.session_id or "").startswith(RULE_SESSION)
        text = request.prompt[:PROMPT_LIMIT] if is_copy else request.prompt
        return [step, place.line("note", kind=request.app_type, text=text)]
    turn = {"type": "turn.begin", "id": place.id, "turn": place.turn, "prompt": request.prompt}
    return [_session(request.site_id), turn, step, place.line("note", kind=request.app_type)]


def _end(request: CallRequest, place: _Place, outcome: CallOutcome, finish_reason: str) -> list[Line]:
    status = "ok" if outcome.status == "success" else "error"
    error = None if status == "ok" else outcome.error_message or outcome.status
    lines = [*_said(place, outcome), *_burnt(request, place, outcome)]
    end = place.line("step.end", status=status, error=error, finish_reason=finish_reason or None)
    lines.append(end | _usage(outcome))
    if request.job_id is None:
        # A chat that may go on is not shown as waiting in the list of sessions.
        lines.append({"type": "turn.end", "id": place.id, "turn": place.turn, "status": status, "error": error})
        lines.append({"type": "session.end", "id": place.id})
    return lines


def _said(place: _Place, outcome: CallOutcome) -> list[Line]:
    return [place.line("message", role="assistant", text=outcome.response_text)] if outcome.response_text else []


def _usage(outcome: CallOutcome) -> Line:
    if not outcome.input_tokens and not outcome.output_tokens:
        return {}
    usage = {"input_tokens": outcome.input_tokens, "output_tokens": outcome.output_tokens}
    if outcome.cached_tokens:
        # Our format counts each token once; providers count cached tokens inside their input.
        usage |= {
            "input_tokens": outcome.input_tokens - outcome.cached_tokens,
            "cache_read_tokens": outcome.cached_tokens,
        }
    return {
        "usage": usage,
        "model": outcome.model,
        "response": outcome.request_id or None,
        "estimated": True if outcome.tokens_estimated else None,
    }


def _burnt(request: CallRequest, place: _Place, outcome: CallOutcome) -> list[Line]:
    """Tokens of attempts that brought nothing. How they divide is not known; most of a call is its prompt."""
    burnt = outcome.tokens_used - outcome.input_tokens - outcome.output_tokens
    if burnt <= 0:
        return []
    usage, response = {"input_tokens": burnt}, _burnt_name(request, place)
    return [place.line("usage", usage=usage, model=outcome.model, response=response, estimated=True)]


def _burnt_name(request: CallRequest, place: _Place) -> str:
    return f"burnt:{request.session_id}:{place.id}"


def _request_of(row: Mapping[str, Any]) -> CallRequest:
    return CallRequest(
        app_id="",
        app_type=row["app_type"],
        trigger_type="event",
        site_id=row["site_id"],
        prompt=row["request_prompt"] or "",
        rate=_ANY_RATE,
        estimate=0,
        session_id=row["session_id"],
        job_id=row["trigger_job_id"],
        step=row["step"],
    )


def _outcome_of(row: Mapping[str, Any]) -> CallOutcome:
    return CallOutcome(
        status=row["status"],
        latency_ms=row["latency_ms"] or 0,
        response_text=row["response_text"],
        error_message=row["error_message"],
        tokens_used=row["tokens_used"] or 0,
        tokens_estimated=row["tokens_estimated"],
        input_tokens=row["input_tokens"] or 0,
        output_tokens=row["output_tokens"] or 0,
        model=row["model"],
        request_id=row["request_id"] or "",
        attempts=row["attempts"],
    )
