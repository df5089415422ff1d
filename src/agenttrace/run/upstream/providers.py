"""What a provider is for the client, and which one each application of the catalog has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agenttrace.run.errors import AppNotConfiguredError
from agenttrace.run.upstream.dashscope import DEFAULT_BASE_URL, DashScope
from agenttrace.run.upstream.openai import OpenAIChat, ResponseFormat
from agenttrace.run.upstream.sse import DeltaReader
from agenttrace.run.upstream.wire import Frame, ProviderReply, Request

if TYPE_CHECKING:
    from agenttrace.run.catalog.apps import App

ProviderName = Literal["dashscope", "openai"]

DASHSCOPE_KEY = "DASHSCOPE_API_KEY"


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

    def read_reply(self, body: bytes, *, status: int, retry_after: float | None = None) -> ProviderReply:
        """The reply in a body; raises its error."""

    def read_frame(self, frame: Frame) -> ProviderReply:
        """The reply in a frame of a stream; raises its error."""

    def deltas(self, request: Request) -> DeltaReader:
        """What turns the frames of a stream into the pieces of its text."""


#: The provider of an application, by its id; raises AppNotConfiguredError where there is none.
Providers = Callable[[str], Provider]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A model at an OpenAI-compatible endpoint, and the fixed parts of its requests."""

    base_url: str
    model: str
    #: The variable that holds the key; None where the endpoint needs none.
    api_key_env: str | None = None
    system: str = ""
    schema: Mapping[str, Any] | None = None
    response_format: ResponseFormat | None = None
    #: Sent with each call; None: the model's own limit.
    max_tokens: int | None = None


def providers_of(apps: Iterable[App], environ: Mapping[str, str]) -> Providers:
    """The provider of each application that can be called, by the application's id."""
    given = {name: value.strip() for name, value in environ.items()}
    dashscope = DashScope(
        given.get(DASHSCOPE_KEY, ""),
        given.get("DASHSCOPE_WORKSPACE_ID") or None,
        given.get("DASHSCOPE_BASE_URL") or DEFAULT_BASE_URL,
    )
    known: dict[str, Provider] = {
        app.app_id: dashscope if app.endpoint is None else _chat(app, app.endpoint, given)
        for app in apps
        if not app.missing
    }

    def provider_of(app_id: str) -> Provider:
        if app_id not in known:
            raise AppNotConfiguredError("the application is not configured; agenttrace apps shows what is missing")
        return known[app_id]

    return provider_of


def _chat(app: App, endpoint: Endpoint, environ: Mapping[str, str]) -> OpenAIChat:
    return OpenAIChat(
        endpoint.base_url,
        endpoint.model,
        api_key=environ.get(endpoint.api_key_env or "", ""),
        system=endpoint.system,
        schema=endpoint.schema,
        schema_name=app.app_type,
        response_format=endpoint.response_format,
        max_tokens=endpoint.max_tokens,
    )
