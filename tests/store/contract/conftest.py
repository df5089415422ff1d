"""Every test of the contract runs for every engine."""

from __future__ import annotations

import pytest

from . import machine


@pytest.fixture(params=machine.ENGINES, scope="module", autouse=True)
def engine(request: pytest.FixtureRequest) -> None:
    """The engine that is tested."""
    machine.engine = request.param
