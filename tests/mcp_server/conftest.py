"""Users with recorded sessions, and servers for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.conftest import Program, background, own_recorded, program, shared_store

from .rig import Asker, serving, started

__all__ = ["background", "own_recorded", "program", "shared_store"]


@pytest.fixture(scope="session")
def asker(shared_store: Program) -> Iterator[Asker]:
    """A server for a user of four agents."""
    with serving(shared_store, transport=started) as asker:
        yield asker
