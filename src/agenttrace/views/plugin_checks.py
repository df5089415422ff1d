"""What ``agenttrace doctor`` says of plug-ins: which are in use, and which cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from agenttrace.views.checks import Check


def plugins() -> Iterator[Check]:
    """Every log format and destination that another package adds."""
    from agenttrace.export.kinds import plugins as destination_plugins
    from agenttrace.plugins import FORMATS, installed
    from agenttrace.record.formats import BROKEN_FORMATS

    destinations = destination_plugins()
    broken = (*BROKEN_FORMATS, *destinations.broken)
    failed = {each.plugin for each in broken}
    for plugin in (*installed(FORMATS), *destinations.usable):
        if plugin not in failed:
            yield Check("plug-in", "ok", str(plugin))
    for each in broken:
        fix = f"Update or uninstall its package: {each.plugin.package}. Everything else works without it."
        yield Check("plug-in", "warn", str(each), fix)
