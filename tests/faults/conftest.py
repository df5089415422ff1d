"""What the fault tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.rig import Rig
from scratch import on_disk


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Logs, a store, and a recorder between them."""
    with on_disk() as root:
        found = Rig(root, home=tmp_path / "home")
        yield found
        found.stop()


@pytest.fixture(params=["running", "idle", "stopped"])
def how(request: pytest.FixtureRequest) -> str:
    """How the recorder meets what happens: with the file open, with it closed, or started again afterwards."""
    return str(request.param)
