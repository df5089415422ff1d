"""A session as one HTML file for reading and printing: no script, nothing loaded, every text escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttrace.share.highlight import LONGEST_CODE, html_code, language_of
from agenttrace.share.parts import MOST_ROWS, ROLES, OpenSpans, is_folded, outcome_rows, sized, when
from agenttrace.share.prose import LONGEST_PROSE, html_prose, html_text
from agenttrace.share.style import STYLE
from agenttrace.share.tool_calls import diff_lines
from agenttrace.views.annotations import annotation_text, written_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agenttrace.record.formats.contract import Content
    from agenttrace.share.parts import DocumentHead, SharedSpan
    from agenttrace.share.tool_calls import FileEdit, ToolCall
    from agenttrace.store.annotations import Annotation
    from agenttrace.views.outcomes import SessionOutcomes

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
#: Characters of a block.
_PIECE = 10_000
_SIGNS = {"added": "+", "removed": "−", "same": " ", "skipped": "⋯"}


class HtmlPage(OpenSpans):
    """A session in HTML."""

    def begin(self, head: DocumentHead) -> str:
        """The head and the facts."""
        title = html_text(head.title)
        rows = "".join(f"<dt>{html_text(name)}</dt><dd>{_bdi(value)}</dd>\n" for name, value in head.facts.items())
        remarks = "".join(f'<p class="remark">{html_text(remark)}</p>\n' for remark in head.remarks)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{_plain(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f'<header>\n<h1 dir="auto">{title}</h1>\n<dl>\n{rows}</dl>\n{remarks}'
            f"{_annotations(head.annotations)}{_outcomes(head.outcomes)}</header>\n<main>\n"
        )

    def span(self, shared: SharedSpan) -> str:
        """A span, after the ends of those before it."""
        told = shared.told
        closed = self._closed(told.depth)
        opening, closing = _frame(shared)
        self._open.append("".join(map(_said, told.after)) + closing)
        if shared.call is not None:
            opening += _call(shared.call)
        told_inside = "".join(_said(each, _result_language(shared, each)) for each in shared.contents)
        return closed + opening + _annotations(shared.annotations) + told_inside

    def end(self, remark: str) -> str:
        """The ends of all spans that are open, and what was masked."""
        masked = f"<p>{html_text(remark)}</p>\n" if remark else ""
        return (
            f"{self._closed(0)}</main>\n<footer>\n{masked}<p>Recorded by AgentTrace.</p>\n</footer>\n</body>\n</html>\n"
        )


def _plain(html: str) -> str:
    """Elements are no elements in a title."""
    return html.replace("<mark>", "").replace("</mark>", "")


def _bdi(text: str, full: str = "") -> str:
    """A text whose direction is its own; ``full`` is shown by pointing at it."""
    title = f' title="{_plain(html_text(full))}"' if full not in ("", text) else ""
    return f"<bdi{title}>{html_text(text)}</bdi>"


def _frame(shared: SharedSpan) -> tuple[str, str]:
    """Before and after a span and its children."""
    state = " error" if shared.failed else ""
    sums = f'<span class="figures">{html_text(" · ".join(shared.figures))}</span>'
    name = _bdi(shared.title, shared.model)
    if shared.told.row.kind == "turn":
        return f'<section class="turn{state}">\n<h2>{name}{sums}</h2>\n', "</section>\n"
    if shared.told.row.kind == "step":
        role = f'<span class="role">{ROLES["text"]}</span>'
        return f'<div class="step{state}">\n<p class="head">{role} {name}{sums}</p>\n', "</div>\n"
    unfolded = " open" if shared.is_open else ""
    glimpse = _glimpse(shared.call) if shared.call else ""
    head = f"<b>{name}</b>{glimpse}{sums}"
    return f'<details class="tool{state}"{unfolded}>\n<summary>{head}</summary>\n', "</details>\n"


# -- tool calls ---------------------------------------------------------------------------------------------------


def _glimpse(call: ToolCall) -> str:
    sign = "$ " if call.command is not None else ""
    return f' <code class="glimpse" dir="auto">{sign}{html_text(call.summary)}</code>' if call.summary else ""


def _call(call: ToolCall) -> str:
    if call.command is not None:
        return f'<pre class="command" dir="auto">\n$ {_in_pieces(call.command, "bash")}</pre>\n'
    paths = ["", *(edit.path for edit in call.edits)]
    return "".join(_edit(edit, named=edit.path != before) for before, edit in zip(paths, call.edits, strict=False))


def _edit(edit: FileEdit, *, named: bool) -> str:
    path = f'<p class="path">{_bdi(edit.path)}</p>\n' if named and edit.path else ""
    language = language_of(edit.path) if len(edit.before) + len(edit.after) <= LONGEST_CODE else None
    lines = "".join(
        f'<span class="{line.change}">{_SIGNS[line.change]} '
        f"{html_code(line.text, None if line.change == 'skipped' else language)}\n</span>"
        for line in diff_lines(edit)
    )
    return f'{path}<pre class="diff" dir="auto">\n{lines}</pre>\n'


def _result_language(shared: SharedSpan, content: Content) -> str | None:
    """The language of what a call that names a file has read."""
    if content.kind != "result" or shared.call is None or shared.call.command is not None or shared.call.edits:
        return None
    return language_of(shared.call.summary)


# -- texts --------------------------------------------------------------------------------------------------------


def _said(content: Content, language: str | None = None) -> str:
    label = ROLES.get(content.kind, content.kind)
    if content.kind == "text" and len(content.text) <= LONGEST_PROSE:
        return f'<div class="text" dir="auto">\n{html_prose(content.text)}</div>\n'
    # HTML ignores a line end right after the tag; without it the text would lose its own.
    body = f'<pre class="{content.kind}" dir="auto">\n{_in_pieces(content.text, language)}</pre>\n'
    if is_folded(content):
        size = f'<span class="figures">{sized(content.text)}</span>'
        return f'<details class="aside">\n<summary>{label}{size}</summary>\n{body}</details>\n'
    if content.kind == "text":
        return body
    role = "role" if content.kind == "prompt" else "label"
    return f'<p class="{role}">{label}</p>\n{body}'


def _in_pieces(text: str, language: str | None = None) -> str:
    """A long text as blocks that a browser lays out when they are visible: it fails on one block of megabytes."""
    if len(text) <= _PIECE:
        return html_code(text, language)
    return "".join(f'<span class="piece">{html_text(piece)}</span>' for piece in _pieces(text))


def _pieces(text: str) -> Iterable[str]:
    start = 0
    while start < len(text):
        line = text.rfind("\n", start, start + _PIECE) if start + _PIECE < len(text) else -1
        end = line + 1 if line >= start else start + _PIECE
        yield text[start:end]
        start = end


# -- notes and outcomes -------------------------------------------------------------------------------------------


def _annotations(annotations: Sequence[Annotation]) -> str:
    if not annotations:
        return ""
    return f'<ul class="notes">\n{"".join(map(_annotation, annotations))}</ul>\n'


def _annotation(annotation: Annotation) -> str:
    by = html_text(f"{written_by(annotation)}, {when(annotation)}")
    said = html_text(annotation_text(annotation))
    return f'<li dir="auto">{said}<span class="figures">{by}</span></li>\n'


def _outcomes(outcomes: SessionOutcomes | None) -> str:
    if outcomes is None:
        return ""
    return "".join(_table(name, rows) for name, rows in outcome_rows(outcomes))


def _table(name: str, rows: Sequence[tuple[str, str]]) -> str:
    listed = "".join(
        f'<tr><td>{_bdi(what)}</td><td class="number">{html_text(known)}</td></tr>\n'
        for what, known in rows[:MOST_ROWS]
    )
    more = f"<p>{len(rows) - MOST_ROWS:,} more.</p>\n" if len(rows) > MOST_ROWS else ""
    summary = f'<summary>{name}<span class="figures">{len(rows):,}</span></summary>'
    return (
        f'<details class="outcomes" open>\n{summary}\n<table>\n<tbody>\n{listed}</tbody>\n</table>\n{more}</details>\n'
    )
