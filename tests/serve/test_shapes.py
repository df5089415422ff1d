"""The console and the server agree on the shapes of the API."""

from __future__ import annotations

from pathlib import Path

from agenttrace.serve.api.typescript import typescript

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_shapes_of_the_server() -> None:
    """The TypeScript types are what ``make web-types`` would write now."""
    assert (ROOT / "web" / "src" / "api" / "shapes.ts").read_text(encoding="utf-8") == typescript()
