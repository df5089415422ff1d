"""What is written beside recorded rows, into the store of a machine and of a team alike."""

from __future__ import annotations

from typing import Protocol

from agenttrace.store.annotation_table import AnnotationTable
from agenttrace.store.outcomes import ExaminedStore


class WritableStore(ExaminedStore, Protocol):
    """A store that takes annotations, and whose sessions are indexed and examined."""

    @property
    def annotation_table(self) -> AnnotationTable:
        """Writes annotations."""
