"""Which destination a table of the settings means."""

from __future__ import annotations

from agenttrace.destinations import DestinationSettings
from agenttrace.export.destination import Destination


class UnusableDestinationError(Exception):
    """A destination cannot be used; the message says why and what to do."""


def destination_of(settings: DestinationSettings) -> Destination:
    """The destination; nothing is sent or opened yet."""
    if settings.missing:
        names = ", ".join(settings.missing)
        raise UnusableDestinationError(
            f"its table names {names}, which the environment does not have. Set it and start again."
        )
    raise NotImplementedError
