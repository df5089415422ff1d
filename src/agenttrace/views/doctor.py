"""All checks of ``agenttrace doctor``, in the order a newcomer would ask."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agenttrace.views import checks, export_checks, limit_checks, places, rule_checks, run_checks
from agenttrace.views.checks import Finding

if TYPE_CHECKING:
    from agenttrace.config import Settings


def all_checks(settings: Settings, environ: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """All findings, each as it is made; ``environ``: the variables of a running server."""
    yield from checks.machine()
    yield checks.settings_in_use(settings)
    yield checks.prices(settings)
    yield from checks.data_directory(settings)
    yield from checks.store(settings)
    yield from checks.recorder(settings)
    listing = places.logs(settings)
    yield from plugins()
    yield from checks.agents(settings, listing)
    yield from checks.watching(listing)
    yield from checks.deletions(settings, listing)
    yield from limit_checks.rates(settings)
    yield from limit_checks.budgets(settings)
    yield from limit_checks.hooks(settings)
    yield from export_checks.destinations(settings)
    yield from rule_checks.rules(settings)
    yield from run_checks.applications(settings, os.environ if environ is None else environ)
    yield run_checks.database(settings)


def plugins() -> Iterator[Finding]:
    """Every log format and destination that another package adds."""
    from agenttrace.export.kinds import plugins as destination_plugins
    from agenttrace.plugins import FORMATS, installed
    from agenttrace.record.formats import BROKEN_FORMATS

    destinations = destination_plugins()
    broken = (*BROKEN_FORMATS, *destinations.broken)
    failed = {each.plugin for each in broken}
    for plugin in (*installed(FORMATS), *destinations.usable):
        if plugin not in failed:
            yield Finding("plug-in", "ok", str(plugin))
    for each in broken:
        fix = f"Update or uninstall its package: {each.plugin.package}. Everything else works without it."
        yield Finding("plug-in", "warn", str(each), fix)
