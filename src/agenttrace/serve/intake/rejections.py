"""Requests that are refused as a whole, each with its status and what the sender can do about it."""

from __future__ import annotations

from collections.abc import Mapping


class IntakeError(Exception):
    """Nothing of the request was stored; by default because the body is malformed."""

    #: The HTTP status, and the code of ``google.rpc`` that means the same.
    status, code = 400, 3
    headers: Mapping[str, str] = {}

    def __init__(
        self, message: str, status: int | None = None, code: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status, self.code = status or self.status, code or self.code
        self.headers = headers or self.headers


class TooLargeError(IntakeError):
    """The body is larger than the limit, as it came or unpacked."""

    status, code = 413, 8
    #: The server would take the rest of the body for the next request.
    headers: Mapping[str, str] = {"Connection": "close"}


class UnsupportedError(IntakeError):
    """A content type or an encoding that is not supported."""

    status = 415


class NoTokenError(IntakeError):
    """The sender needs a token, and has none."""

    status, code = 401, 16
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class WrongSenderTokenError(NoTokenError):
    """The sender has another token: the answer is delayed, and the audit log has it."""


class BusyError(IntakeError):
    """Not now; senders retry."""

    status, code = 503, 14
    headers: Mapping[str, str] = {"Retry-After": "5"}
