"""The parts of a document about a session, and how a writer writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from agenttrace.views import figures
from agenttrace.views.model_names import model_name
from agenttrace.views.times import MICROS
from agenttrace.views.transcript import clock

if TYPE_CHECKING:
    from agenttrace.record.formats.contract import Content
    from agenttrace.share.tool_calls import ToolCall
    from agenttrace.store.annotations import Annotation
    from agenttrace.views.outcomes import SessionOutcomes
    from agenttrace.views.transcript import TranscriptSpan

#: Rows of a table in the head; of more only how many there are.
MOST_ROWS = 200
ROLES = {
    "prompt": "User",
    "text": "Assistant",
    "thinking": "Thinking",
    "arguments": "Arguments",
    "result": "Result",
    "error": "Error",
    "note": "Note",
}
#: Neither question nor answer: folded.
ASIDE = ("thinking", "note")
#: Edits up to this many characters are open.
SMALL_EDIT = 1_500


class DocumentHead(NamedTuple):
    """What is said before the first turn."""

    title: str
    facts: Mapping[str, str]
    outcomes: SessionOutcomes | None
    annotations: Sequence[Annotation]
    #: What is masked or left out.
    remarks: Sequence[str]


class SharedSpan(NamedTuple):
    """A turn, model call or tool call of the document."""

    told: TranscriptSpan
    #: Of a turn the sums of all in it; of others their own.
    figures: Sequence[str]
    #: What a tool call does.
    call: ToolCall | None
    annotations: Sequence[Annotation]

    @property
    def contents(self) -> list[Content]:
        """The texts before what is inside it; the arguments of a command or an edit are shown as such."""
        before, call = self.told.before, self.call
        if call is None:
            return before
        rest = [each for each in before if each.kind != "arguments"]
        if call.command is not None or call.edits:
            return rest
        at = next(index for index, each in enumerate(before) if each.kind == "arguments")
        rest.insert(at, msgspec.structs.replace(before[at], text=call.arguments))
        return rest

    @property
    def failed(self) -> bool:
        """Whether it ended with an error."""
        return self.told.row.status == "error"

    @property
    def is_open(self) -> bool:
        """Whether a tool call is unfolded from the start: failures and small edits are read first."""
        if self.call is None:
            return self.failed
        return self.failed or (
            bool(self.call.edits) and sum(len(edit.before) + len(edit.after) for edit in self.call.edits) <= SMALL_EDIT
        )

    @property
    def title(self) -> str:
        """The turn, the model or the tool."""
        row = self.told.row
        return (model_name(self.model) or self.told.title) if row.kind == "step" else self.told.title

    @property
    def model(self) -> str:
        """The id of the model of a model call."""
        row = self.told.row
        return row.billed_model or row.model or "" if row.kind == "step" else ""


class DocumentWriter(Protocol):
    """Writes a document, part by part."""

    def begin(self, head: DocumentHead) -> str:
        """The text before the first span."""
        ...

    def span(self, shared: SharedSpan) -> str:
        """A span; those below it follow."""
        ...

    def end(self, remark: str) -> str:
        """The text after the last span."""
        ...


class OpenSpans:
    """A document under construction; it remembers the ends of the spans that are open."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def _closed(self, depth: int) -> str:
        over, self._open = self._open[depth:], self._open[:depth]
        return "".join(reversed(over))


def is_folded(content: Content) -> bool:
    """Whether a text is folded."""
    return content.kind in ASIDE


def sized(text: str) -> str:
    """How long a folded text is."""
    return figures.counted(len(text), "character")


def when(annotation: Annotation) -> str:
    """When an annotation was last changed."""
    return clock(int(annotation.changed_at * MICROS))


def outcome_rows(outcomes: SessionOutcomes) -> list[tuple[str, list[tuple[str, str]]]]:
    """What came of the session, by kind: rows of what it is and what is known of it."""
    files = [(file.path, _lines(file.added, file.removed)) for file in outcomes.files]
    commits = [(commit.subject, commit.hash[:12]) for commit in outcomes.commits]
    requests = [(request.url, "") for request in outcomes.pull_requests]
    tests = [(run.command, run.summary or _passed(run.passed, run.failed)) for run in outcomes.tests]
    named = [("Files changed", files), ("Commits", commits), ("Pull requests", requests), ("Tests", tests)]
    return [(name, rows) for name, rows in named if rows]


def _lines(added: int | None, removed: int | None) -> str:
    if added is None and removed is None:
        return ""
    return f"+{figures.count(added or 0)} −{figures.count(removed or 0)}"


def _passed(passed: int | None, failed: int | None) -> str:
    return (
        "no summary in its output"
        if passed is None
        else f"{figures.count(passed)} passed, {figures.count(failed or 0)} failed"
    )
