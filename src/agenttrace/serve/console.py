"""The page: its files from memory, and its document for every address of the console."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import PlainTextResponse

from agenttrace.serve.problems import ProblemError

#: Every path that no other endpoint answers.
PATH = "/{path:page}"
#: Smaller files, and those in compressed formats, are not compressed.
_SMALL = 1_000
_COMPRESSIBLE = ("text/", "application/json", "text/javascript", "image/svg+xml", "application/manifest+json")
#: The names of these have a hash of their content.
_HASHED = "assets/"
#: The ending of a file that the build compressed, and what browsers say that take it.
_BROTLI = ".br"
_BR = re.compile(r"\bbr\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")
_FOR_EVER = "public, max-age=31536000, immutable"

_NOT_BUILT = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>AgentTrace</title>
<h1>The console is not built</h1>
<p>This is a checkout without its web page. Build it with <code>make console</code> and load this page again.</p>
<p>Everything else works: <a href="/api/v1/sessions">/api/v1</a>, <a href="/openapi.json">/openapi.json</a>.</p>
"""
#: For programs that ask for the address of the page.
_WELCOME = """AgentTrace: what AI agents did and what it cost.

Open this address in a browser to see it. For programs there are

  /openapi.json       everything that can be asked, described
  /api/v1/sessions    what was recorded, as JSON
  /v1/traces          takes spans of other programs (OTLP)
  /healthz  /readyz  /metrics
"""


@dataclass(frozen=True)
class PageFile:
    """A file of the page, ready to be sent."""

    body: bytes
    media_type: str
    lasting: bool
    #: As Brotli, where the build made it.
    brotli: bytes | None = None

    @cached_property
    def tag(self) -> str:
        """Its entity tag."""
        return f'"{hashlib.blake2b(self.body, digest_size=9).hexdigest()}"'

    @cached_property
    def compressed(self) -> bytes:
        """As gzip, made when it is first asked for."""
        return gzip.compress(self.body, 6, mtime=0)

    @property
    def compressible(self) -> bool:
        """Whether it is sent as gzip."""
        return len(self.body) >= _SMALL and self.media_type.startswith(_COMPRESSIBLE)


def load_page(directory: Path) -> dict[str, PageFile]:
    """All files of the built page by their path; nothing where it was not built."""
    return {
        path.relative_to(directory).as_posix(): _load(path, path.relative_to(directory).as_posix())
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.suffix != _BROTLI
    }


def _load(path: Path, name: str) -> PageFile:
    # The system's table of types may be wrong; these must be right.
    known = {".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2"}
    media_type = known.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    packed = path.with_name(path.name + _BROTLI)
    brotli = packed.read_bytes() if packed.exists() else None
    return PageFile(path.read_bytes(), media_type, name.startswith(_HASHED), brotli)


class _PagePath(Convertor[str]):
    """Any path but the API's, where a wrong method is a 405 and a wrong path a 404."""

    regex = "(?!api/).*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("page", _PagePath())


def console_router(files: dict[str, PageFile]) -> APIRouter:
    """Every path that no other endpoint answers; to be included last."""
    router = APIRouter()
    document = files.get("index.html") or PageFile(_NOT_BUILT, "text/html", lasting=False)

    @router.api_route(PATH, methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request, path: str) -> Response:
        found = files.get(path)
        if found is None:
            if path.startswith(_HASHED) or "text/html" not in request.headers.get("accept", ""):
                if path:
                    raise ProblemError(404, "There is nothing at this path.")
                return PlainTextResponse(_WELCOME, headers={"Vary": "Accept"})
            found = document
        return _sent(request, found)

    return router


def _sent(request: Request, file: PageFile) -> Response:
    lasting = _FOR_EVER if file.lasting else "no-cache"
    headers = {"ETag": file.tag, "Cache-Control": lasting, "Vary": "Accept, Accept-Encoding"}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    accepted = request.headers.get("accept-encoding", "")
    if file.brotli is not None and _BR.search(accepted):
        return Response(file.brotli, 200, {**headers, "Content-Encoding": "br"}, file.media_type)
    if file.compressible and "gzip" in accepted:
        return Response(file.compressed, 200, {**headers, "Content-Encoding": "gzip"}, file.media_type)
    return Response(file.body, 200, headers, file.media_type)
