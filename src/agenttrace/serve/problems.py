"""Errors as ``application/problem+json`` (RFC 9457): what is wrong in one sentence, and no internal details."""

from __future__ import annotations

import http
import logging
import math
from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from agenttrace.run.availability import is_installed

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """The body of every error."""

    title: str = Field(examples=["Unauthorized"])
    status: int = Field(examples=[401])
    detail: str = Field(examples=["The header Authorization: Internal-Token … is missing."])


class ProblemError(Exception):
    """An error that the caller gets as it is."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: object) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, headers, more

    def response(self) -> Response:
        """The error as an answer; ``more`` are further members of its object."""
        title = http.HTTPStatus(self.status).phrase
        body = {"title": title, "status": self.status, "detail": self.detail, **self.more}
        return Response(msgspec.json.encode(body), self.status, self.headers, MEDIA_TYPE)


class SlowDownError(ProblemError):
    """429: too many of something; the caller has to wait."""

    def __init__(self, what: str, seconds: float, **headers: str) -> None:
        wait = max(1, math.ceil(seconds))
        detail = f"Too many {what}; try again in {wait} seconds."
        super().__init__(429, detail, headers={"Retry-After": str(wait), **headers}, retry_after=wait)
        self.seconds = seconds


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These errors in the OpenAPI document."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": http.HTTPStatus(status).phrase, "content": {MEDIA_TYPE: schema}} for status in statuses
    }


def add_handlers(app: FastAPI) -> None:
    """Every error that leaves the application is a problem."""
    app.add_exception_handler(ProblemError, _shown)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    if is_installed():
        from psycopg import InterfaceError, OperationalError

        for away in (OperationalError, InterfaceError):
            app.add_exception_handler(away, _database_away)


async def _shown(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return error.response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {404: "There is nothing at this path.", 405: f"{request.method} is not possible here."}
    detail = details.get(error.status_code, error.detail)
    return ProblemError(error.status_code, detail, headers=error.headers).response()


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return ProblemError(422, described(error.errors())).response()


def described(errors: Any) -> str:  # noqa: ANN401 - pydantic's own list
    """What is wrong with which field, without the values that were sent."""
    parts = []
    for error in errors:
        where = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path"))
        parts.append(f"{where}: {error['msg']}" if where else str(error["msg"]))
    return "; ".join(parts)


async def _database_away(_: Request, error: Exception) -> Response:
    # Its text may name hosts and users: the log gets the kind of error only.
    logger.warning("a request failed because the database is away (%s)", type(error).__name__)
    return ProblemError(503, "The database cannot be reached at the moment.", headers={"Retry-After": "2"}).response()
