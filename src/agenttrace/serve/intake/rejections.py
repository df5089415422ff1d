"""Requests that are refused as a whole, each with its status and what the sender can do about it."""

from __future__ import annotations

from typing import ClassVar


class RefusedError(Exception):
    """Nothing of the request was kept."""

    #: The HTTP status, and the code of ``google.rpc`` that means the same.
    status = 400
    code = 3
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class MalformedError(RefusedError):
    """The body is not what it says it is."""


class TooLargeError(RefusedError):
    """The body is larger than the limit, as it came or unpacked."""

    status = 413
    code = 8
    #: What was not read yet would be taken for the next request.
    headers: ClassVar[dict[str, str]] = {"Connection": "close"}


class UnsupportedError(RefusedError):
    """A content type or an encoding that is not understood here."""

    status = 415


class StrangerError(RefusedError):
    """The sender has to bring the token, and did not."""

    status = 401
    code = 16
    headers: ClassVar[dict[str, str]] = {"WWW-Authenticate": "Bearer"}


class WrongTokenError(StrangerError):
    """The sender brought another token: the answer is held back, and the audit log has it."""


class TooManyError(RefusedError):
    """Too many wrong tokens are being answered already."""

    status = 429
    code = 8
    headers: ClassVar[dict[str, str]] = {"Retry-After": "2", "Connection": "close"}


class OnlyPostError(RefusedError):
    """Somebody wants to look where things are sent."""

    status = 405
    code = 12
    headers: ClassVar[dict[str, str]] = {"Allow": "POST"}


class NotHereError(RefusedError):
    """Something that AgentTrace does not take."""

    status = 501
    code = 12


class BusyError(RefusedError):
    """Not now; senders try again by themselves."""

    status = 503
    code = 14
    headers: ClassVar[dict[str, str]] = {"Retry-After": "5"}
