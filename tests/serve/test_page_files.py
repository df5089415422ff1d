"""The files of the page: sent as the build compressed them, to browsers that take it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from agenttrace.serve.console import console_router, load_page
from agenttrace.serve.problems import add_handlers

SCRIPT = b"const everything = 42;\n" * 100
PACKED = b"as the build made it"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    assets = tmp_path / "assets"
    assets.mkdir()
    (tmp_path / "index.html").write_bytes(b"<!doctype html>")
    (assets / "index.js").write_bytes(SCRIPT)
    (assets / "index.js.br").write_bytes(PACKED)
    (assets / "inter.woff2").write_bytes(b"wOF2")
    app = FastAPI()
    app.include_router(console_router(load_page(tmp_path)))
    add_handlers(app)
    return TestClient(app)


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("br;q=1.0", "br"),
        ("br;q=0.5, gzip", "br"),
        ("gzip, br;q=0", "gzip"),
        ("br; q=0.0, gzip", "gzip"),
        ("gzip", "gzip"),
        ("brotli", None),
        ("identity", None),
    ],
)
def test_each_browser_gets_what_it_takes(client: TestClient, accepted: str, encoding: str | None) -> None:
    """Brotli where the build made it and the browser takes it, else gzip, else the file itself."""
    with client.stream("GET", "/assets/index.js", headers={"Accept-Encoding": accepted}) as response:
        body = b"".join(response.iter_raw())
    assert response.headers.get("content-encoding") == encoding
    assert "Accept-Encoding" in response.headers["vary"]
    assert body == (PACKED if encoding == "br" else gzip.compress(SCRIPT, 6, mtime=0) if encoding else SCRIPT)
    assert response.headers["content-type"].startswith("text/javascript")


def test_compressed_files_have_no_address(client: TestClient) -> None:
    """They are another form of a file, not a file."""
    assert client.get("/assets/index.js.br").status_code == 404
    assert client.get("/assets/inter.woff2").headers["content-type"] == "font/woff2"
