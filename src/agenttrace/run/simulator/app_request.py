"""What a request asks for, or why DashScope would refuse it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from agenttrace.run.simulator.call_log import Message


class BadRequestError(Exception):
    """The request is wrong: the HTTP status, DashScope's code and message."""

    def __init__(self, http: int, code: str, message: str) -> None:
        super().__init__(message)
        self.http, self.code, self.message = http, code, message


@dataclass(frozen=True, kw_only=True, slots=True)
class AppRequest:
    """The parts of a request's body that matter here."""

    #: The last message of the user.
    prompt: str
    #: The turns that this request brings along, this one the last.
    turns: tuple[Message, ...]
    #: The session to go on with; never beside ``messages``, because those win.
    session_id: str | None
    biz_params: dict[str, Any]
    parameters: dict[str, Any]


def decoded(raw: bytes) -> dict[str, Any] | None:
    """The body, or None where it is no JSON object."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return body if isinstance(body, dict) else None


def asked(body: dict[str, Any]) -> AppRequest:
    """Read a request's body; a BadRequestError says what is missing."""
    given = object_of(body, "input")
    prompt, messages, session_id = given.get("prompt"), given.get("messages"), given.get("session_id")
    turns = messages_of(messages)
    if isinstance(prompt, str) and prompt:
        turns = (*turns, {"role": "user", "content": prompt})
    if not turns:
        raise BadRequestError(400, "InvalidParameter", "Required parameter(prompt) missing or invalid, please check.")
    return AppRequest(
        prompt=str(turns[-1].get("content", "")),
        turns=turns,
        session_id=session_id if isinstance(session_id, str) and session_id and not messages else None,
        biz_params=object_of(given, "biz_params"),
        parameters=object_of(body, "parameters"),
    )


def object_of(holder: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under that name; an empty one where there is none."""
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def messages_of(value: object) -> tuple[Message, ...]:
    """The turns that were sent; a BadRequestError where they are none."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(turn, dict) and "role" in turn for turn in value):
        raise BadRequestError(400, "InvalidParameter", "messages has to be a list of objects with role and content.")
    return tuple(value)
