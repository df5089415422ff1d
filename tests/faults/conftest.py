"""What the fault tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Logs, a store, and a recorder between them."""
    found = Rig(tmp_path)
    yield found
    found.stop()


@pytest.fixture(params=["running", "idle", "stopped"])
def how(request: pytest.FixtureRequest) -> str:
    """How the recorder meets what happens: with the file open, with it closed, or started again afterwards."""
    return str(request.param)
