"""Everything ``agenttrace doctor`` looks at, in the order a newcomer would ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agenttrace.views import checks, export_checks, places, run_checks

if TYPE_CHECKING:
    from agenttrace.config import Settings


def all_checks(settings: Settings) -> Iterator[checks.Check]:
    """All findings, one after the other, as each is made."""
    from agenttrace.record.discover import list_files

    yield from checks.machine()
    yield checks.settings_in_use(settings)
    yield checks.prices(settings)
    yield from checks.data_directory(settings)
    yield from checks.store(settings)
    yield from checks.recorder(settings)
    listing = list_files(places.roots(settings), settings.record.exclude)
    yield from checks.agents(settings, listing)
    yield from checks.watching(listing)
    yield from checks.deletions(settings, listing)
    yield from export_checks.destinations(settings)
    yield from run_checks.applications(settings)
    yield run_checks.database(settings)
