"""Everything ``agenttrace doctor`` looks at, in the order a newcomer would ask."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agenttrace.views import checks, export_checks, places, plugin_checks, run_checks

if TYPE_CHECKING:
    from agenttrace.config import Settings


def all_checks(settings: Settings, environ: Mapping[str, str] | None = None) -> Iterator[checks.Check]:
    """All findings, one after the other, as each is made; ``environ``: the variables of a running server."""
    yield from checks.machine()
    yield checks.settings_in_use(settings)
    yield checks.prices(settings)
    yield from checks.data_directory(settings)
    yield from checks.store(settings)
    yield from checks.recorder(settings)
    listing = places.logs(settings)
    yield from plugin_checks.plugins()
    yield from checks.agents(settings, listing)
    yield from checks.watching(listing)
    yield from checks.deletions(settings, listing)
    yield from export_checks.destinations(settings)
    yield from run_checks.applications(settings, os.environ if environ is None else environ)
    yield run_checks.database(settings)
