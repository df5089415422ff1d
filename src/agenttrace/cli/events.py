"""Recorded events as people read them: one line each, for ``tail``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttrace.views import figures
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.views.events import RecordedEvent

#: How each kind of text is marked, and its style.
_MARKS = {
    "prompt": ("▶", "bold"),
    "text": ("●", ""),
    "thinking": ("∴", "italic dim"),
    "arguments": ("⚙", "cyan"),
    "arguments_part": ("⚙", "cyan"),
    "result": ("↳", "dim"),
    "error": ("✗", "red"),
    "note": ("·", "yellow"),
}
_LABELS = {"prompt": "user", "text": "says", "thinking": "thinks", "error": "error", "note": "note"}
#: Of a long text, no more than this is looked at for one line on a screen.
_LOOKED_AT = 2_000


def event_line(event: RecordedEvent) -> Text:
    """An event on one line of a terminal."""
    from rich.text import Text

    said = event.said
    at = "        " if said.event.at is None else figures.time_of_day(said.event.at)
    line = Text.assemble(
        (at, "dim"),
        (f"  {one_line(event.session.session_id.removeprefix('session_'))[:8]:<8}", "cyan"),
        (f"  {event.session.agent:<11}  ", "dim"),
    )
    if not said.contents:
        return line.append(f"· {one_line(said.line.event_type, 60)}", style="dim")
    for index, content in enumerate(said.contents):
        mark, style = _MARKS.get(content.kind, ("·", ""))
        label = _LABELS.get(content.kind) or event.tools.get(content.call or "") or content.kind
        text = one_line(content.text[:_LOOKED_AT])
        line.append(f"{'  ' if index else ''}{mark} ", style=style or "green")
        line.append(f"{one_line(label, 24)}  ", style="bold")
        line.append(text, style=style)
    return line
