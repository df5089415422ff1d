"""What the client has to know of a provider: where a call goes, what is sent, and what an answer says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from agenttrace.run.upstream.sse import DeltaReader
from agenttrace.run.upstream.wire import Frame, Reply, Request


class Provider(Protocol):
    """The wire format of a provider, with the key for it; without any I/O."""

    #: No error message ever holds it; empty where none is needed.
    key: str

    def url(self, app_id: str) -> str:
        """Where the application is called."""

    def headers(self, *, stream: bool) -> Mapping[str, str]:
        """The headers of a request."""

    def encode(self, request: Request, *, stream: bool) -> bytes:
        """The body of a request."""

    def tokens(self, request: Request) -> int:
        """An estimate of the tokens that the request is."""

    def read_reply(self, body: bytes, *, status: int, retry_after: float | None = None) -> Reply:
        """What a body says; raises the error that it is."""

    def read_frame(self, frame: Frame) -> Reply:
        """What a frame of a stream says; raises the error that it is."""

    def deltas(self, request: Request) -> DeltaReader:
        """What turns the frames of a stream into the pieces of its text."""


#: The provider of an application, by its id; raises AppNotConfiguredError where there is none.
Providers = Callable[[str], Provider]
