"""Which provider an application of the catalog has, and the wire format with the keys for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agenttrace.run.errors import AppNotConfiguredError
from agenttrace.run.upstream.dashscope import DEFAULT_BASE_URL, DashScope
from agenttrace.run.upstream.openai import OpenAIChat, ResponseFormat
from agenttrace.run.upstream.provider import Provider, Providers

if TYPE_CHECKING:
    from agenttrace.run.catalog.apps import App

ProviderName = Literal["dashscope", "openai"]

DASHSCOPE_KEY = "DASHSCOPE_API_KEY"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A model at an OpenAI-compatible endpoint, and what the application always says to it."""

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
