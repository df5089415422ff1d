"""A destination that writes one line of text for each span into a file."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path

from agenttrace.destinations import DestinationSettings
from agenttrace.export.destination import Delivery
from agenttrace.export.span import ExportSpan


class Notebook:
    """``path`` is the file; ``options.heading`` is what each line begins with."""

    #: The file keeps repeated lines, but it can be searched for them.
    ignores_repeats = False
    can_read_back = True
    accepted_is_stored = True
    max_spans = 100

    def __init__(self, settings: DestinationSettings) -> None:
        if settings.path is None:
            raise ValueError("path is missing: it is the file to write to")
        self._path = Path(settings.path)
        self._heading = str(settings.options.get("heading", "-"))

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Append the lines."""
        lines = [f"{self._heading} {span.span_id.hex()} {span.name} ({span.provider})\n" for span in spans]
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        except OSError as error:
            return Delivery(verdict="retry", reason=str(error))
        return Delivery(verdict="accepted", sent_bytes=sum(map(len, lines)))

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """The spans whose ids are in the file."""
        text = self._path.read_text("utf-8") if self._path.exists() else ""
        return {span.span_id for span in spans if span.span_id.hex() in text}

    async def check(self) -> str:
        """Whether there is a directory to write to."""
        return "" if self._path.parent.is_dir() else f"{self._path.parent} does not exist. Create it."

    async def close(self) -> None:
        """Nothing stays open."""
