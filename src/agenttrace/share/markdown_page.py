"""A session as Markdown for pull requests, issues and wikis: commands and diffs in fences, tool calls folded."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from agenttrace.share.parts import MOST_ROWS, ROLES, OpenSpans, is_folded, outcome_rows, sized, when
from agenttrace.share.prose import LONGEST_PROSE, markdown_prose, markdown_text, plain_lines
from agenttrace.share.tool_calls import diff_lines
from agenttrace.views.annotations import annotation_text, written_by
from agenttrace.views.markdown import fenced
from agenttrace.views.plain import one_line
from agenttrace.views.transcript import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttrace.record.formats.contract import Content
    from agenttrace.share.parts import DocumentHead, SharedSpan
    from agenttrace.share.tool_calls import FileEdit, ToolCall
    from agenttrace.store.annotations import Annotation

_SIGNS = {"added": "+", "removed": "-", "same": " ", "skipped": "@@"}
#: Prompts of more lines are in a fence, as they were pasted.
_MOST_LINES = 40


class MarkdownPage(OpenSpans):
    """A session in Markdown."""

    def begin(self, head: DocumentHead) -> str:
        """The title and the facts."""
        rows = "".join(f"- {name}: {markdown_text(value)}\n" for name, value in head.facts.items())
        remarks = "".join(f"\n{markdown_text(remark)}\n" for remark in head.remarks)
        tables = [] if head.outcomes is None else outcome_rows(head.outcomes)
        outcomes = "".join(_table(name, listed) for name, listed in tables)
        return f"# {markdown_text(head.title)}\n\n{rows}{remarks}{_annotations(head.annotations)}{outcomes}"

    def span(self, shared: SharedSpan) -> str:
        """A span, after the ends of those before it."""
        told = shared.told
        closed = self._closed(told.depth)
        opening, closing = _frame(shared)
        self._open.append("".join(map(_said, told.after)) + closing)
        if shared.call is not None:
            opening += _call(shared.call)
        return closed + opening + _annotations(shared.annotations) + "".join(map(_said, shared.contents))

    def end(self, remark: str) -> str:
        """The ends of all spans that are open, and what was masked."""
        masked = f"{markdown_text(remark)}\n\n" if remark else ""
        return f"{self._closed(0)}\n---\n\n{masked}Recorded by AgentTrace.\n"


def _frame(shared: SharedSpan) -> tuple[str, str]:
    """Before and after a span and its children."""
    if shared.told.row.kind == "turn":
        heading = " · ".join(map(markdown_text, [shared.title, *shared.figures]))
        # A heading in a list of folded calls would be one of the document.
        return (f"\n## {heading}\n" if shared.told.depth == 0 else f"\n**{heading}**\n"), ""
    if shared.told.row.kind == "step":
        return f"\n**{ROLES['text']}** · {' · '.join(map(markdown_text, [shared.title, *shared.figures]))}\n", ""
    return f"\n<details{' open' if shared.is_open else ''}>\n<summary>{_summary(shared)}</summary>\n", "\n</details>\n"


def _summary(shared: SharedSpan) -> str:
    """One line of HTML, in which Markdown means nothing."""
    glimpse = ""
    if shared.call and shared.call.summary:
        sign = "$ " if shared.call.command is not None else ""
        glimpse = f" <code>{sign}{_html(shared.call.summary)}</code>"
    state = "✗ " if shared.failed else ""
    return f"{state}<b>{_html(shared.title)}</b>{glimpse} · {_html(' · '.join(shared.figures))}"


def _html(text: str) -> str:
    return escape(visible(one_line(text)), quote=True)


def _call(call: ToolCall) -> str:
    if call.command is not None:
        return "\n" + fenced(f"$ {visible(call.command)}", "console")
    return "".join(map(_edit, call.edits))


def _edit(edit: FileEdit) -> str:
    path = f"\n{markdown_text(one_line(edit.path))}\n" if edit.path else ""
    lines = (
        f"{_SIGNS[line.change]}{' ' * (line.change == 'skipped')}{visible(line.text)}" for line in diff_lines(edit)
    )
    return f"{path}\n{fenced(chr(10).join(lines), 'diff')}"


def _said(content: Content) -> str:
    label, text = ROLES.get(content.kind, content.kind), visible(content.text)
    if content.kind == "text" and len(text) <= LONGEST_PROSE:
        return f"\n{markdown_prose(content.text)}"
    if content.kind == "prompt" and _is_prose(text):
        quoted = "".join(f"> {line}".rstrip() + "\n" for line in plain_lines(content.text).split("\n"))
        return f"\n**{label}**\n\n{quoted}"
    body = fenced(text)
    if is_folded(content):
        return f"\n<details>\n<summary>{label} · {sized(content.text)}</summary>\n\n{body}\n</details>\n"
    return f"\n**{label}**\n\n{body}"


def _is_prose(text: str) -> bool:
    """Whether no line depends on its spaces, as those of code and tables do."""
    lines = text.strip().split("\n")
    return len(lines) <= _MOST_LINES and not any(line.startswith((" ", "\t", "```", "~~~")) for line in lines)


def _annotations(annotations: Sequence[Annotation]) -> str:
    if not annotations:
        return ""
    rows = (
        f"> **{markdown_text(one_line(annotation_text(each)))}** — "
        f"{markdown_text(one_line(f'{written_by(each)}, {when(each)}'))}\n"
        for each in annotations
    )
    return "\n" + ">\n".join(rows)


def _table(name: str, rows: Sequence[tuple[str, str]]) -> str:
    listed = "".join(
        f"- {markdown_text(one_line(what))}{f' ({markdown_text(one_line(known))})' if known else ''}\n"
        for what, known in rows[:MOST_ROWS]
    )
    more = f"- {len(rows) - MOST_ROWS:,} more\n" if len(rows) > MOST_ROWS else ""
    return f"\n**{name}**\n\n{listed}{more}"
